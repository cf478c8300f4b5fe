"""Decisions about objects: a command and the memory yield events, or none.

Every change of an object begins with a command, and its rules are enforced here only: an object is created once;
unknown and forgotten objects do not change; fidelity changes only by legal steps (``fidelity.is_legal``); operator text
is never degraded; a pinned object is neither degraded nor released; and a command that would change nothing yields no
event.

A command that is not allowed or not needed yields no event and no error, because it may have been made from an older
memory. A caller that has to report the reason checks first (``lookup.living``, ``recall/memory_calls.py``).
"""

from collections.abc import Iterable
from functools import reduce
from itertools import groupby
from typing import Any, assert_never

import attrs

from mnemosyne.domain.objects import events as recorded
from mnemosyne.domain.objects.aggregate import MemoryObject, Pinned
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.kinds import is_change, is_operators
from mnemosyne.domain.objects.memory import Memory, add_all, evolve

# Commands. Each has a time ``at`` (µs since 1970) and the id of its ``object``. ``branch`` names the branch concerned;
# ``turn`` is the turn of the request about to be sent or of the reply. A command that is recorded unchanged has the
# fields of its event.


@attrs.frozen(kw_only=True)
class Create(recorded.ObjectFields):
    """Create an object."""


@attrs.frozen(kw_only=True)
class Summarize(recorded.ObjectSummarized):
    """Record a rendition: an L1, or an L2 if there is an L1."""


@attrs.frozen(kw_only=True)
class _ChangeFidelity(recorded.OfObjectInTurn):
    """Show the object at the fidelity ``after`` in the branch, if that is a legal step down or up."""

    after: Fidelity
    cause: Cause


@attrs.frozen(kw_only=True)
class Degrade(_ChangeFidelity):
    """Show less of the object in the branch."""


@attrs.frozen(kw_only=True)
class Restore(_ChangeFidelity):
    """Show more of the object, at the end of the branch."""


@attrs.frozen(kw_only=True)
class Fault(recorded.OfObjectInTurn):
    """Record that the model needed an evicted object; the answer added ``tokens`` to the window.

    ``left`` is the turn in which the branch ceased to show it in full (``EvictionTurns.find_turn``). It is None if the
    branch never did, and then the distance counts from the turn of the object itself. ``latency`` is in µs. ``why`` is
    the reason unless a change of the object's file has just failed.
    """

    left: int | None
    kind: recorded.FaultKind
    reason: str
    tokens: int
    latency: int = 0
    why: recorded.FaultReason = recorded.FaultReason.REFERENCE


@attrs.frozen(kw_only=True)
class Pin(recorded.ObjectPinned):
    """Pin the object at its fidelity, in a branch or in all."""


@attrs.frozen(kw_only=True)
class Unpin(recorded.ObjectUnpinned):
    """Remove the object's pin from a branch, or all its pins."""


@attrs.frozen(kw_only=True)
class Release(recorded.ObjectReleased):
    """Record that the object is no longer needed."""


@attrs.frozen(kw_only=True)
class Request(recorded.ObjectRequested):
    """Restore more of the object in the branch with the user's next typed message."""


@attrs.frozen(kw_only=True)
class Supersede(recorded.ObjectSuperseded):
    """Mark the object as superseded."""


@attrs.frozen(kw_only=True)
class LinkObject(recorded.ObjectLinked):
    """Link the object to another one."""


Command = Create | Summarize | Degrade | Restore | Fault | Pin | Unpin | Release | Request | Supersede | LinkObject

# Decisions


def decide(command: Command, memory: Memory) -> tuple[recorded.ObjectEvent, ...]:
    """Return the event that a command leads to: one, or none. Never raises."""
    known = memory.objects.get(command.object)
    if isinstance(command, Create):
        return (recorded.ObjectCreated(**_fields(command)),) if known is None else ()
    if known is None or known.forgotten:
        return ()
    if (branch := getattr(command, "branch", None)) is not None:
        known = memory.view_of(branch).own(known)
    match command:
        case Summarize():
            return (recorded.ObjectSummarized(**_fields(command)),) if _may_have(known, command.fidelity) else ()
        case Degrade():
            return () if _is_held(command, known, memory) else _degrade(command, memory)
        case Restore():
            return _restore(command, memory)
        case Fault():
            return _fault(command, known, memory)
        case Pin():
            pins = {known.pin} if command.branch is not None else {*memory.pins_of(known.id).values()}
            is_so = pins == {Pinned(command.reason, command.until_turn)}
            return () if is_so else (recorded.ObjectPinned(**_fields(command)),)
        case Unpin():
            return _unpin(command, known, memory)
        case Release():
            is_free = not known.released and not known.is_pinned(command.turn)
            return (recorded.ObjectReleased(**_fields(command)),) if is_free else ()
        case Request():
            return (recorded.ObjectRequested(**_fields(command)),) if _may_request(command, memory) else ()
        case Supersede():
            return (recorded.ObjectSuperseded(**_fields(command)),)
        case LinkObject():
            is_new = command.link not in known.links and command.link.target in memory.objects
            return (recorded.ObjectLinked(**_fields(command)),) if is_new else ()
        case _:
            assert_never(command)


