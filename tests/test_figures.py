"""Numbers, money and durations as text, on pages and in terminals."""

import pytest

from mnemosyne.figures import count_text, dollars_text, printable, seconds_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"),
        (0, "0"),
        (999.6, "1000"),
        (9999, "9999"),
        (10_000, "10.0k"),
        (3_169_100, "3.2M"),
        (5 * 10**9, "5.0G"),
    ],
)
def test_counts_are_short(count: float | None, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("nanodollars", "text"),
    [
        (None, "?"),
        (0, "$0.00"),
        (40_000, "$0.0000"),
        (12_345_678, "$0.0123"),
        (12_345_678_900, "$12.35"),
        (-82_400_000, "-$0.0824"),
    ],
)
def test_small_amounts_have_more_digits(nanodollars: int | None, text: str) -> None:
    assert dollars_text(nanodollars) == text


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(None, "-"), (350_000, "0.3 s"), (59_940_000, "59.9 s"), (123_000_000, "2 min 03"), (7_380_000_000, "2 h 03")],
)
def test_durations_are_short(microseconds: int | None, text: str) -> None:
    assert seconds_text(microseconds) == text


def test_name_cannot_control_the_terminal() -> None:
    assert printable("a\x1b[31m\nb") == "a\ufffd[31m\ufffdb"
