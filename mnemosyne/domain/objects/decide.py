"""The one place that decides what happens to objects: a command and the memory make events, or none.

Whoever wants an object changed says so in a command. Here it meets the rules, and nowhere else: an object is made once;
an unknown or a forgotten one is not changed; a fidelity changes by the ladder's steps alone (``fidelity.LADDER``); what
the operator says is shown at no less; what a pin holds is not either, and is not released; and what is so already
happens no second time.

A command that must not be, or need not be, leads to no event and to no error: it was often made of a memory that has
changed since. Who owes somebody the reason asks for it before (``lookup.living``, ``recall/memory_calls.py``).
"""

from collections.abc import Iterable
from typing import Any, assert_never

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, Pinned
from mnemosyne.domain.objects.events import (
    Admission,
    BlockPlace,
    FaultKind,
    Link,
    Losses,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectPinned,
    ObjectReleased,
    ObjectRequested,
    ObjectRestored,
    ObjectSummarized,
    ObjectSuperseded,
    ObjectUnpinned,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.kinds import ObjectKind, Role, is_operators
from mnemosyne.domain.objects.memory import Memory, evolve
from mnemosyne.domain.objects.thrashing import refault_distance

# Commands. Each has the time ``at`` (µs since 1970) and the id of its ``object``; with ``branch`` and ``turn`` it tells
# whose window it is about, and before which turn's request or in which turn's reply.


@attrs.frozen(kw_only=True)
class Create:
    """An object is there. The fields are those of ``ObjectCreated``."""

    at: int
    object: str
    branch: str
    turn: int
    kind: ObjectKind
    role: Role
    source_tool: str | None
    source_key: str | None
    tags: tuple[str, ...]
    first_turn: int
    last_turn: int
    places: tuple[BlockPlace, ...]
    content: bytes
    size: int
    tokens: int
    stub: str
    stub_tokens: int
    line: str
    key_entities: tuple[str, ...]
    links: tuple[Link, ...]
    admission: Admission
    by_user: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class Summarize:
    """A rendition was written: an L1, or an L2 where there is an L1. The fields are those of ``ObjectSummarized``."""

    at: int
    object: str
    fidelity: Fidelity
    text: bytes
    size: int
    tokens: int
    helper: str
    losses: Losses
    nanodollars: int


@attrs.frozen(kw_only=True)
class Degrade:
    """The branch is to show less of the object."""

    at: int
    object: str
    branch: str
    turn: int
    after: Fidelity
    cause: Cause


@attrs.frozen(kw_only=True)
class Restore:
    """The branch is to show more of the object, at its end."""

    at: int
    object: str
    branch: str
    turn: int
    after: Fidelity
    cause: Cause


@attrs.frozen(kw_only=True)
class Fault:
    """The object was needed, and what was had of it added ``tokens`` to the window.

    ``left`` is the turn in which the branch ceased to show it in full (``EvictionTurns.find_turn``); None where it
    never did, and then the distance counts from where the object came. ``latency`` is in µs.
    """

    at: int
    object: str
    branch: str
    turn: int
    left: int | None
    kind: FaultKind
    reason: str
    tokens: int
    latency: int = 0


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


@attrs.frozen(kw_only=True)
class Release:
    """The object is needed no longer."""

    at: int
    object: str
    branch: str
    turn: int
    reason: str


@attrs.frozen(kw_only=True)
class Request:
    """The branch is to show more of the object as soon as its user types again."""

    at: int
    object: str
    branch: str
    turn: int
    after: Fidelity
    reason: str


@attrs.frozen(kw_only=True)
class Supersede:
    """The object no longer says how things are. The fields are those of ``ObjectSuperseded``."""

    at: int
    object: str
    branch: str
    by: str | None
    how: Supersession


Command = Create | Summarize | Degrade | Restore | Fault | Pin | Unpin | Release | Request | Supersede

# Decisions


def decide(command: Command, memory: Memory) -> tuple[ObjectEvent, ...]:
    """What happens on a command: one event, or nothing. Never raises."""
    known = memory.objects.get(command.object)
    if isinstance(command, Create):
        return (ObjectCreated(**_fields(command)),) if known is None else ()
    if known is None or known.forgotten:
        return ()
    match command:
        case Summarize():
            return (ObjectSummarized(**_fields(command)),) if _may_have(known, command.fidelity) else ()
        case Degrade():
            return () if _is_held(command, known, memory) else _degrade(command, memory)
        case Restore():
            return _restore(command, memory)
        case Fault():
            return _fault(command, known, memory)
        case Pin():
            is_so = known.pin == Pinned(command.reason, command.until_turn)
            return () if is_so else (ObjectPinned(**_fields(command)),)
        case Unpin():
            return (ObjectUnpinned(**_fields(command)),) if known.pin is not None else ()
        case Release():
            is_free = not known.released and not known.is_pinned(command.turn)
            return (ObjectReleased(**_fields(command)),) if is_free else ()
        case Request():
            return (ObjectRequested(**_fields(command)),) if _may_request(command, memory) else ()
        case Supersede():
            return (ObjectSuperseded(**_fields(command)),)
        case _:
            assert_never(command)


def decide_all(commands: Iterable[Command], memory: Memory) -> tuple[tuple[ObjectEvent, ...], Memory]:
    """What happens on commands, each decided in view of those before it; and the memory after that."""
    events: list[ObjectEvent] = []
    for command in commands:
        for event in decide(command, memory):
            events.append(event)
            memory = evolve(memory, event)
    return tuple(events), memory


def _fields(command: Command) -> dict[str, Any]:
    return attrs.asdict(command, recurse=False)


def _may_have(known: MemoryObject, fidelity: Fidelity) -> bool:
    """Whether a rendition is one, is not there yet, and comes in its turn: an L2 behind the L1."""
    if not Fidelity.FULL < fidelity < Fidelity.STUB or fidelity in known.renditions:
        return False
    return fidelity is Fidelity.DETAILED or Fidelity.DETAILED in known.renditions


def _is_held(command: Degrade, known: MemoryObject, memory: Memory) -> bool:
    """Whether a pin, or that it is the operator's, keeps the branch from showing less of an object.

    Either holds what the branch's own history has a place for. What was had back stands in an answer between the turns,
    and goes when that goes: with its attempt, or, what is from a window before, with a rewrite.
    """
    if command.cause is Cause.ATTEMPT:
        return False
    held = known.is_pinned(command.turn) or is_operators(known.tags)
    return held and command.object not in memory.view_of(command.branch).before


def _degrade(command: Degrade, memory: Memory) -> tuple[ObjectDegraded, ...]:
    before = memory.view_of(command.branch).fidelity_of(command.object)
    if command.after <= before or not is_legal(before, command.after, command.cause):
        return ()
    return (ObjectDegraded(before=before, **_fields(command)),)


def _restore(command: Restore, memory: Memory) -> tuple[ObjectRestored, ...]:
    before = memory.view_of(command.branch).fidelity_of(command.object)
    if command.after >= before or not is_legal(before, command.after, command.cause):
        return ()
    return (ObjectRestored(before=before, **_fields(command)),)


def _may_request(command: Request, memory: Memory) -> bool:
    """Whether the branch could show so much of an object, and was not asked for it already."""
    shown = memory.view_of(command.branch)
    is_more = is_legal(shown.fidelity_of(command.object), command.after, Cause.PREFETCH)
    return is_more and shown.requested.get(command.object) is not command.after


def _fault(command: Fault, known: MemoryObject, memory: Memory) -> tuple[ObjectFaulted, ...]:
    """What a branch shows in full is not missed."""
    if memory.view_of(command.branch).fidelity_of(command.object) is Fidelity.FULL:
        return ()
    fields = _fields(command)
    left = fields.pop("left")
    distance = refault_distance(known.last_turn if left is None else left, command.turn)
    return (ObjectFaulted(distance=distance, avoided_tokens=max(0, known.tokens - command.tokens), **fields),)
