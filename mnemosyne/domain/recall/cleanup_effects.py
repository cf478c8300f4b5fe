"""Effects of cleanup directives in a branch: the effects of the memory tools, and a limited number of pins."""

from collections.abc import Iterable

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Pin, decide_all
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.protection import Now, Sizing, find_no_room
from mnemosyne.domain.recall.memory_calls import own, release
from mnemosyne.domain.tools.cleanup_tags import Anchor, Collapse, Directive, Drop, Ignored, TagSummary
from mnemosyne.domain.tools.memory_tools import MemoryRelease, RefusedCall

ANCHOR_TURNS = 50
"""Turns for which an anchor holds; the model can renew it."""

MOST_ANCHORED = 16
"""Maximum number of anchored objects: the proxy does not manage anchored objects."""

_ANCHORED = "anchor"


@attrs.frozen(kw_only=True)
class Effects:
    """The effects of directives: events and ignored directives. A summary has none here: it becomes a rendition after
    its losses have been measured against the full content.
    """

    events: tuple[ObjectEvent, ...] = ()
    ignored: tuple[Ignored, ...] = ()

    def __add__(self, other: "Effects") -> "Effects":
        """The effects of both, in order."""
        return Effects(events=self.events + other.events, ignored=self.ignored + other.ignored)


def effects(directive: Directive | Ignored, memory: Memory, branch: str, now: Now, *, at: int, size: Sizing) -> Effects:
    """The effects of one directive. For the next one of a reply, the caller applies these events to the memory
    first. ``size`` returns an object with the sizes that the limit on pins counts.
    """
    match directive:
        case Drop(object_ids):
            return _drop(object_ids, memory, branch, now, at)
        case Anchor(object_ids, why):
            return _anchor_all(object_ids, why, memory, branch, now, at, size)
        case TagSummary(object_id):
            each = own(memory, branch, object_id)
            return _ignore(object_id, each.text) if isinstance(each, RefusedCall) else Effects()
        case Collapse(first, last):
            within = [each.id for each, _ in memory.standings(branch) if _lies_in(each, first, last)]
            return _drop(within, memory, branch, now, at)
        case Ignored():
            return Effects(ignored=(directive,))


def _drop(object_ids: Iterable[str], memory: Memory, branch: str, now: Now, at: int) -> Effects:
    found = release(memory, branch, now, MemoryRelease(tuple(object_ids), "cleanup tag"))
    return Effects(
        events=found.events(memory, at=at, branch=branch, turn=now.turn),
        ignored=tuple(Ignored(object_id, why) for object_id, why in found.kept),
    )


def _anchor_all(
    object_ids: Iterable[str], why: str, memory: Memory, branch: str, now: Now, at: int, size: Sizing
) -> Effects:
    held = {each.id for each, _ in memory.within_reach(branch) if _is_anchored(each, now.turn)}
    found = Effects()
    for object_id in object_ids:
        each = own(memory, branch, object_id)
        if isinstance(each, RefusedCall):
            found += _ignore(object_id, each.text)
        elif each.is_pinned(now.turn) and object_id not in held:
            found += _ignore(object_id, "it is pinned already")
        elif len(held | {object_id}) > MOST_ANCHORED:
            found += _ignore(object_id, f"{MOST_ANCHORED} objects are anchored already")
        elif (full := find_no_room(memory, object_id, branch, size)) is not None:
            found += _ignore(object_id, full)
        else:
            held.add(object_id)
            events, memory = decide_all((_pin(object_id, branch, why, now, at),), memory)
            found += Effects(events=events)
    return found


def _pin(object_id: str, branch: str, why: str, now: Now, at: int) -> Pin:
    reason = f"{_ANCHORED}: {why}" if why else _ANCHORED
    return Pin(at=at, object=object_id, branch=branch, reason=reason, until_turn=now.turn + ANCHOR_TURNS)


def _is_anchored(obj: MemoryObject, turn: int) -> bool:
    return obj.pin is not None and obj.pin.reason.startswith(_ANCHORED) and obj.pin.holds(turn)


def _lies_in(obj: MemoryObject, first: int, last: int) -> bool:
    return bool(obj.places) and first <= obj.first_turn and obj.last_turn <= last


def _ignore(object_id: str, why: str) -> Effects:
    return Effects(ignored=(Ignored(object_id, why),))
