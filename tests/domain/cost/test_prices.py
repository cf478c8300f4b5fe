"""What tokens cost."""

from fractions import Fraction

import pytest

from mnemosyne.domain.cost.prices import (
    MODELS,
    NANODOLLARS,
    PRICES,
    Model,
    Price,
    Tokens,
    cost,
    family_of,
    model_of,
    price_of,
    tokens_of,
    window_of,
)

MILLION = 1_000_000

LISTED = [
    ("claude-fable-5-2", 8, 40, 10, 16, 0.20),
    ("claude-fable-5-1", 10, 50, 12.5, 20, 0.25),
    ("claude-opus-5-5", 4, 20, 5, 8, 0.20),
    ("claude-opus-5", 5, 25, 6.25, 10, 0.50),
    ("claude-opus-4-8", 5, 25, 6.25, 10, 0.50),
    ("claude-opus-4-7", 5, 25, 6.25, 10, 0.50),
    ("claude-opus-4-6", 5, 25, 6.25, 10, 0.50),
    ("claude-opus-4-5", 5, 25, 6.25, 10, 0.50),
    ("claude-sonnet-5-5", 2, 10, 2.5, 4, 0.10),
    ("claude-sonnet-5", 2, 10, 2.5, 4, 0.20),
    ("claude-sonnet-4-6", 3, 15, 3.75, 6, 0.30),
    ("claude-sonnet-4-5", 3, 15, 3.75, 6, 0.30),
    ("claude-haiku-5-5", 0.10, 0.50, 0.125, 0.20, 0.01),
    ("claude-haiku-4-5", 1, 5, 1.25, 2, 0.10),
]
"""Dollars for a million tokens, as the provider lists them: in, out, write 5m, write 1h, read."""


@pytest.mark.parametrize(("model", "given", "answered", "write_5m", "write_1h", "read"), LISTED)
def test_prices_are_those_of_the_list(
    model: str, given: float, answered: float, write_5m: float, write_1h: float, read: float
) -> None:
    price = PRICES[model]
    found = (price.input, price.output, price.write_5m, price.write_1h, price.read)
    assert found == tuple(amount * 1000 for amount in (given, answered, write_5m, write_1h, read))


def test_no_price_is_without_a_test() -> None:
    assert set(PRICES) == {model for model, *_ in LISTED}


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
    ],
)
def test_a_model_is_known_by_its_dates_and_aliases(model: str, known_as: str) -> None:
    assert price_of(model) is PRICES[known_as]


@pytest.mark.parametrize("model", ["claude-opus-5-9", "claude-opus-4-20250514", "claude-haiku", "gpt", "", None])
def test_a_model_that_is_not_listed_has_no_price_rather_than_a_similar_one(model: str | None) -> None:
    assert price_of(model) is None
    assert cost(Tokens(input=1), model) is None


def test_every_kind_of_token_has_its_own_price() -> None:
    tokens = Tokens(input=MILLION, output=MILLION, read=MILLION, write_5m=MILLION, write_1h=MILLION)
    assert cost(tokens, "claude-opus-5") == (5 + 25 + 0.5 + 6.25 + 10) * NANODOLLARS


def test_a_long_prompt_raises_every_price_of_the_model_that_has_such() -> None:
    long = Tokens(input=1, read=100_000, output=10)
    assert cost(long, "claude-haiku-5-5") == 5 * (100 + 100_000 * 10 + 10 * 500)
    assert cost(Tokens(read=100_000), "claude-haiku-5-5") == 100_000 * 10
    assert cost(Tokens(input=200_000), "claude-haiku-4-5") == 200_000 * 1000


def test_many_replies_together_are_priced_by_the_size_of_each() -> None:
    assert cost(Tokens(input=200_000), "claude-haiku-5-5", prompt=50_000) == 200_000 * 100


def test_where_and_how_a_reply_was_made_changes_its_price() -> None:
    tokens = Tokens(input=1000)
    assert cost(tokens, "claude-opus-5-5", geo="us") == 4_400_000
    assert cost(tokens, "claude-opus-5-5", tier="batch") == 2_000_000
    assert cost(tokens, "claude-opus-5-5", tier="batch", geo="us") == 2_200_000
    assert cost(tokens, "claude-opus-5-5", tier="standard", geo="not_available") == 4_000_000


def test_what_was_written_is_split_by_how_long_it_lives() -> None:
    usage = {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }
    assert tokens_of(usage) == Tokens(input=3, output=5, read=7, write_5m=10, write_1h=20)
    assert Tokens(input=3, output=5, read=7, write_5m=10, write_1h=20).prompt == 40


def test_writes_that_are_not_split_live_five_minutes() -> None:
    assert tokens_of({"input_tokens": 3, "cache_creation_input_tokens": 30}) == Tokens(input=3, write_5m=30)


