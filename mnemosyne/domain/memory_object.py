"""AGGREGATE: one semantic object, changed only by events.

An object is a piece of the conversation that is kept or dropped as a whole: a file that was read, a test's output, a
plan, the prose of an exchange. What it holds is a slice of the recipe of the body in which it first came, so it is
stored once and rebuilt to the byte. Its renditions belong to it; the fidelity at which it stands in a context window
belongs to each branch (``memory.py``).
"""

from collections.abc import Mapping
from enum import Enum
from typing import assert_never

import attrs

from mnemosyne.domain.fidelity import Cause, Fidelity


class Kind(Enum):
    """What an object is about."""

    CONVERSATION_PHASE = "conversation_phase"
    """What user and assistant said to each other over some turns."""
    DESIGN_DECISION = "design_decision"
    """Something that was settled, and why."""
    DEBUGGING_SESSION = "debugging_session"
    """From an error to the run in which it is gone: the objects in between are its parts."""
    FILE_CONTEXT = "file_context"
    """What a file holds or was made to hold."""
    TOOL_RESULT = "tool_result"
    """What a command, a search or another tool answered."""
    PLAN = "plan"
    """What is to be done, in steps."""
    ERROR_CONTEXT = "error_context"
    """What failed, and how."""
    EXTERNAL_REFERENCE = "external_reference"
    """What came from outside of the project: a page, a search of the web."""


class Role(Enum):
    """What an object is to the conversation: it sets how soon it may leave."""

    TRANSCRIPT = "transcript"
    """Said or done as it stands."""
    DERIVED = "derived"
    """Made from others: a phase, a debugging session."""
    CLAIM = "claim"
    """A decision or a conclusion in a sentence, with its sources."""
    PROCEDURE = "procedure"
    """How something is done here."""
    INDEX = "index"
    """What can be found, and where."""


class Relation(Enum):
    """How one object is related to another: ``source`` RELATION ``target``."""

    PARENT_OF = "parent_of"
    CAUSED_BY = "caused_by"
    REFERENCES = "references"
    SUPERSEDES = "supersedes"
    DEPENDS_ON = "depends_on"


class Supersession(Enum):
    """Why an object no longer says how things are."""

    REREAD = "reread"
    """The same source was read again; the later object shows it."""
    EDITED = "edited"
    """The file was changed after it was read."""
    REVISED = "revised"
    """A later plan, decision or run takes its place."""


class FaultKind(Enum):
    """How it showed that something was missing from the window."""

    EXPLICIT = "explicit"
    """The model restored it."""
    MICRO = "micro"
    """The model asked about it; it stayed where it was."""
    IMPLICIT = "implicit"
    """The agent fetched again what we hold: the same file, the same command."""


@attrs.frozen(order=True)
class Place:
    """A block of a branch's history: message and block, both from 0 as the provider counts."""

    message: int
    block: int


@attrs.frozen
class Link:
    """One edge that begins at an object."""

    relation: Relation
    target: str


@attrs.frozen(kw_only=True)
class Losses:
    """What a rendition lacks. ``dropped``, ``can_answer``, ``fault_when`` and ``key_entities`` are declared by whoever
    wrote it; ``lost`` is measured: how many specifics of each kind the full content has and the rendition has not, and
    ``sample`` names some of them.
    """

    dropped: tuple[str, ...] = ()
    can_answer: tuple[str, ...] = ()
    fault_when: tuple[str, ...] = ()
    key_entities: tuple[str, ...] = ()
    lost: Mapping[str, int] = attrs.field(factory=dict)
    sample: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Admission:
    """What an object is worth to the index and to the curator; each part and the ``score`` lie in 0…1."""

    type_prior: float
    novelty: float
    utility: float
    recency: float
    score: float
    admitted: bool


# Events


