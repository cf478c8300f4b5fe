"""Pictures of numbers."""

import pytest

from mnemosyne.cli.figures import count_text, dollars_text, printable, seconds_text
from mnemosyne.cli.plotting import braille


def test_a_rising_line_fills_the_picture_from_the_left_below_to_the_right_above() -> None:
    assert braille([1, 2, 3, 4], width=2, height=1) == ["4 ⣠⣾"]
    assert braille([0, 8], width=2, height=2) == ["8 ⠀⣿", "0 ⣀⣿"]


def test_many_values_keep_their_peaks() -> None:
    values = [1] * 1000
    values[501] = 100
    rows = braille(values, width=10, height=2)
    assert len(rows[0]) == len("100 ") + 10
    assert sum(rows[0].count(half) for half in "⢸⡇") == 1


@pytest.mark.parametrize("values", [[], [0], [0, 0, 0], [5]])
def test_nothing_is_no_trouble(values: list[int]) -> None:
    assert len(braille(values, width=5, height=3)) == 3


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0"), (9999, "9999"), (10_000, "10.0k"), (3_169_100, "3.2M"), (5 * 10**9, "5.0G")],
)
def test_counts_are_short(count: int | None, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("nanodollars", "text"),
    [(None, "?"), (0, "$0.00"), (40_000, "$0.0000"), (12_345_678, "$0.0123"), (12_345_678_900, "$12.35")],
)
def test_small_amounts_have_more_digits(nanodollars: int | None, text: str) -> None:
    assert dollars_text(nanodollars) == text


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(None, "-"), (350_000, "0.3 s"), (59_940_000, "59.9 s"), (123_000_000, "2 min 03"), (7_380_000_000, "2 h 03")],
)
def test_durations_are_short(microseconds: int | None, text: str) -> None:
    assert seconds_text(microseconds) == text


def test_a_name_cannot_command_the_terminal() -> None:
    assert printable("a\x1b[31m\nb") == "a\ufffd[31m\ufffdb"
