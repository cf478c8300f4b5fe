"""Effective tokens: only uses after a request count."""

from typing import Any
from uuid import UUID

from mnemosyne.domain.history.effective import EffectiveTokens, measure_session
from mnemosyne.domain.objects.events import FaultKind, Link, LinkRelation, ObjectFaulted, TurnAssessed
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import BranchKind, BranchOpened, Event
from tests.domain.memory_objects import made
from tests.projections.test_usage import began

OPENED = BranchOpened(
    at=1, branch="main", kind=BranchKind.MAIN, lane="m", parent=None, forked_at=0, kept=0, inherits=False, agent_id=None
)


def recorded(*events: Event) -> list[Recorded[Event]]:
    return [
        Recorded(stream=UUID(int=1), version=number, position=number, envelope=Envelope(event, "c"))
        for number, event in enumerate(events, 1)
    ]


def assessed(turn: int, branch: str = "main") -> TurnAssessed:
    return TurnAssessed(
        at=turn,
        branch=branch,
        turn=turn,
        model=None,
        open_from=0,
        typed=(),
        content=(0, 0),
        head=(0, 0),
        tokens=1,
        usable=1,
        zone="normal",
    )


def fault(object_id: str, turn: int) -> ObjectFaulted:
    return ObjectFaulted(
        at=turn,
        object=object_id,
        branch="main",
        turn=turn,
        kind=FaultKind.MICRO,
        reason="",
        distance=1,
        tokens=1,
        avoided_tokens=0,
        latency=1,
    )


def measured(*events: Event) -> tuple[int, int]:
    found = measure_session(recorded(OPENED, began(1, None), began(2, None), *events))
    return found.sent, found.used


def links(relation: LinkRelation, target: str) -> dict[str, Any]:
    return {"links": (Link(relation, target),)}


def test_a_later_reference_counts_as_use_in_the_requests_before_it() -> None:
    refers = made("b", 2, **links(LinkRelation.DEPENDS_ON, "a"))
    assert measured(made("a", 0), assessed(1)) == (100, 0)
    assert measured(made("a", 0), assessed(1), refers) == (100, 100)
    assert measured(made("a", 0), assessed(1), refers, assessed(2)) == (300, 100)
    assert measured(made("a", 0), assessed(1), refers, assessed(2), fault("a", 3)) == (300, 200)


def test_superseding_or_summarizing_an_object_is_no_use_of_it() -> None:
    later = made("b", 2, **links(LinkRelation.SUPERSEDES, "a"))
    derived = made("c", **links(LinkRelation.REFERENCES, "a"), role=Role.DERIVED)
    assert measured(made("a", 0), assessed(1), later, derived) == (100, 0)


def test_a_branch_without_its_opening_event_is_skipped() -> None:
    assert measured(made("a", 0), assessed(1), made("x", 0, branch="lost"), assessed(1, "lost")) == (100, 0)


def test_without_sent_tokens_there_is_no_share() -> None:
    assert measure_session([]).share is None
    assert EffectiveTokens(200, 50).share == 0.25
