"""A subscription's windows, and the sessions whose replies used them."""

from typing import Any
from uuid import UUID

from mnemosyne.services.quota import QuotaWindow, windows_of

ONE, OTHER = UUID(int=1), UUID(int=2)


def row(stream: UUID, at: int, used: int, reset: int = 100, span: str = "5h") -> dict[str, Any]:
    return {"stream": stream, "span": span, "at": at, "used": used, "reset": reset, "status": "allowed"}


def test_a_session_used_the_increase_of_a_window_with_its_replies() -> None:
    rows = [row(ONE, 1, 400_000), row(OTHER, 2, 430_000), row(ONE, 3, 450_000), row(ONE, 4, 450_000)]
    (found,) = windows_of(rows)
    assert found == QuotaWindow(span="5h", at=4, used=0.45, reset=100, status="allowed", taken={OTHER: 0.03, ONE: 0.02})


def test_a_reset_window_starts_from_its_first_report() -> None:
    rows = [row(ONE, 1, 900_000), row(ONE, 2, 20_000, reset=200), row(ONE, 3, 30_000, reset=200)]
    rows += [row(ONE, 3, 7_000, span="7d")]
    five, seven = windows_of(rows)
    assert (five.used, five.taken) == (0.03, {ONE: 0.01})
    assert (seven.span, seven.used, seven.taken) == ("7d", 0.007, {})
