"""AGGREGATE: one semantic object, changed only by events.

An object is a piece of the conversation that is kept or dropped as a whole: a file that was read, a test's output, a
plan, the prose of an exchange. What it holds is a slice of the recipe of the body in which it first came, so it is
stored once and rebuilt to the byte. Its renditions belong to it; the fidelity at which it stands in a context window
belongs to each branch (``memory.py``).
"""

from collections.abc import Mapping
from typing import assert_never

import attrs

from mnemosyne.domain.objects.events import (
    Admission,
    BlockPlace,
    FaultKind,
    Link,
    LinkRelation,
    Losses,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectForgotten,
    ObjectPinned,
    ObjectReleased,
    ObjectRequested,
    ObjectRestored,
    ObjectSummarized,
    ObjectSuperseded,
    ObjectUnpinned,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, ObjectKind, Role, is_its_own_detail, is_operators


@attrs.frozen(kw_only=True)
class Rendition:
    """The object's text at one fidelity below full; ``text`` names the content that holds it."""

    text: bytes
    size: int
    tokens: int
    helper: str
    losses: Losses


@attrs.frozen
class Pinned:
    """Why it must stay, and through which turn (None: for good)."""

    reason: str
    until_turn: int | None

    def holds(self, turn: int) -> bool:
        """Whether it still does at a turn."""
        return self.until_turn is None or turn <= self.until_turn


@attrs.frozen(kw_only=True)
class MemoryObject:
    """What decisions need to know of an object. ``stale`` says that the file has changed since, or was read again.

    ``last_use`` is the last turn in which something showed that it is needed: its making, a link to it, a fault.
    """

    id: str
    branch: str
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
    line: str = ""
    key_entities: tuple[str, ...]
    links: tuple[Link, ...]
    admission: Admission
    by_user: tuple[int, ...] = ()
    renditions: Mapping[Fidelity, Rendition] = attrs.field(factory=dict)
    pin: Pinned | None = None
    superseded: Supersession | None = None
    superseded_by: str | None = None
    accesses: int = 0
    faults: int = 0
    micro_faults: int = 0
    last_use: int
    last_fault: int | None = None
    released: bool = False
    forgotten: bool = False

    @property
    def stale(self) -> bool:
        """Whether it no longer says how things are."""
        return self.superseded is not None

    def tokens_at(self, fidelity: Fidelity) -> int | None:
        """About how many tokens it takes at a fidelity; None where there is no such rendition. An L1 that is not made
        yet counts at its target size.
        """
        if fidelity is Fidelity.FULL:
            return self.tokens
        if fidelity is Fidelity.STUB:
            return self.stub_tokens
        if fidelity is Fidelity.EVICTED:
            return 0
        rendition = self.renditions.get(fidelity)
        if rendition is None:
            return int(SHARE * self.tokens) if fidelity is Fidelity.DETAILED and may_be_extracted(self) else None
        return rendition.tokens

    def is_pinned(self, turn: int) -> bool:
        """Whether a pin holds it at a turn."""
        return self.pin is not None and self.pin.holds(turn)


def is_episode(each: "MemoryObject | ObjectCreated") -> bool:
    """Whether it is a stretch about one topic (``segmentation/episodes.py``), whose parts its links name."""
    return each.role is Role.DERIVED and KINDS[each.kind].is_conversation


def is_searched(each: "MemoryObject | ObjectCreated") -> bool:
    """Whether the index holds an object: what was said and was found worth it, every claim, and every episode."""
    return each.role is Role.CLAIM or is_episode(each) or (each.admission.admitted and len(each.places) > 0)


WORTH_SUMMARIZING = 1_500
"""Characters, about 500 tokens: below, a stub saves nearly as much, and the whole costs little."""


SHARE = 0.30
"""The size of an L1 as a share of the whole."""


def may_be_extracted(each: MemoryObject) -> bool:
    """Whether an extractive L1 is made of it when something shows it at L1."""
    is_worth_it = each.size >= WORTH_SUMMARIZING and each.admission.admitted
    return is_worth_it and missing_rendition(each) is Fidelity.DETAILED


def missing_rendition(each: MemoryObject) -> Fidelity | None:
    """The fullest rendition that an object lacks; None if it has all, or none would ever be shown."""
    in_history = bool(each.places) and not each.forgotten
    if not in_history or each.superseded_by is not None or is_its_own_detail(each.tags) or is_operators(each.tags):
        return None
    written = (Fidelity.DETAILED, Fidelity.COMPACT)
    return next((fidelity for fidelity in written if fidelity not in each.renditions), None)


def parts_of(each: MemoryObject) -> tuple[str, ...]:
    """The ids of the objects that it was made of."""
    return tuple(link.target for link in each.links if link.relation is LinkRelation.PARENT_OF)


def make_object(event: ObjectCreated) -> MemoryObject:
    """The object that an event makes."""
    return MemoryObject(
        id=event.object,
        branch=event.branch,
        kind=event.kind,
        role=event.role,
        source_tool=event.source_tool,
        source_key=event.source_key,
        tags=event.tags,
        first_turn=event.first_turn,
        last_turn=event.last_turn,
        places=event.places,
        content=event.content,
        size=event.size,
        tokens=event.tokens,
        stub=event.stub,
        stub_tokens=event.stub_tokens,
        line=event.line,
        key_entities=event.key_entities,
        links=event.links,
        admission=event.admission,
        by_user=event.by_user,
        last_use=event.last_turn,
    )


def evolve(memory_object: MemoryObject, event: ObjectEvent) -> MemoryObject:
    """The object after an event of its own. What a branch shows of it is the branch's (``memory.evolve``)."""
    match event:
        case ObjectCreated():
            return make_object(event)
        case ObjectSummarized():
            rendition = Rendition(
                text=event.text, size=event.size, tokens=event.tokens, helper=event.helper, losses=event.losses
            )
            return attrs.evolve(memory_object, renditions={**memory_object.renditions, event.fidelity: rendition})
        case ObjectDegraded() | ObjectRestored():
            return memory_object
        case ObjectRequested():
            return access(memory_object, event.turn)
        case ObjectFaulted():
            return _fault(memory_object, event)
        case ObjectPinned():
            return attrs.evolve(memory_object, pin=Pinned(event.reason, event.until_turn))
        case ObjectUnpinned():
            return attrs.evolve(memory_object, pin=None)
        case ObjectReleased():
            return attrs.evolve(memory_object, released=True)
        case ObjectSuperseded():
            return attrs.evolve(memory_object, superseded=event.how, superseded_by=event.by)
        case ObjectForgotten():
            return forget(memory_object)
        case _:
            assert_never(event)


def access(memory_object: MemoryObject, turn: int) -> MemoryObject:
    """The object after something later, or a person, referred to it."""
    return attrs.evolve(
        memory_object, accesses=memory_object.accesses + 1, last_use=max(memory_object.last_use, turn), released=False
    )


def forget(memory_object: MemoryObject) -> MemoryObject:
    """The object once it is managed no longer: without words."""
    bare = attrs.evolve(memory_object, source_tool=None, source_key=None, tags=(), key_entities=())
    return attrs.evolve(bare, stub="", line="", renditions={}, pin=None, forgotten=True)


def _fault(memory_object: MemoryObject, event: ObjectFaulted) -> MemoryObject:
    micro = event.kind is FaultKind.MICRO
    return attrs.evolve(
        memory_object,
        faults=memory_object.faults + (not micro),
        micro_faults=memory_object.micro_faults + micro,
        last_use=max(memory_object.last_use, event.turn),
        last_fault=event.turn,
        released=False,
    )
