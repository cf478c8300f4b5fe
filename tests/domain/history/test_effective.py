"""Effective tokens: only uses after a request count."""

from typing import Any

from mnemosyne.domain.history.effective import EffectiveTokens, measure_session
from mnemosyne.domain.objects.events import Link, LinkRelation
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.session.events import Event
from tests.domain.memory_objects import made
from tests.domain.remembered import faulted
from tests.domain.session_events import assessed, began, opened_branch, recorded


def measured(*events: Event) -> tuple[int, int]:
    found = measure_session(recorded(opened_branch(), began(1, None), began(2, None), *events))
    return found.sent, found.used


def links(relation: LinkRelation, target: str) -> dict[str, Any]:
    return {"links": (Link(relation, target),)}


def test_a_later_reference_counts_as_use_in_the_requests_before_it() -> None:
    refers = made("b", 2, **links(LinkRelation.DEPENDS_ON, "a"))
    assert measured(made("a", 0), assessed(1)) == (100, 0)
    assert measured(made("a", 0), assessed(1), refers) == (100, 100)
    assert measured(made("a", 0), assessed(1), refers, assessed(2)) == (300, 100)
    assert measured(made("a", 0), assessed(1), refers, assessed(2), faulted("a", 3)) == (300, 200)


def test_superseding_or_summarizing_an_object_is_no_use_of_it() -> None:
    later = made("b", 2, **links(LinkRelation.SUPERSEDES, "a"))
    derived = made("c", **links(LinkRelation.REFERENCES, "a"), role=Role.DERIVED)
    assert measured(made("a", 0), assessed(1), later, derived) == (100, 0)


def test_a_branch_without_its_opening_event_is_skipped() -> None:
    assert measured(made("a", 0), assessed(1), made("x", 0, branch="lost"), assessed(1, branch="lost")) == (100, 0)


def test_without_sent_tokens_there_is_no_share() -> None:
    assert measure_session([]).share is None
    assert EffectiveTokens(200, 50).share == 0.25
