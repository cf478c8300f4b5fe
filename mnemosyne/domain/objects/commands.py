"""What a person decides about an object: that it stays, or that it may go again."""

from collections.abc import Iterable
from difflib import get_close_matches

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import ObjectPinned, ObjectUnpinned
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.errors import NotFound


@attrs.frozen(kw_only=True)
class Pin:
    """The object is to keep its fidelity, through turn ``until_turn`` (None: until it is unpinned)."""

    at: int
    object: str
    reason: str
    until_turn: int | None


@attrs.frozen(kw_only=True)
class Unpin:
    """The object may go again."""

    at: int
    object: str
    reason: str


def decide(command: Pin | Unpin, memory: Memory) -> tuple[ObjectPinned | ObjectUnpinned, ...]:
    """What the command leads to; nothing where it is so already. Raises NotFound for an object that there is not, or
    that was forgotten.
    """
    found = wanted(memory, command.object)
    if found.forgotten:
        raise NotFound(f"Object {found.id} was forgotten; nothing of it can be pinned or shown any more.")
    if isinstance(command, Unpin):
        return (ObjectUnpinned(at=command.at, object=found.id, reason=command.reason),) if found.pin else ()
    if found.pin and (found.pin.reason, found.pin.until_turn) == (command.reason, command.until_turn):
        return ()
    return (ObjectPinned(at=command.at, object=found.id, reason=command.reason, until_turn=command.until_turn),)


def wanted(memory: Memory, object_id: str) -> MemoryObject:
    """The object of this id. Raises NotFound, which names those whose ids are nearly so."""
    found = memory.objects.get(bare(object_id))
    if found is None:
        raise NotFound(unknown(object_id, memory.objects))
    return found


def bare(object_id: str) -> str:
    """An id of which a person may write capitals, or the mark that stands before it wherever the model reads it."""
    return object_id.removeprefix(MARK).lower()


def unknown(object_id: str, ids: Iterable[str]) -> str:
    """The sentence for an id that no object has."""
    near = get_close_matches(bare(object_id), list(ids), n=3, cutoff=0.6)
    meant = f" Is it {' or '.join(near)}?" if near else ""
    return f"There is no object {object_id!r}; `mnemosyne objects SESSION` lists those of a session.{meant}"
