"""Objects by the ids that a person types, and what to say where there is none."""

from collections.abc import Iterable
from difflib import get_close_matches

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.errors import NotFound


def find_wanted(memory: Memory, object_id: str) -> MemoryObject:
    """The object of this id. Raises NotFound, which names those whose ids are nearly so."""
    found = memory.objects.get(bare(object_id))
    if found is None:
        raise NotFound(unknown(object_id, memory.objects))
    return found


def living(memory: Memory, object_id: str) -> MemoryObject:
    """The object of this id, of which something can still be decided. Raises NotFound, also where it was forgotten."""
    found = find_wanted(memory, object_id)
    if found.forgotten:
        raise NotFound(f"Object {found.id} was forgotten; nothing of it can be pinned or shown any more.")
    return found


def bare(object_id: str) -> str:
    """An id of which a person may write capitals, or the mark that stands before it wherever the model reads it."""
    return object_id.removeprefix(MARK).lower()


def unknown(object_id: str, ids: Iterable[str]) -> str:
    """The sentence for an id that no object has."""
    near = get_close_matches(bare(object_id), list(ids), n=3, cutoff=0.6)
    meant = f" Is it {' or '.join(near)}?" if near else ""
    return f"There is no object {object_id!r}; `mnemosyne objects SESSION` lists those of a session.{meant}"
