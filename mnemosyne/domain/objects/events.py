"""Events of semantic objects and of a branch's view of them. `docs/events.md` explains each field.

Every change of an object is one of these events; only ``decide`` makes them.
"""

from collections.abc import Mapping
from enum import Enum

import attrs

from mnemosyne.domain.cost.tokens import Estimator, Features
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role


class LinkRelation(Enum):
    """Relation of one object to another: ``source`` RELATION ``target``."""

    PARENT_OF = "parent_of"
    CAUSED_BY = "caused_by"
    REFERENCES = "references"
    SUPERSEDES = "supersedes"
    DEPENDS_ON = "depends_on"


class Supersession(Enum):
    """Why an object is no longer current."""

    REREAD = "reread"
    """The same source was read again; the later object shows it."""
    EDITED = "edited"
    """The file was changed after it was read."""
    REVISED = "revised"
    """A later plan, decision or run replaces it."""


class FaultKind(Enum):
    """How a page fault was detected."""

    EXPLICIT = "explicit"
    """The model restored it."""
    MICRO = "micro"
    """The model asked a question about it; the object stayed where it was."""
    IMPLICIT = "implicit"
    """The agent fetched recorded content again: the same file or the same command."""


class FaultReason(Enum):
    """Why an object was needed again, by who asked, in which call, for which file; never by words."""

    USER_RECALL = "user_recall"
    """The model asked for it in its first reply to what the user typed."""
    REFERENCE = "reference_resolved"
    """The model asked for it in the midst of its work, or the client referred to its own earlier copy."""
    PREREQUISITE = "tool_prerequisite"
    """The agent fetched it again with a tool."""
    EXACT_TEXT = "exact_text"
    """A change of its file had just failed."""
    SPECULATIVE = "speculative"
    """A helper model expected that it would be needed: no fault, but counted with them."""


@attrs.frozen
class BlockPlace:
    """A block of a branch's history: the indexes of its message and of the block within it, from 0 as the provider
    counts.
    """

    message: int
    block: int

    # Written out because hundreds are compared in each turn, and the methods that attrs generates take ten times as
    # long.

    def __lt__(self, other: "BlockPlace") -> bool:
        return (self.message, self.block) < (other.message, other.block)

    def __le__(self, other: "BlockPlace") -> bool:
        return (self.message, self.block) <= (other.message, other.block)

    def __gt__(self, other: "BlockPlace") -> bool:
        return (self.message, self.block) > (other.message, other.block)

    def __ge__(self, other: "BlockPlace") -> bool:
        return (self.message, self.block) >= (other.message, other.block)


@attrs.frozen
class Link:
    """One link from an object to its ``target``."""

    relation: LinkRelation
    target: str


@attrs.frozen(kw_only=True)
class Losses:
    """The losses of a rendition. Its writer declares ``dropped``, ``can_answer``, ``fault_when`` and ``key_entities``.
    ``lost`` is measured: by kind, how many specifics of the full content are missing from the rendition; ``sample``
    names some of them. ``asked`` and ``failed`` are the results of spot checks by earlier versions.
    """

    dropped: tuple[str, ...] = ()
    can_answer: tuple[str, ...] = ()
    fault_when: tuple[str, ...] = ()
    key_entities: tuple[str, ...] = ()
    lost: Mapping[str, int] = attrs.field(factory=dict)
    sample: tuple[str, ...] = ()
    asked: int = 0
    failed: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Admission:
    """The admission score of an object; each part and the ``score`` are in 0…1."""

    type_prior: float
    novelty: float
    utility: float
    recency: float
    score: float
    admitted: bool


@attrs.frozen(kw_only=True)
class OfObject:
    """The first fields of an event or command about an object."""

    at: int
    object: str


@attrs.frozen(kw_only=True)
class OfObjectInTurn(OfObject):
    """The first fields of an event or command about an object in a turn of a branch."""

    branch: str
    turn: int


@attrs.frozen(kw_only=True)
class ObjectFields(OfObjectInTurn):
    """An object as it was created, as of the request of a turn."""

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

    @property
    def holds_content(self) -> bool:
        """Whether it has content of its own, in the conversation or beside it; others are made of objects."""
        return bool(self.places) or self.role is Role.WRITTEN