def decide_all(commands: Iterable[Command], memory: Memory) -> tuple[tuple[recorded.ObjectEvent, ...], Memory]:
    """Decide commands in order, each on the memory after the previous ones. Return the events and the final memory."""
    events: list[recorded.ObjectEvent] = []
    for creates, group in groupby(commands, lambda command: isinstance(command, Create)):
        if creates:
            created: dict[str, recorded.ObjectCreated] = {}
            for command in group:
                if command.object not in memory.objects:
                    created.setdefault(command.object, recorded.ObjectCreated(**_fields(command)))
            events += created.values()
            memory = add_all(memory, created.values())
        else:
            for command in group:
                events += (decided := decide(command, memory))
                memory = reduce(evolve, decided, memory)
    return tuple(events), memory


def _unpin(command: Unpin, known: MemoryObject, memory: Memory) -> tuple[recorded.ObjectUnpinned, ...]:
    if not memory.pins_of(known.id) or (command.branch is not None and known.pin is None):
        return ()
    others = [shown for name, shown in memory.branches.items() if name != command.branch and known.id in shown.objects]
    is_last = all(shown.own(memory.objects[known.id]).pin is None for shown in others)
    return (recorded.ObjectUnpinned(**_fields(command) | ({"branch": None} if is_last else {})),)


def _fields(command: Command) -> dict[str, Any]:
    return attrs.asdict(command, recurse=False)


def _may_have(known: MemoryObject, fidelity: Fidelity) -> bool:
    """Whether this rendition is valid, still missing, and next in order: an L2 requires an L1."""
    if not Fidelity.FULL < fidelity < Fidelity.STUB or fidelity in known.renditions:
        return False
    return fidelity is Fidelity.DETAILED or Fidelity.DETAILED in known.renditions


def _is_held(command: Degrade, known: MemoryObject, memory: Memory) -> bool:
    """Whether a pin, or being operator text, keeps the branch from degrading an object.

    This protects objects that have a place in the branch's own history. A restored object of an earlier window is shown
    only in an answer between the turns, and goes with that answer: when its attempt is dropped or the history is
    rewritten.
    """
    if command.cause is Cause.ATTEMPT:
        return False
    held = known.is_pinned(command.turn) or is_operators(known.tags)
    return held and command.object not in memory.view_of(command.branch).before


def _degrade(command: Degrade, memory: Memory) -> tuple[recorded.ObjectDegraded, ...]:
    before = memory.view_of(command.branch).fidelity_of(command.object)
    if command.after <= before or not is_legal(before, command.after, command.cause):
        return ()
    return (recorded.ObjectDegraded(before=before, **_fields(command)),)


def _restore(command: Restore, memory: Memory) -> tuple[recorded.ObjectRestored, ...]:
    before = memory.view_of(command.branch).fidelity_of(command.object)
    if command.after >= before or not is_legal(before, command.after, command.cause):
        return ()
    return (recorded.ObjectRestored(before=before, **_fields(command)),)


def _may_request(command: Request, memory: Memory) -> bool:
    """Whether the branch can show the object at this fidelity, and this was not requested before."""
    shown = memory.view_of(command.branch)
    is_more = is_legal(shown.fidelity_of(command.object), command.after, Cause.PREFETCH)
    return is_more and shown.requested.get(command.object) is not command.after


def _fault(command: Fault, known: MemoryObject, memory: Memory) -> tuple[recorded.ObjectFaulted, ...]:
    """An object that the branch shows in full causes no fault."""
    if memory.view_of(command.branch).fidelity_of(command.object) is Fidelity.FULL:
        return ()
    fields = _fields(command)
    left = fields.pop("left")
    distance = max(0, command.turn - (known.last_turn if left is None else left))
    if _has_failed_change(known, command, memory):
        fields["why"] = recorded.FaultReason.EXACT_TEXT
    return (recorded.ObjectFaulted(distance=distance, avoided_tokens=max(0, known.tokens - command.tokens), **fields),)


JUST_FAILED = 2
"""A change of a file has just failed if it did so at most this many turns ago."""


def _has_failed_change(known: MemoryObject, command: Fault, memory: Memory) -> bool:
    """Whether the last change of an object's file has just failed: the next one needs the exact text."""
    if known.source_key is None:
        return False
    objects = (memory.objects[each] for each in reversed(memory.view_of(command.branch).objects))
    same_file = (each for each in objects if each.source_key == known.source_key)
    last = next((each for each in same_file if "change" in each.tags or is_change(each.tags)), None)
    return last is not None and "error" in last.tags and command.turn - last.last_turn <= JUST_FAILED
