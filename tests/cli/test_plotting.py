"""Pictures of numbers."""

import pytest

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