@attrs.frozen(kw_only=True)
class ObjectCreated:
    """An object was made of the blocks at ``places`` of a branch's history, as they stood in the request of ``turn``.

    ``content`` is an encoded BodyChange on nothing: the JSON of those blocks, one after the other. ``size`` counts
    characters of text, ``tokens`` and ``stub_tokens`` are estimates, ``line`` is what the index says of it once it has
    left the window. ``first_turn`` and ``last_turn`` are the turns whose replies and requests it covers. A derived
    object has no places: its links name its parts.
    """

    at: int
    object: str
    branch: str
    turn: int
    kind: Kind
    role: Role
    source_tool: str | None
    source_key: str | None
    tags: tuple[str, ...]
    first_turn: int
    last_turn: int
    places: tuple[Place, ...]
    content: bytes
    size: int
    tokens: int
    stub: str
    stub_tokens: int
    line: str = ""
    key_entities: tuple[str, ...]
    links: tuple[Link, ...]
    admission: Admission


@attrs.frozen(kw_only=True)
class ObjectSummarized:
    """A rendition was made. ``text`` is the SHA-256 of the content that holds it; ``nanodollars`` what it cost."""

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
class ObjectDegraded:
    """From this turn on, the branch shows less of the object."""

    at: int
    object: str
    branch: str
    turn: int
    before: Fidelity
    after: Fidelity
    cause: Cause


@attrs.frozen(kw_only=True)
class ObjectRestored:
    """From this turn on, the branch shows more of the object, at its end."""

    at: int
    object: str
    branch: str
    turn: int
    before: Fidelity
    after: Fidelity
    cause: Cause


@attrs.frozen(kw_only=True)
class ObjectFaulted:
    """What the branch did not show was needed.

    ``distance`` counts turns since the branch last showed it in full, ``tokens`` is what the answer added to the
    window, ``avoided_tokens`` what a full restore would have added more, ``latency`` is in µs.
    """

    at: int
    object: str
    branch: str
    turn: int
    kind: FaultKind
    reason: str
    distance: int
    tokens: int
    avoided_tokens: int
    latency: int


@attrs.frozen(kw_only=True)
class ObjectPinned:
    """The object keeps its fidelity, in every branch, through turn ``until_turn`` (None: until it is unpinned)."""

    at: int
    object: str
    reason: str
    until_turn: int | None


@attrs.frozen(kw_only=True)
class ObjectUnpinned:
    """It is free to go again."""

    at: int
    object: str
    reason: str


@attrs.frozen(kw_only=True)
class ObjectReleased:
    """The model said that it no longer needs it."""

    at: int
    object: str
    branch: str
    turn: int
    reason: str


@attrs.frozen(kw_only=True)
class ObjectSuperseded:
    """``by`` says how things are now; None where a change of the file made it stale and nobody has read it since. It
    showed in ``branch``.
    """

    at: int
    object: str
    branch: str
    by: str | None
    how: Supersession


@attrs.frozen(kw_only=True)
class ObjectLinked:
    """An edge that showed later than its source was made."""

    at: int
    object: str
    relation: Relation
    target: str


@attrs.frozen(kw_only=True)
class ObjectForgotten:
    """It is managed no longer: its stub and its renditions are not shown to anybody, and it cannot be restored."""

    at: int
    object: str
    reason: str


ObjectEvent = (
    ObjectCreated
    | ObjectSummarized
    | ObjectDegraded
    | ObjectRestored
    | ObjectFaulted
    | ObjectPinned
    | ObjectUnpinned
    | ObjectReleased
    | ObjectSuperseded
    | ObjectLinked
    | ObjectForgotten
)

OBJECT_EVENT_NAMES: Mapping[str, type[ObjectEvent]] = {
    "object.created.v1": ObjectCreated,
    "object.summarized.v1": ObjectSummarized,
    "object.degraded.v1": ObjectDegraded,
    "object.restored.v1": ObjectRestored,
    "object.faulted.v1": ObjectFaulted,
    "object.pinned.v1": ObjectPinned,
    "object.unpinned.v1": ObjectUnpinned,
    "object.released.v1": ObjectReleased,
    "object.superseded.v1": ObjectSuperseded,
    "object.linked.v1": ObjectLinked,
    "object.forgotten.v1": ObjectForgotten,
}

# State


@attrs.frozen(kw_only=True)
class Rendition:
    """The object's text at one fidelity below full; ``text`` names the content that holds it."""

    text: bytes
    size: int
    tokens: int
    helper: str
    losses: Losses


