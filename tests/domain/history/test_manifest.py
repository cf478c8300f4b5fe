"""Effective tokens: a later reference, restore or fetch is a use of an object."""

from typing import Any

from mnemosyne.domain.history.manifest import find_last_uses
from mnemosyne.domain.objects.events import Link, LinkRelation
from mnemosyne.domain.objects.kinds import Role
from tests.domain.remembered import faulted, made
from tests.domain.session_events import recorded


def links(relation: LinkRelation, target: str) -> dict[str, Any]:
    return {"links": (Link(relation, target),)}


def test_a_later_reference_or_fetch_is_the_last_use() -> None:
    refers = made("b", 2, **links(LinkRelation.DEPENDS_ON, "a"))
    assert find_last_uses(recorded(made("a", 0))) == {}
    assert find_last_uses(recorded(made("a", 0), refers)) == {"a": 2}
    assert find_last_uses(recorded(made("a", 0), refers, faulted("a", 3))) == {"a": 3}


def test_superseding_or_summarizing_an_object_is_no_use_of_it() -> None:
    later = made("b", 2, **links(LinkRelation.SUPERSEDES, "a"))
    derived = made("c", **links(LinkRelation.REFERENCES, "a"), role=Role.DERIVED)
    assert find_last_uses(recorded(made("a", 0), later, derived)) == {}
