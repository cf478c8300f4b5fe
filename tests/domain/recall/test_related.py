"""A restored object names its related objects, and none that the branch cannot restore."""

import pytest

from mnemosyne.domain.objects.events import Link, LinkRelation, ObjectCreated, ObjectEvent, Supersession
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import RESOLVED, UNRESOLVED, ObjectKind, Role
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.related import MOST_RELATED, Relation, find_related
from tests.domain.remembered import BRANCH, created, degraded, remembered, superseded

READ = created("read", 1)
EDIT = created("edit", 3, tags=("edit",), links=(Link(LinkRelation.DEPENDS_ON, "read"),))
ERROR = created("error", 5, kind=ObjectKind.ERROR_CONTEXT, links=(Link(LinkRelation.CAUSED_BY, "edit"),))
FIX = created("fix", 7, tags=("edit",))
PLAN = created("plan", 11, kind=ObjectKind.PLAN, links=(Link(LinkRelation.REFERENCES, "read"),))


def gone(*made: ObjectCreated) -> list[ObjectEvent]:
    """Evicted objects."""
    return [*made, *(degraded(each.object, Fidelity.EVICTED) for each in made if each.places)]


def derived(object_id: str, how: str, *parts: str) -> ObjectCreated:
    links = tuple(Link(LinkRelation.PARENT_OF, each) for each in parts)
    return created(object_id, kind=ObjectKind.DEBUGGING_SESSION, role=Role.DERIVED, tags=(how,), places=(), links=links)


def of(object_id: str, memory: Memory) -> list[tuple[str, Relation]]:
    return [(each.id, each.relation) for each in find_related(memory.objects[object_id], memory, BRANCH)]


def test_related_objects_follow_links_and_resolved_debugging_sessions() -> None:
    known = remembered(*gone(READ, EDIT, ERROR, FIX, PLAN), derived("tries", RESOLVED, "error", "edit", "fix"))
    assert of("error", known) == [("edit", Relation.BROKE), ("fix", Relation.MENDED)]
    assert of("edit", known) == [("read", Relation.QUOTED), ("error", Relation.FAILED)]
    assert of("plan", known) == [("read", Relation.NAMED)]
    unresolved = remembered(*gone(READ, EDIT, ERROR, FIX), derived("tries", UNRESOLVED, "error", "fix"))
    assert of("error", unresolved) == [("edit", Relation.BROKE)]


def test_outdated_object_names_only_the_newest_version() -> None:
    third = created("third", 15)
    known = remembered(
        *gone(READ, FIX),
        third,
        superseded("read", Supersession.EDITED, "fix"),
        superseded("fix", Supersession.REREAD, "third"),
    )
    assert of("read", known) == [("third", Relation.NEWER)]


def test_visible_or_unrestorable_object_is_not_named() -> None:
    known = remembered(*gone(READ), EDIT, *gone(ERROR, derived("tries", RESOLVED, "error", "edit")))
    assert of("error", known) == []
    elsewhere = created("edit", 3, branch="other", tags=("edit",))
    assert of("error", remembered(*gone(READ), elsewhere, *gone(ERROR))) == []


@pytest.mark.parametrize("count", [1, MOST_RELATED, MOST_RELATED + 3])
def test_number_of_related_objects_is_limited(count: int) -> None:
    errors = [
        created(f"e{n}", 20 + 2 * n, kind=ObjectKind.ERROR_CONTEXT, links=(Link(LinkRelation.CAUSED_BY, "fix"),))
        for n in range(count)
    ]
    assert len(of("fix", remembered(*gone(FIX, *errors)))) == min(count, MOST_RELATED)


def test_versions_that_name_each_other_in_a_ring_end() -> None:
    known = remembered(
        *gone(READ, FIX),
        superseded("read", Supersession.EDITED, "fix"),
        superseded("fix", Supersession.REREAD, "read"),
    )
    assert of("read", known) == [("fix", Relation.NEWER)]
