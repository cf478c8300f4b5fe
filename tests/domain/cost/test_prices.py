"""The cost of tokens at a price, and the counts in a reply's usage."""

import pytest

from mnemosyne.domain.cost.prices import Price, Tokens, find_last_usage, reports_cache, tokens_of, window_of


def test_cache_writes_are_split_by_lifetime() -> None:
    usage = {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }
    assert tokens_of(usage) == Tokens(input=3, output=5, read=7, write_5m=10, write_1h=20)
    assert Tokens(input=3, output=5, read=7, write_5m=10, write_1h=20).prompt == 40


@pytest.mark.parametrize(
    ("split", "write_5m", "write_1h"),
    [
        ({"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 100}, 900, 100),
        ({"ephemeral_1h_input_tokens": 100}, 900, 100),
        ({"ephemeral_5m_input_tokens": 300}, 1_000, 0),
        ({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, 1_000, 0),
        ({"ephemeral_5m_input_tokens": 700, "ephemeral_1h_input_tokens": 500}, 700, 500),
    ],
)
def test_written_tokens_that_a_split_omits_are_counted(split: dict[str, int], write_5m: int, write_1h: int) -> None:
    usage = {"input_tokens": 0, "cache_creation_input_tokens": 1_000, "cache_creation": split}
    assert tokens_of(usage) == Tokens(write_5m=write_5m, write_1h=write_1h)


@pytest.mark.parametrize(
    ("usage", "tells"),
    [
        ({"input_tokens": 5, "output_tokens": 5}, False),
        ({"input_tokens": 5, "cache_read_input_tokens": None, "cache_creation_input_tokens": None}, False),
        ({"input_tokens": 5, "cache_read_input_tokens": 0}, True),
        ({"input_tokens": 5, "cache_creation_input_tokens": 7}, True),
    ],
)
def test_a_zero_count_reports_the_cache_and_a_missing_one_does_not(usage: dict[str, object], tells: bool) -> None:
    assert reports_cache(usage) is tells


def test_writes_without_a_split_live_five_minutes() -> None:
    assert tokens_of({"input_tokens": 3, "cache_creation_input_tokens": 30}) == Tokens(input=3, write_5m=30)


def test_usage_without_counts_is_unknown_and_not_zero() -> None:
    assert tokens_of({}) is None
    assert tokens_of({"prompt_tokens": 5}) is None
    assert tokens_of({"input_tokens": 0}) == Tokens()
    assert tokens_of({"input_tokens": -5, "output_tokens": "7"}) is None


def test_the_cost_of_any_reported_usage_fits_into_64_bits() -> None:
    """The log cannot store a larger one, and would lose the event with the actor of its session."""
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    for count in (10**9, 10**10, 2**62, 2**63 - 1, 10**30):
        used = tokens_of(dict.fromkeys(names, count))
        assert used is None or Price(10**6, 10**6, read=10**6).nanodollars(used) < 2**63
    assert tokens_of({"input_tokens": 2_000_000}) == Tokens(input=2_000_000)


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
def test_the_context_of_a_reply_of_several_rounds_is_that_of_the_last_round(
    iterations: list[object], read: int
) -> None:
    assert window_of({**SUMMED, "iterations": iterations}) == Tokens(input=1, read=read, output=21)


@pytest.mark.parametrize(
    "iterations", [None, [], 5, ["message"], [entry("compaction", 9)], [{"type": "message"}], [{"type": ["message"]}]]
)
def test_the_context_of_a_reply_without_reported_rounds_is_its_whole_usage(iterations: object) -> None:
    assert window_of({**SUMMED, "iterations": iterations}) == tokens_of(SUMMED) == window_of(SUMMED)
    assert window_of({"iterations": iterations}) is None


def test_a_round_that_was_interrupted_before_its_first_count_costs_nothing() -> None:
    first = Tokens(10, 4, read=3)
    assert find_last_usage(Tokens(10, 4, read=3), [first]) is None
    assert find_last_usage(Tokens(10, 5, read=3), [first]) == Tokens(10, 1, read=3)
    assert find_last_usage(Tokens(12, 4, read=3), [first]) == Tokens(12, 0, read=3)
