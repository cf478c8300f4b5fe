"""Related objects of a restored object: those one edge away, by id, for the next call.

An edge is a link that was created with an object, a supersession, or membership in the same debugging session. Only
objects that the branch does not show in full are named, except for the newer version of an outdated one.
"""

from collections.abc import Collection, Iterator
from enum import Enum

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, is_episode, parts_of
from mnemosyne.domain.objects.events import LinkRelation
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, RESOLVED, Role, is_change
from mnemosyne.domain.objects.memory import Memory

MOST_RELATED = 4
"""Maximum number of related objects that are named."""


class Relation(Enum):
    """The relation of a related object to the restored one, in words that follow its id."""

    NEWER = "is the newer one"
    BROKE = "is the change before it failed"
    MENDED = "is the last change before it worked"
    QUOTED = "is the file before this change"
    FAILED = "failed after this change"
    NAMED = "is a file that it names"


@attrs.frozen
class Related:
    """An object and its relation to another."""

    id: str
    relation: Relation


def find_related(obj: MemoryObject, memory: Memory, branch: str) -> tuple[Related, ...]:
    """The related objects, most useful first and without duplicates; only objects that the branch can restore."""
    reach = {other.id: (other, fidelity) for other, fidelity in memory.within_reach(branch)}
    within = [other for other, _ in reach.values()]
    relations: dict[str, Relation] = {}
    for edge in _edges(obj, within, memory):
        other, fidelity = reach.get(edge.id, (None, Fidelity.FULL))
        if other is None or other.id == obj.id or other.forgotten or not other.places:
            continue
        if fidelity is not Fidelity.FULL or edge.relation is Relation.NEWER:
            relations.setdefault(other.id, edge.relation)
    return tuple(Related(*pair) for pair in list(relations.items())[:MOST_RELATED])


def _edges(obj: MemoryObject, within: Collection[MemoryObject], memory: Memory) -> Iterator[Related]:
    newest = _newest(obj, memory)
    if newest is not None:
        yield Related(newest, Relation.NEWER)
    yield from (Related(key, Relation.BROKE) for key in _targets(obj, LinkRelation.CAUSED_BY))
    if KINDS[obj.kind].is_failure:
        yield from (Related(key, Relation.MENDED) for key in _find_mending(obj, within, memory))
    yield from (Related(key, Relation.QUOTED) for key in _targets(obj, LinkRelation.DEPENDS_ON))
    for other in within:
        if obj.id in _targets(other, LinkRelation.CAUSED_BY):
            yield Related(other.id, Relation.FAILED)
    yield from (Related(key, Relation.NAMED) for key in _targets(obj, LinkRelation.REFERENCES))


def _targets(obj: MemoryObject, relation: LinkRelation) -> tuple[str, ...]:
    return tuple(link.target for link in obj.links if link.relation is relation)


def _newest(obj: MemoryObject, memory: Memory) -> str | None:
    """The id of the last object that supersedes it, directly or indirectly; None if it is current."""
    seen = {obj.id}
    newest = None
    while (newer := memory.objects.get(obj.superseded_by or "")) is not None and newer.id not in seen:
        obj, newest = newer, newer.id
        seen.add(newer.id)
    return newest


def _find_mending(obj: MemoryObject, within: Collection[MemoryObject], memory: Memory) -> Iterator[str]:
    """The last change in each debugging session that contains a failure."""
    for other in within:
        debugged = other.role is Role.DERIVED and not is_episode(other) and RESOLVED in other.tags
        parts = [memory.objects[key] for key in parts_of(other) if key in memory.objects] if debugged else []
        if obj in parts:
            yield from [part.id for part in parts if is_change(part.tags)][-1:]