def test_usage_that_says_nothing_about_tokens_is_unknown_and_not_zero() -> None:
    assert tokens_of({}) is None
    assert tokens_of({"prompt_tokens": 5}) is None
    assert tokens_of({"input_tokens": 0}) == Tokens()


def test_sums_are_sums_of_each_kind() -> None:
    assert Tokens(1, 2, 3, 4, 5) + Tokens(10, 20, 30, 40, 50) == Tokens(11, 22, 33, 44, 55)


def test_a_price_knows_what_writing_costs() -> None:
    assert (Price(100, 0, read=0).write_5m, Price(100, 0, read=0).write_1h) == (125, 200)


def test_tokens_are_worth_their_price_in_plain_input() -> None:
    price = PRICES["claude-haiku-5-5"]
    assert price.equivalents(Tokens(input=1, read=10, write_5m=4, write_1h=1)) == 1 + 1 + 5 + 2
    assert price.equivalents(Tokens(read=1)) == Fraction(1, 10)
    assert price.equivalents(Tokens(input=100_001)) == 5 * 100_001


SMALLEST = {
    512: ("fable-5-2", "mythos-5-1", "opus-5-5", "sonnet-5-5", "haiku-5-5", "opus-5"),
    1024: ("opus-4-8", "sonnet-5", "sonnet-4-6", "sonnet-4-5", "opus-4-1"),
    2048: ("opus-4-7",),
    4096: ("opus-4-6", "opus-4-5", "haiku-4-5"),
}
"""Tokens of the smallest prompt that is cached, as the documentation lists them."""


@pytest.mark.parametrize(("smallest", "models"), SMALLEST.items())
def test_the_smallest_cached_prompt_is_that_of_the_list(smallest: int, models: tuple[str, ...]) -> None:
    assert {model_of(f"claude-{name}").cache_minimum for name in models} == {smallest}


def test_every_priced_model_has_its_row_and_every_row_is_in_the_list() -> None:
    listed = {family_of(f"claude-{name}") for names in SMALLEST.values() for name in names}
    assert listed == set(MODELS)
    assert {family_of(name) for name in PRICES} <= listed


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-50", ""),
        ("claude-sonnet-4-6[1m]", "claude-sonnet-4-6"),
        ("another", ""),
    ],
)
def test_a_model_belongs_to_the_longest_family_name_in_its_own(model: str, family: str) -> None:
    assert family_of(model) == family


@pytest.mark.parametrize("name", [None, "", "claude-another-6"])
def test_an_unknown_model_is_taken_for_a_current_one(name: str | None) -> None:
    assert model_of(name) == Model(512)


def test_one_model_has_a_small_window_and_the_old_ones_drop_thinking() -> None:
    assert {name for name, model in MODELS.items() if model.window != 1_000_000} == {"claude-haiku-4-5"}
    old = {"claude-opus-4-1", "claude-sonnet-4-5", "claude-haiku-4-5"}
    assert {name for name, model in MODELS.items() if not model.keeps_thinking} == old


TOOL_PROMPTS = {"opus-5": 286, "opus-4-8": 290, "opus-4-7": 675, "sonnet-5": 354, "sonnet-4-5": 497, "opus-5-5": None}
"""Tokens of the system prompt that tools bring with them, as far as it is documented."""


@pytest.mark.parametrize(("model", "tokens"), TOOL_PROMPTS.items())
def test_tools_bring_the_documented_system_prompt(model: str, tokens: int | None) -> None:
    assert model_of(f"claude-{model}").tool_prompt == tokens


def entry(kind: str, read: int) -> dict[str, object]:
    return {"type": kind, "input_tokens": 1, "cache_read_input_tokens": read, "output_tokens": 7}


SUMMED = {"input_tokens": 3, "cache_read_input_tokens": 900, "output_tokens": 21}


@pytest.mark.parametrize(
    ("iterations", "read"),
    [
        ([entry("message", 400), entry("message", 500)], 500),
        ([entry("message", 400), entry("fallback_message", 500)], 500),
        ([entry("message", 500), entry("compaction", 30), entry("advisor_message", 90)], 500),
    ],
)
def test_the_window_of_a_reply_of_several_rounds_is_the_last_rounds(iterations: list[object], read: int) -> None:
    assert window_of({**SUMMED, "iterations": iterations}) == Tokens(input=1, read=read, output=21)


@pytest.mark.parametrize(
    "iterations", [None, [], 5, ["message"], [entry("compaction", 9)], [{"type": "message"}], [{"type": ["message"]}]]
)
def test_the_window_of_a_reply_that_tells_of_no_rounds_is_all_that_it_used(iterations: object) -> None:
    assert window_of({**SUMMED, "iterations": iterations}) == tokens_of(SUMMED) == window_of(SUMMED)
    assert window_of({"iterations": iterations}) is None
