"""Values are formatted compactly for users."""

import pytest

from mnemosyne.http.inspector.formatting import DASH, MINUS, money_text, time_text, tokens_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, DASH),
        (0, "0"),
        (999, "999"),
        (9_999, "9999"),
        (99_949, "99.9k"),
        (123_456, "123.5k"),
        (2_500_000, "2.5M"),
    ],
)
def test_tokens(count: int | None, text: str) -> None:
    assert tokens_text(count) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "?"), (0, "$0.00"), (12_340_000, "$0.012"), (12_340_000_000, "$12.34"), (-82_400_000, f"{MINUS}$0.082")],
)
def test_money(amount: int | None, text: str) -> None:
    assert money_text(amount) == text


def test_a_time_beyond_the_calendar_is_formatted() -> None:
    assert time_text(0) == "1970-01-01 00:00:00"
    assert time_text(2**62).startswith("9998")
