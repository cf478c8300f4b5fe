"""The use of a subscription is attributed to sessions, branches and turns, separately for each account."""

from typing import Any
from uuid import UUID

from mnemosyne.services.quota import add_up_shares, shares_of, shares_of_branches, uses_of, windows_of

ONE, OTHER = UUID(int=1), UUID(int=2)
SECOND = 1_000_000
RESET, LATER = 10_000 * SECOND, 28_000 * SECOND


def row(stream: UUID, turn: int, at: int, used: int, **columns: Any) -> dict[str, Any]:
    """A reply whose request arrived a second before its headers and which ended a second after them."""
    times = {"began": (at - 1) * SECOND, "at": at * SECOND, "ended": (at + 1) * SECOND}
    stated = {"span": "5h", "account": "a", "used": used, "reset": RESET, "status": "allowed", "tokens": 100}
    return {"stream": stream, "branch": "main", "turn": turn, "attempt": 1, **times, **stated, **columns}


def test_a_session_used_the_increase_of_a_window_with_its_replies() -> None:
    rows = [row(ONE, 1, 10, 400_000), row(OTHER, 1, 20, 430_000), row(ONE, 2, 30, 450_000), row(ONE, 3, 40, 450_000)]
    (window,) = windows_of(rows)
    assert (window.span, window.at, window.used, window.reset) == ("5h", 41 * SECOND, 0.45, RESET)
    assert window.taken == {OTHER: 0.03, ONE: 0.02}


def test_a_reset_window_starts_from_its_first_report() -> None:
    rows = [row(ONE, 1, 10, 900_000), row(ONE, 2, 20, 20_000, reset=LATER), row(ONE, 3, 30, 30_000, reset=LATER)]
    five, seven = windows_of([*rows, row(ONE, 3, 30, 7_000, span="7d")])
    assert (five.used, five.taken) == (0.03, {ONE: 0.01})
    assert (seven.span, seven.used, seven.taken) == ("7d", 0.007, {})


def test_two_accounts_do_not_mix() -> None:
    rows = [row(ONE, 1, 10, 100_000), row(OTHER, 1, 20, 700_000, account="b"), row(ONE, 2, 30, 110_000)]
    assert [(window.account, window.used, window.taken) for window in windows_of(rows)] == [
        ("b", 0.7, {}),
        ("a", 0.11, {ONE: 0.01}),
    ]
    assert add_up_shares(shares_of(rows)["5h"], lambda key: key[:2]) == {(ONE, "main"): 0.01}


def test_a_turn_shows_the_use_before_and_after_it_and_a_session_its_own_part() -> None:
    rows = [row(OTHER, 1, 10, 100_000), row(ONE, 1, 20, 120_000), row(OTHER, 2, 30, 170_000), row(ONE, 2, 40, 200_000)]
    (turn,) = uses_of(rows, lambda key: key == (ONE, "main", 2, 1))
    assert (turn.before, turn.used, turn.taken) == (0.17, 0.2, 0.03)
    (session,) = uses_of(rows, lambda key: key[0] == ONE)
    assert (session.before, session.used, round(session.taken, 6)) == (0.1, 0.2, 0.05)


def test_the_branches_of_a_session_share_its_use() -> None:
    rows = [row(ONE, 1, 10, 100_000), row(ONE, 1, 20, 150_000, branch="agent-1"), row(OTHER, 1, 30, 170_000)]
    shares = shares_of_branches([*rows, row(ONE, 2, 40, 180_000)], ONE)
    assert (shares["main"], shares["agent-1"]) == ({"5h": 0.01}, {"5h": 0.05})