@attrs.frozen
class Pin:
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
    kind: Kind
    role: Role
    source_tool: str | None
    source_key: str | None
    tags: tuple[str, ...]
    first_turn: int
    last_turn: int
    places: tuple[Place, ...]
    content: bytes
    size: int
    tokens: int
    stub: str
    stub_tokens: int
    line: str = ""
    key_entities: tuple[str, ...]
    links: tuple[Link, ...]
    admission: Admission
    renditions: Mapping[Fidelity, Rendition] = attrs.field(factory=dict)
    pin: Pin | None = None
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
        """About how many tokens it takes at a fidelity; None where there is no such rendition."""
        if fidelity is Fidelity.FULL:
            return self.tokens
        if fidelity is Fidelity.STUB:
            return self.stub_tokens
        if fidelity is Fidelity.EVICTED:
            return 0
        rendition = self.renditions.get(fidelity)
        return None if rendition is None else rendition.tokens

    def is_pinned(self, turn: int) -> bool:
        """Whether a pin holds it at a turn."""
        return self.pin is not None and self.pin.holds(turn)


def is_claim(each: MemoryObject) -> bool:
    """Whether it is one sentence of what somebody said, which takes no room of its own."""
    return each.role is Role.CLAIM and not each.places


def said_in(each: MemoryObject) -> str | None:
    """The object that a claim was said in; None of any other object."""
    found = (link.target for link in each.links if link.relation is Relation.REFERENCES)
    return next(found, None) if is_claim(each) else None


def is_episode(each: "MemoryObject | ObjectCreated") -> bool:
    """Whether it is a stretch of a conversation about one topic (``episodes.py``), whose parts its links name."""
    return each.kind is Kind.CONVERSATION_PHASE and each.role is Role.DERIVED


def parts_of(each: MemoryObject) -> tuple[str, ...]:
    """The ids of the objects that it was made of."""
    return tuple(link.target for link in each.links if link.relation is Relation.PARENT_OF)


def created(event: ObjectCreated) -> MemoryObject:
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
        last_use=event.last_turn,
    )


def evolve(memory_object: MemoryObject, event: ObjectEvent) -> MemoryObject:
    """The object after an event of its own. What a branch shows of it is the branch's (``memory.evolve``)."""
    match event:
        case ObjectCreated():
            return created(event)
        case ObjectSummarized():
            rendition = Rendition(
                text=event.text, size=event.size, tokens=event.tokens, helper=event.helper, losses=event.losses
            )
            return attrs.evolve(memory_object, renditions={**memory_object.renditions, event.fidelity: rendition})
        case ObjectDegraded() | ObjectRestored():
            return memory_object
        case ObjectFaulted():
            return _faulted(memory_object, event)
        case ObjectPinned():
            return attrs.evolve(memory_object, pin=Pin(event.reason, event.until_turn))
        case ObjectUnpinned():
            return attrs.evolve(memory_object, pin=None)
        case ObjectReleased():
            return attrs.evolve(memory_object, released=True)
        case ObjectSuperseded():
            return attrs.evolve(memory_object, superseded=event.how, superseded_by=event.by)
        case ObjectLinked():
            return attrs.evolve(memory_object, links=(*memory_object.links, Link(event.relation, event.target)))
        case ObjectForgotten():
            bare = attrs.evolve(memory_object, source_tool=None, source_key=None, tags=(), key_entities=())
            return attrs.evolve(bare, stub="", line="", renditions={}, pin=None, forgotten=True)
        case _:
            assert_never(event)


def accessed(memory_object: MemoryObject, turn: int) -> MemoryObject:
    """The object after something later referred to it."""
    return attrs.evolve(
        memory_object, accesses=memory_object.accesses + 1, last_use=max(memory_object.last_use, turn), released=False
    )


def _faulted(memory_object: MemoryObject, event: ObjectFaulted) -> MemoryObject:
    micro = event.kind is FaultKind.MICRO
    return attrs.evolve(
        memory_object,
        faults=memory_object.faults + (not micro),
        micro_faults=memory_object.micro_faults + micro,
        last_use=max(memory_object.last_use, event.turn),
        last_fault=event.turn,
        released=False,
    )
