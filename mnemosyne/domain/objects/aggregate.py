"""AGGREGATE: one semantic object, changed only by events.

An object is a piece of the conversation that is kept or evicted as a whole: a file that was read, the output of a test,
a plan, the prose of an exchange. Its content is a slice of the recipe of the request body in which it first appeared,
so it is stored once and rebuilt byte for byte. Its renditions belong to the object; its fidelity in a context window
belongs to each branch (``memory.py``).
"""

from collections.abc import Mapping
from math import isqrt
from typing import assert_never

import attrs

from mnemosyne.domain.objects import events
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, LINES, ObjectKind, Role, is_its_own_detail, is_operators


@attrs.frozen
class Pinned:
    """The reason for a pin and the last turn in which it holds (None: until it is unpinned)."""

    reason: str
    until_turn: int | None

    def holds(self, turn: int) -> bool:
        """Whether the pin holds at a turn."""
        return self.until_turn is None or turn <= self.until_turn


@attrs.frozen(kw_only=True)
class MemoryObject(events.ObjectFields):
    """The state of an object that decisions need.

    ``last_use`` is the last turn with evidence that the object is needed: its creation, a link to it, or a fault.
    ``utility`` is a helper model's estimate of how likely it is to be needed again, 0 to 1; no decision uses it.
    """

    renditions: Mapping[Fidelity, events.ObjectSummarized] = attrs.field(factory=dict)
    pin: Pinned | None = None
    superseded: events.Supersession | None = None
    superseded_by: str | None = None
    accesses: int = 0
    faults: int = 0
    micro_faults: int = 0
    last_use: int
    last_fault: int | None = None
    released: bool = False
    forgotten: bool = False
    utility: float | None = None

    @property
    def id(self) -> str:
        return self.object

    @property
    def stale(self) -> bool:
        """Whether the source has changed since, or a later object supersedes this one."""
        return self.superseded is not None

    @property
    def lines(self) -> str | None:
        """The lines of a file that it shows, such as ``20-60``; None if it shows all of a file, or none."""
        return next((tag.removeprefix(LINES) for tag in self.tags if tag.startswith(LINES)), None)

    @property
    def is_pictured(self) -> bool:
        """Whether images or documents are its larger part: no text has more tokens than characters."""
        return self.tokens > self.size

    def tokens_at(self, fidelity: Fidelity) -> int | None:
        """Estimate the object's tokens at a fidelity; None without such a rendition. An L1 that is not made yet counts
        at its target size.
        """
        if fidelity is Fidelity.FULL:
            return self.tokens
        if fidelity is Fidelity.STUB:
            return self.stub_tokens
        if fidelity is Fidelity.EVICTED:
            return 0
        rendition = self.renditions.get(fidelity)
        if rendition is None:
            is_made = fidelity is Fidelity.DETAILED and may_be_extracted(self)
            return self.tokens * extract_chars(self.kind, self.size) // self.size if is_made else None
        return rendition.tokens

    def is_pinned(self, turn: int) -> bool:
        """Whether a pin holds the object at a turn."""
        return self.pin is not None and self.pin.holds(turn)


def is_episode(obj: events.ObjectFields) -> bool:
    """Whether the object is an episode: a stretch about one topic (``segmentation/episodes.py``) that links to its
    parts.
    """
    return obj.role is Role.DERIVED and KINDS[obj.kind].is_conversation


def is_searched(obj: events.ObjectFields) -> bool:
    """Whether the object is in the index: admitted transcript objects, all claims, and all episodes."""
    return obj.role is Role.CLAIM or is_episode(obj) or (obj.admission.admitted and obj.holds_content)


WORTH_SUMMARIZING, WORTH_EXTRACTING = 1_500, 600
"""Characters of a conversation, and of anything else, from which on an L1 is made: below this, a stub saves nearly as
much, and the full text costs little.
"""

SHARE = 0.30
"""Size of an L1 that a helper writes, as a share of the full text."""

PER_ROOT = 20
"""Characters of an extracted L1 for each unit of the square root of the full text's length, but at most half of it. A
short text keeps a larger share than a long one, because the first lines of an extract answer most.
"""