@attrs.frozen(kw_only=True)
class ObjectCreated(ObjectFields):
    """An object was created."""


@attrs.frozen(kw_only=True)
class ObjectSummarized(OfObject):
    """A rendition was made."""

    fidelity: Fidelity
    text: bytes
    size: int
    tokens: int
    helper: str
    losses: Losses
    nanodollars: int


@attrs.frozen(kw_only=True)
class FidelityChange(OfObjectInTurn):
    """A branch shows the object at another fidelity."""

    before: Fidelity
    after: Fidelity
    cause: Cause


@attrs.frozen(kw_only=True)
class ObjectDegraded(FidelityChange):
    """From this turn on, the branch shows less of the object."""


@attrs.frozen(kw_only=True)
class ObjectRestored(FidelityChange):
    """From this turn on, the branch shows more of the object, at its end."""


@attrs.frozen(kw_only=True)
class ObjectFaulted(OfObjectInTurn):
    """A page fault: the branch needed an object that it no longer showed in full."""

    kind: FaultKind
    reason: str
    distance: int
    tokens: int
    avoided_tokens: int
    latency: int
    why: FaultReason | None


@attrs.frozen(kw_only=True)
class ObjectPinned(OfObject):
    """The object keeps its fidelity in a branch and in its later forks; in every branch if ``branch`` is None."""

    reason: str
    until_turn: int | None
    branch: str | None = None


@attrs.frozen(kw_only=True)
class ObjectUnpinned(OfObject):
    """The object is no longer pinned in a branch and its later forks; in no branch if ``branch`` is None."""

    reason: str
    branch: str | None = None


@attrs.frozen(kw_only=True)
class ObjectReleased(OfObjectInTurn):
    """The model or a person released the object as no longer needed. ``everywhere``: in every branch."""

    reason: str
    everywhere: bool = False


@attrs.frozen(kw_only=True)
class ObjectRequested(OfObjectInTurn):
    """A person asked to restore the object behind the next message that the user types."""

    after: Fidelity
    reason: str


@attrs.frozen(kw_only=True)
class ObjectSuperseded(OfObject):
    """A later object replaced this one, or a change of its file made it stale."""

    branch: str
    by: str | None
    how: Supersession


@attrs.frozen(kw_only=True)
class ObjectLinked(OfObject):
    """A tool of the agent's host linked two objects."""

    link: Link


@attrs.frozen(kw_only=True)
class ObjectForgotten(OfObject):
    """The object can no longer be shown or restored. No decision makes this event today."""

    reason: str


@attrs.frozen(kw_only=True)
class TurnAssessed:
    """How full the window was in a turn, after its new messages were segmented into objects."""

    at: int
    branch: str
    turn: int
    model: str | None
    open_from: int
    typed: tuple[int, ...]
    content: tuple[int, int]
    head: tuple[int, int]
    tokens: int
    usable: int
    zone: str

    @property
    def fixed(self) -> int:
        """The part of ``tokens`` for system prompt and tools, by the estimate before any calibration from replies."""
        return min(self.tokens, Estimator.of(self.model).tokens(Features(*self.head)))

    @property
    def history(self) -> int:
        """The estimated tokens of the history, from which pressure is computed."""
        return self.tokens - self.fixed


ObjectEvent = (
    ObjectCreated
    | ObjectSummarized
    | ObjectDegraded
    | ObjectRestored
    | ObjectFaulted
    | ObjectPinned
    | ObjectUnpinned
    | ObjectReleased
    | ObjectRequested
    | ObjectSuperseded
    | ObjectLinked
    | ObjectForgotten
)


OBJECT_EVENT_NAMES: Mapping[str, type[ObjectEvent]] = {
    "object.created.v2": ObjectCreated,
    "object.summarized.v2": ObjectSummarized,
    "object.degraded.v1": ObjectDegraded,
    "object.restored.v1": ObjectRestored,
    "object.faulted.v2": ObjectFaulted,
    "object.pinned.v2": ObjectPinned,
    "object.unpinned.v2": ObjectUnpinned,
    "object.released.v2": ObjectReleased,
    "object.requested.v1": ObjectRequested,
    "object.superseded.v1": ObjectSuperseded,
    "object.linked.v1": ObjectLinked,
    "object.forgotten.v1": ObjectForgotten,
}
