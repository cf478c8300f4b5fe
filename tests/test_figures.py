"""Numbers, money and durations as text, on pages and in terminals."""

import pytest

from mnemosyne.figures import age_text, bytes_text, count_text, dollars_text, percent_text, printable, seconds_text


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
        (-11_670, "-11.7k"),
    ],
)
def test_counts_are_short(count: float | None, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("nanodollars", "text"),
    [
        (None, "?"),
        (0, "$0.00"),
        (1, "$0.0000000010"),
        (40_000, "$0.000040"),
        (12_345_678, "$0.012"),
        (-82_400_000, "-$0.082"),
        (50_000_000, "$0.050"),
        (99_900_000, "$0.10"),
        (123_400_000, "$0.12"),
        (1_234_567_000_000, "$1,234.57"),
    ],
)
def test_amounts_have_two_decimals_and_below_ten_cents_two_significant_digits(
    nanodollars: int | None, text: str
) -> None:
    assert dollars_text(nanodollars) == text


@pytest.mark.parametrize(("nanodollars", "text"), [(None, "?"), (0, "$0.00+"), (1_430_000_000, "$1.43+")])
def test_an_amount_that_omits_replies_without_a_price_is_marked(nanodollars: int | None, text: str) -> None:
    assert dollars_text(nanodollars, partial=True) == text


@pytest.mark.parametrize(
    ("share", "digits", "text"), [(0.806, 0, "81 %"), (0.125, 1, "12.5 %"), (-0.02, 0, "-2 %"), (0, 0, "0 %")]
)
def test_blank_is_before_the_percent_sign(share: float, digits: int, text: str) -> None:
    assert percent_text(share, digits) == text


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(None, "-"), (350_000, "0.3 s"), (59_940_000, "59.9 s"), (123_000_000, "2 min 03"), (7_380_000_000, "2 h 03")],
)
def test_durations_are_short(microseconds: int | None, text: str) -> None:
    assert seconds_text(microseconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 KB"), (2 * 10**13, "20.0 TB")])
def test_sizes_are_short(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "now"), (59, "now"), (60, "1 min ago"), (7_200, "2 h ago"), (172_800, "2 d ago")]
)
def test_ages_are_relative(seconds: int, text: str) -> None:
    assert age_text(seconds * 1_000_000) == text


def test_name_cannot_control_the_terminal() -> None:
    assert printable("a\x1b[31m\nb") == "a\ufffd[31m⏎b"
