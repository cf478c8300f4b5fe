"""What belongs to an object that is shown again: the objects that one edge leads to, by name, for the next call.

An edge is a link that was made with an object, a supersession, or being part of the same debugging session. Only what
the branch does not show in full is named, but for the newer version of what is out of date.
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
"""Objects that are named with one that is shown again."""


class Relation(Enum):
    """What a related object is to the one that is shown again; in words as they follow its id."""

    NEWER = "is the newer one"
    BROKE = "is the change before it failed"
    MENDED = "is the last change before it worked"
    QUOTED = "is the file before this change"
    FAILED = "failed after this change"
    NAMED = "is a file that it names"


@attrs.frozen
class Related:
    """An object and what it is to another."""

    id: str
    relation: Relation


def find_related(each: MemoryObject, memory: Memory, branch: str) -> tuple[Related, ...]:
    """What belongs to an object, the most telling first, each once; only objects that the branch can have back."""
    reach = {other.id: (other, fidelity) for other, fidelity in memory.within_reach(branch)}
    within = [other for other, _ in reach.values()]
    found: dict[str, Relation] = {}
    for edge in _edges(each, within, memory):
        other, fidelity = reach.get(edge.id, (None, Fidelity.FULL))
        if other is None or other.id == each.id or other.forgotten or not other.places:
            continue
        if fidelity is not Fidelity.FULL or edge.relation is Relation.NEWER:
            found.setdefault(other.id, edge.relation)
    return tuple(Related(*pair) for pair in list(found.items())[:MOST_RELATED])


def _edges(each: MemoryObject, within: Collection[MemoryObject], memory: Memory) -> Iterator[Related]:
    newest = _newest(each, memory)
    if newest is not None:
        yield Related(newest, Relation.NEWER)
    yield from (Related(key, Relation.BROKE) for key in _targets(each, LinkRelation.CAUSED_BY))
    if KINDS[each.kind].is_failure:
        yield from (Related(key, Relation.MENDED) for key in _find_mending(each, within, memory))
    yield from (Related(key, Relation.QUOTED) for key in _targets(each, LinkRelation.DEPENDS_ON))
    for other in within:
        if each.id in _targets(other, LinkRelation.CAUSED_BY):
            yield Related(other.id, Relation.FAILED)
    yield from (Related(key, Relation.NAMED) for key in _targets(each, LinkRelation.REFERENCES))


def _targets(each: MemoryObject, relation: LinkRelation) -> tuple[str, ...]:
    return tuple(link.target for link in each.links if link.relation is relation)


def _newest(each: MemoryObject, memory: Memory) -> str | None:
    """The last of those that took its place; None where nothing did."""
    seen = {each.id}
    newest = None
    while (newer := memory.objects.get(each.superseded_by or "")) is not None and newer.id not in seen:
        each, newest = newer, newer.id
        seen.add(newer.id)
    return newest


def _find_mending(each: MemoryObject, within: Collection[MemoryObject], memory: Memory) -> Iterator[str]:
    """The last change in each debugging session that a failure belongs to."""
    for other in within:
        debugged = other.role is Role.DERIVED and not is_episode(other) and RESOLVED in other.tags
        parts = [memory.objects[key] for key in parts_of(other) if key in memory.objects] if debugged else []
        if each in parts:
            yield from [part.id for part in parts if is_change(part.tags)][-1:]
