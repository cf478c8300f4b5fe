"""The catalogue of models: its contents, and the files it accepts."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from mnemosyne.domain.cost.catalogue import (
    CURRENT,
    Family,
    Model,
    catalogue_of,
    cost,
    family_of,
    in_force,
    load_shipped,
    model_of,
    overlay,
    price_of,
    read_tables,
    small_model_of,
    tokenizer_of,
)
from mnemosyne.domain.cost.prices import NANODOLLARS, Price, Terms, Tokens, size_class
from mnemosyne.errors import BadConfiguration
from tests.not_none import not_none
from tests.tables import other_tables

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "known_as"),
    [
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-opus-4-5-latest", "claude-opus-4-5"),
        ("claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("claude-opus-5-20260101", "claude-opus-5"),
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-sonnet-4-6[1m]", "claude-sonnet-4-6"),
        ("anthropic.claude-opus-5-v1:0:200k", "claude-opus-5"),
        ("us-gov.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("openrouter/anthropic/claude-opus-5.5:beta", "claude-opus-5-5"),
        ("claude-opus-5-5@default", "claude-opus-5-5"),
        ("gpt-6.2-sol-2026-11-19", "gpt-6.2-sol"),
        ("openai/gpt-5.5", "gpt-5.5"),
        ("openai.gpt-6-luna", "gpt-6-luna"),
    ],
)
def test_a_model_is_recognized_under_dates_and_aliases(model: str, known_as: str) -> None:
    assert price_of(model) is in_force().prices[known_as]


@pytest.mark.parametrize(
    "model",
    [
        *("anthropic/claude-opus-5:free", "openai/gpt-oss-120b", "gpt-6.2-astra", "gpt-5.6-sol", "claude-opus-5-9"),
        *("claude-opus-4-20250514", "claude-opus-50", "claude-haiku", "gpt", "", None),
    ],
)
def test_an_unlisted_model_has_no_price_rather_than_that_of_a_similar_one(model: str | None) -> None:
    assert price_of(model) is None
    assert cost(Tokens(input=1), model) is None


@pytest.mark.parametrize(
    ("model", "small"),
    [
        ("claude-opus-5-5", "claude-haiku-5-5"),
        ("claude-sonnet-5-20260101", "claude-haiku-5-5"),
        ("gpt-6.1-sol", "gpt-6-luna"),
        ("openai/gpt-6-sol", None),
        ("us.anthropic.claude-opus-5-v1:0", None),
        ("qwen3:4b", None),
        (None, None),
    ],
)
def test_the_small_model_of_a_provider_is_its_cheapest(model: str | None, small: str | None) -> None:
    assert small_model_of(model) == small


def test_every_kind_of_token_has_its_own_price() -> None:
    tokens = Tokens(input=MILLION, output=MILLION, read=MILLION, write_5m=MILLION, write_1h=MILLION)
    assert cost(tokens, "claude-opus-5") == (5 + 25 + 0.5 + 6.25 + 10) * NANODOLLARS


def test_a_long_prompt_raises_every_price_of_a_model_with_long_prompt_prices() -> None:
    long = Tokens(input=1, read=100_000, output=10)
    assert cost(long, "claude-haiku-5-5") == 5 * (100 + 100_000 * 10 + 10 * 500)
    assert cost(Tokens(read=100_000), "claude-haiku-5-5") == 100_000 * 10
    assert cost(Tokens(input=200_000), "claude-haiku-4-5") == 200_000 * 1000


def test_the_sum_of_replies_is_priced_by_the_size_of_each() -> None:
    assert cost(Tokens(input=200_000), "claude-haiku-5-5", prompt=50_000) == 200_000 * 100


def test_every_priced_model_has_a_row() -> None:
    assert {family_of(name) for name in in_force().prices} <= set(in_force().models)


@pytest.mark.parametrize("name", [None, "", "claude-another-6"])
def test_an_unknown_model_counts_as_a_current_one(name: str | None) -> None:
    assert model_of(name) == CURRENT == Model(512)


OLD, NEW = Family("old", 1.0, 0.05), Family("new", 1.38, 0.15)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-4-5-20251101", OLD),
        ("claude-sonnet-4-6", OLD),
        ("claude-haiku-4-5", OLD),
        ("claude-opus-4-7", NEW),
        ("claude-opus-5-5", NEW),
        ("claude-haiku-5-5", NEW),
        ("a-model-of-tomorrow", NEW),
        (None, NEW),
    ],
)
def test_each_model_has_a_tokenizer_and_an_unknown_one_the_newest(model: str | None, expected: Family) -> None:
    assert tokenizer_of(model) == expected


NEW_MODEL = """
[prices]
claude-opus-6 = { input = 3, output = 15.5, read = 0.075 }
claude-opus-5-5 = { read = 0.1 }
"qwen3.5" = { input = 0.001, output = 0.002, read = 0 }

