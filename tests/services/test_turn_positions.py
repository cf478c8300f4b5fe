"""A turn's position is found from rows: on its own branch, or on the one that its branch inherited it from."""

from typing import Any, cast
from uuid import UUID

import pytest

from mnemosyne.domain.history.time_travel import TurnPlace
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.services.sessions import Archive
from mnemosyne.services.turn_positions import find_position
from tests.services.answers import Answers

STREAM = UUID(int=1)


class Unnamed:
    """A log in which no turn has a name."""

    events = property(lambda self: self)

    async def select(self, *_: object) -> tuple[()]:
        return ()


def branch(name: str, parent: str | None = None, forked_at: int = 0) -> dict[str, Any]:
    kind = "main" if parent is None else "fork"
    return {"branch": name, "parent": parent, "forked_at": forked_at, "inherits": parent is not None, "kind": kind}


def taken(on: str, turn: int, attempt: int = 1, rounds: int = 1) -> dict[str, Any]:
    return {"branch": on, "turn": turn, "attempt": attempt, "rounds": rounds, "began_at": turn, "state": "finished"}


def models(*rows: dict[str, Any], forgotten_at: int | None = None) -> Answers:
    return Answers(
        {
            ("timeline", "session"): [{"forgotten_at": forgotten_at}],
            ("timeline", "branches"): [branch("main"), branch("fork", "main", 4), branch("late", "fork", 6)],
            ("timeline", "ends"): [{"branch": "main", "last": 9}, {"branch": "fork", "last": 7}],
            ("timeline", "turn"): list(rows),
        }
    )


async def position(held: Answers, on: str, place: TurnPlace) -> tuple[int, int, int, int | None, int | None]:
    found = await find_position(cast("Archive", Unnamed()), held, STREAM, on, place)
    return found.turn, found.attempt, found.attempts, found.previous, found.following


async def test_an_inherited_turn_is_found_on_its_owner_s_branch() -> None:
    shared = models(taken("main", 3), taken("main", 3, 2))
    assert await position(shared, "main", TurnPlace(3)) == (3, 2, 2, 2, 4)
    assert await position(shared, "fork", TurnPlace(3, 1)) == (3, 1, 2, 2, 4)
    assert await position(shared, "late", TurnPlace(3)) == (3, 2, 2, 2, 4)
    own = models(taken("main", 6), taken("fork", 6, 1))
    assert await position(own, "late", TurnPlace(6)) == (6, 1, 1, 5, None)  # it has no turn of its own yet


@pytest.mark.parametrize(
    ("on", "place", "said"),
    [
        ("nobody", TurnPlace(3), "no branch 'nobody'"),
        ("fork", TurnPlace(3, 3), "has 2 attempts, and not 3"),
        ("main", TurnPlace(3, 2, 2), "has 1 round, and not 2"),
        ("main", TurnPlace(12), "turns 1 to 9, and not 12"),
    ],
)
async def test_a_missing_branch_turn_attempt_or_round_is_reported(on: str, place: TurnPlace, said: str) -> None:
    rows = (taken("main", 3), taken("main", 3, 2)) if place.turn == 3 else ()
    with pytest.raises(NotFound, match=said):
        await position(models(*rows), on, place)


async def test_a_deleted_turn_is_reported_before_anything_is_read() -> None:
    with pytest.raises(ContentForgotten):
        await position(models(taken("main", 3), forgotten_at=5), "main", TurnPlace(3))
    assert await position(models(taken("main", 6), forgotten_at=5), "main", TurnPlace(6))
