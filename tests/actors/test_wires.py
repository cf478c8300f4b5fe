"""Which rounds of a branch's last turn are known, whatever turns and attempts began one."""

from typing import Any

import pytest

from mnemosyne.actors.wires import Wires
from mnemosyne.domain.session.events import SessionForgotten
from mnemosyne.domain.session.round_events import RoundBegan, RoundFinished
from mnemosyne.domain.session.state import Address, Session
from mnemosyne.domain.wire import recipe

EMPTY = recipe.encode(recipe.change_of(0, (), 0))


class Bodies:
    known: set[bytes] = set()  # noqa: RUF012  # nothing is ever added


def wires() -> Wires:
    return Wires(Session, Bodies())  # type: ignore[arg-type]  # no body is read here


def began(turn: int, attempt: int = 1, round_: int = 1) -> RoundBegan:
    given: dict[str, Any] = {"epoch": 1, "base": 0, "body": EMPTY, "size": 0, "sha256": b"", "stored_sha256": None}
    return RoundBegan(at=1, branch="main", turn=turn, attempt=attempt, round=round_, kept=0, ends=(), **given)


def finished(turn: int, attempt: int = 1, round_: int = 1) -> RoundFinished:
    told: dict[str, Any] = {"model": None, "stop_reason": "tool_use", "usage": None, "answers": ()}
    return RoundFinished(at=1, branch="main", turn=turn, attempt=attempt, round=round_, reply=EMPTY, **told)


def test_a_round_is_open_from_when_it_began_until_it_finished() -> None:
    known = wires()
    known.note(began(1))
    assert known.open_round(Address("main", 1, 1)) == 1
    known.note(finished(1))
    assert known.open_round(Address("main", 1, 1)) is None
    known.note(began(1, round_=2))
    assert known.open_round(Address("main", 1, 1)) == 2


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_new_turn_knows_nothing_of_the_one_before_whichever_attempt_of_it_we_had_a_hand_in(attempt: int) -> None:
    known = wires()
    for event in (began(1), finished(1), began(2, attempt)):
        known.note(event)
    assert known.open_round(Address("main", 2, attempt)) == 1
    assert known.open_round(Address("main", 2, 3 - attempt)) is None
    assert list(known._finished["main"]) == []


def test_an_earlier_turn_once_more_is_no_part_of_the_last_one() -> None:
    known = wires()
    for event in (began(1), finished(1), began(2), began(1, attempt=2), finished(1, attempt=2)):
        known.note(event)
    assert known.open_round(Address("main", 2, 1)) == 1
    assert list(known._finished["main"]) == []


def test_what_is_forgotten_has_no_open_round() -> None:
    known = wires()
    known.note(began(1))
    known.note(SessionForgotten(at=2))
    assert known.open_round(Address("main", 1, 1)) is None