[models]
claude-opus-6 = { cache_minimum = 256, window = 2_000_000 }

[tokenizers.old]
names = ["qwen"]
"""


def test_a_new_model_can_be_added_by_a_file() -> None:
    with other_tables(read_tables(NEW_MODEL, "mine.toml")):
        assert price_of("claude-opus-6-20270101") == Price(3_000, 15_500, read=75)
        assert model_of("claude-opus-6") == Model(256, window=2_000_000)
        assert price_of("claude-opus-5-5") == Price(4_000, 20_000, read=100, fast=2)
        assert (tokenizer_of("qwen3.5"), tokenizer_of("claude-3-5-haiku")) == (OLD, OLD)
    assert price_of("claude-opus-6") is None
    assert price_of("claude-opus-5-5") == Price(4_000, 20_000, read=200, fast=2)


@pytest.mark.parametrize(
    ("model", "prompt", "dollars"),
    [
        ("gpt-6.2-sol", 272_000, 272_000 * 2 + 1_000 * 10),
        ("gpt-6.2-sol", 272_001, 272_001 * 4 + 1_000 * 15),
        ("claude-haiku-5-5", 100_001, Fraction(100_001 * 5, 10) + 1_000 * 5 // 2),
        ("gpt-5.5", 400_000, 400_000 * 5 + 1_000 * 30),
    ],
)
def test_the_long_prompt_price_begins_at_the_models_own_size(model: str, prompt: int, dollars: Fraction | int) -> None:
    assert cost(Tokens(input=prompt, output=1_000), model) == dollars * 1_000
    assert cost(Tokens(input=prompt, output=1_000), model, prompt=size_class(prompt)) == dollars * 1_000


def test_a_models_file_may_only_name_sizes_that_read_models_distinguish() -> None:
    with pytest.raises(BadConfiguration, match=r"long_from = 5: it must be one of 100000, 272000"):
        catalogue_of(overlay(load_shipped(), read_tables("[prices]\ngpt-6-sol = { long_from = 5 }", "x")), "x")


WRONG = [
    ("[prices", "is not TOML"),
    ("[price]\na = 1", "has an unknown table [price]"),
    ("prices = 3", "[prices] is not a table"),
    ("[prices]\nm = 3", "[prices] m is not a table"),
    ("[prices]\nm = { inputs = 3 }", "[prices] m has an unknown key inputs; known names are input, output, read"),
    ("[prices]\nm = { input = 3, output = 4 }", "[prices] m: read is missing"),
    (
        '[prices]\nm = { input = "3", output = 4, read = 0 }',
        "[prices] m: input = '3': it must be in dollars per million",
    ),
    ("[prices]\nm = { input = true, output = 4, read = 0 }", "[prices] m: input = True: it must be in dollars per"),
    ("[prices]\nm = { input = nan, output = 4, read = 0 }", "[prices] m: input = NaN: it must be in dollars per"),
    ("[prices]\nm = { input = 0, output = 4, read = 0 }", "[prices] m: input = 0: a price must be above 0"),
    (
        "[prices]\nm = { input = 1, output = 4, read = 0.0005 }",
        "[prices] m: read = 0.0005: at most three decimal places",
    ),
    ("[models]\nm = { cache_minimum = -1 }", "[models] m: cache_minimum = -1: it must be an integer above 0"),
    ("[models]\nclaude-opus-5 = { window = 1.5 }", "[models] claude-opus-5: window = 1.5: it must be an integer"),
    ("[models]\nclaude-opus-5 = { keeps_thinking = 1 }", "keeps_thinking = 1: it must be true or false"),
    (
        '[tariffs]\nt = { units = ["pounds"], caching = "prefix", slots = 1 }',
        "units = ['pounds']: it must be a list with any of dollars",
    ),
    (
        '[tariffs]\nt = { units = ["dollars"], caching = 1, slots = 1 }',
        "caching = 1: it must be one of markers, prefix",
    ),
    ('[tariffs]\nt = { units = ["quota"], caching = "prefix", slots = 1 }', "[tariffs] t: read is missing"),
    ("[tariffs]\napi = { read = -1 }", "[tariffs] api: read = -1: it must be a number of at least 0"),
    ("[tariffs]\napi = { seconds = 0 }", "[tariffs] api: seconds = 0: it must be in seconds, or inf"),
    (
        "[tokenizers]\nt = { scale = 0, doubt = 0.1, names = [] }",
        "[tokenizers] t: scale = 0: it must be a number above 0",
    ),
    (
        "[tokenizers]\nt = { scale = 1, doubt = 0.1, names = [3] }",
        "[tokenizers] t: names = [3]: it must be a list of names",
    ),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_an_error_in_a_file_is_reported_with_file_table_row_and_key(text: str, expected: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        catalogue_of(overlay(load_shipped(), read_tables(text, "mine.toml")), "mine.toml")
    assert expected in str(refused.value)
    assert "mine.toml" in str(refused.value)


def test_a_digest_depends_on_the_values_of_a_table_and_not_on_their_notation() -> None:
    def digest(over: dict[str, Any]) -> bytes:
        return catalogue_of(overlay(load_shipped(), over), "of a test").digest

    same = digest({})
    assert digest({"models": {"claude-opus-5-5": {"cache_minimum": 512}}}) == same == in_force().digest
    assert digest({"models": {"claude-opus-5-5": {"window": 1}}}) != same
    assert digest({"prices": {"claude-opus-5-5": {"read": Decimal("0.21")}}}) != same


ONE = Tokens(input=1_000, output=100)


@pytest.mark.parametrize(
    ("model", "terms", "times"),
    [
        ("claude-opus-5", Terms(speed="fast"), 2),
        ("claude-opus-5-5", Terms(geo="us"), Fraction(11, 10)),
        ("claude-opus-5-5", Terms(tier="batch"), Fraction(1, 2)),
        ("claude-opus-5-5", Terms(tier="batch", geo="us"), Fraction(11, 20)),
        ("claude-opus-5", Terms(speed="standard", tier="standard", geo="not_available"), 1),
        ("claude-opus-5", Terms(speed="fast", geo="us"), Fraction(22, 10)),
        ("gpt-6.2-sol", Terms(tier="fast"), 2),
        ("gpt-6.2-sol", Terms(tier="flex"), Fraction(1, 2)),
        ("claude-sonnet-5", Terms(speed="fast"), None),
        ("claude-sonnet-5", Terms(speed="another"), None),
        ("claude-sonnet-5", Terms(tier="priority"), None),
        ("claude-sonnet-5", Terms(geo="mars"), None),
    ],
)
def test_terms_change_the_price_and_unknown_terms_have_none(
    model: str, terms: Terms, times: Fraction | int | None
) -> None:
    plain = not_none(cost(ONE, model))
    assert cost(ONE, model, terms=terms) == (None if times is None else plain * times)


def test_a_web_search_is_charged_in_addition_to_tokens_in_every_tier() -> None:
    for terms in (Terms(searches=10), Terms(searches=10, tier="batch")):
        without = cost(ONE, "claude-sonnet-5", terms=Terms(tier=terms.tier))
        assert cost(ONE, "claude-sonnet-5", terms=terms) == (without or 0) + NANODOLLARS // 10