def extract_chars(kind: ObjectKind, size: int) -> int:
    """The length of the L1 that is extracted from so many characters; 0 if none is worth it."""
    worth = WORTH_SUMMARIZING if KINDS[kind].is_conversation else WORTH_EXTRACTING
    return min(size // 2, PER_ROOT * isqrt(size)) if size >= worth else 0


def may_be_extracted(obj: MemoryObject) -> bool:
    """Whether an extractive L1 is made of the object the first time a rewrite shows it at L1."""
    is_worth_it = extract_chars(obj.kind, obj.size) > 0 and obj.admission.admitted
    return is_worth_it and missing_rendition(obj) is Fidelity.DETAILED


def missing_rendition(obj: MemoryObject) -> Fidelity | None:
    """The fullest rendition that an object lacks; None if it has all of them, or none would ever be shown."""
    in_history = bool(obj.places) and not obj.forgotten
    if not in_history or obj.superseded_by is not None or is_its_own_detail(obj.tags) or is_operators(obj.tags):
        return None
    written = (Fidelity.DETAILED, Fidelity.COMPACT)
    return next((fidelity for fidelity in written if fidelity not in obj.renditions), None)


def parts_of(obj: MemoryObject) -> tuple[str, ...]:
    """The ids of the objects from which this one was made."""
    return tuple(link.target for link in obj.links if link.relation is events.LinkRelation.PARENT_OF)


def make_object(event: events.ObjectCreated) -> MemoryObject:
    return MemoryObject(**attrs.asdict(event, recurse=False), last_use=event.last_turn)


def evolve(memory_object: MemoryObject, event: events.ObjectEvent) -> MemoryObject:
    """The object after one of its own events. The fidelity in a branch is part of the branch (``memory.evolve``)."""
    match event:
        case events.ObjectCreated():
            return make_object(event)
        case events.ObjectSummarized():
            return attrs.evolve(memory_object, renditions={**memory_object.renditions, event.fidelity: event})
        case events.ObjectDegraded() | events.ObjectRestored():
            return memory_object
        case events.ObjectRequested():
            return access(memory_object, event.turn)
        case events.ObjectFaulted():
            return _fault(memory_object, event)
        case events.ObjectPinned(branch=None):
            return attrs.evolve(memory_object, pin=Pinned(event.reason, event.until_turn))
        case events.ObjectUnpinned(branch=None):
            return attrs.evolve(memory_object, pin=None)
        case events.ObjectReleased(everywhere=True):
            return attrs.evolve(memory_object, released=True)
        case events.ObjectPinned() | events.ObjectUnpinned() | events.ObjectReleased():
            return memory_object
        case events.ObjectSuperseded():
            return attrs.evolve(memory_object, superseded=event.how, superseded_by=event.by)
        case events.ObjectLinked():
            return attrs.evolve(memory_object, links=(*memory_object.links, event.link))
        case events.ObjectForgotten():
            return forget(memory_object)
        case _:
            assert_never(event)


def access(memory_object: MemoryObject, turn: int) -> MemoryObject:
    """The object after a later object or a person referred to it."""
    return attrs.evolve(
        memory_object, accesses=memory_object.accesses + 1, last_use=max(memory_object.last_use, turn), released=False
    )


def forget(memory_object: MemoryObject) -> MemoryObject:
    """The object without any text, after it was forgotten."""
    bare = attrs.evolve(memory_object, source_tool=None, source_key=None, tags=(), key_entities=())
    return attrs.evolve(bare, stub="", line="", renditions={}, pin=None, forgotten=True)


def _fault(memory_object: MemoryObject, event: events.ObjectFaulted) -> MemoryObject:
    micro = event.kind is events.FaultKind.MICRO
    return attrs.evolve(
        memory_object,
        faults=memory_object.faults + (not micro),
        micro_faults=memory_object.micro_faults + micro,
        last_use=max(memory_object.last_use, event.turn),
        last_fault=event.turn,
        released=False,
    )
