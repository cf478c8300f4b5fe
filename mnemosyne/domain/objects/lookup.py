"""Lookup of objects by ids that a person types, with error messages that suggest similar ids."""

from collections.abc import Iterable
from difflib import get_close_matches

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.errors import NotFound


def find_wanted(memory: Memory, object_id: str) -> MemoryObject:
    """The object with this id. Raises NotFound, which suggests similar ids."""
    obj = memory.objects.get(bare(object_id))
    if obj is None:
        raise NotFound(unknown(object_id, memory.objects))
    return obj


def living(memory: Memory, object_id: str) -> MemoryObject:
    """The object with this id, if it can still change. Raises NotFound also if it was forgotten."""
    obj = find_wanted(memory, object_id)
    if obj.forgotten:
        raise NotFound(f"Object {obj.id} was forgotten; it can no longer be pinned or shown.")
    return obj


def bare(object_id: str) -> str:
    """Normalize an id: it may contain capitals, or the prefix that the model sees."""
    return object_id.removeprefix(MARK).lower()


def unknown(object_id: str, ids: Iterable[str]) -> str:
    """The error message for an unknown id."""
    near = get_close_matches(bare(object_id), list(ids), n=3, cutoff=0.6)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"There is no object {object_id!r}; `mnemosyne objects SESSION` lists the objects of a session.{meant}"
