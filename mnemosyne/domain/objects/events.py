"""What happens to semantic objects, and to a branch's view of them.

Every change of an object is one of these events; ``decide`` alone makes them.
"""

from collections.abc import Mapping
from enum import Enum

import attrs

from mnemosyne.domain.cost.tokens import Estimator, Features
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role


class LinkRelation(Enum):
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


@attrs.frozen
class BlockPlace:
    """A block of a branch's history: message and block, both from 0 as the provider counts."""

    message: int
    block: int

    # Written out: hundreds are compared at each turn, and what attrs makes takes ten times as long.

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
    """One edge that begins at an object."""

    relation: LinkRelation
    target: str


@attrs.frozen(kw_only=True)
class Losses:
    """What a rendition lacks. ``dropped``, ``can_answer``, ``fault_when`` and ``key_entities`` are declared by whoever
    wrote it; ``lost`` is measured: how many specifics of each kind the full content has and the rendition has not, and
    ``sample`` names some of them. ``asked`` is how many questions a spot check put to it, and ``failed`` those that it
    did not answer; most are not checked.
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
    """What an object is worth to the index; each part and the ``score`` lie in 0…1."""

    type_prior: float
    novelty: float
    utility: float
    recency: float
    score: float
    admitted: bool


@attrs.frozen(kw_only=True)
class ObjectCreated:
    """An object was made of the blocks at ``places`` of a branch's history, as they stood in the request of ``turn``.

    ``content`` is an encoded BodyChange on nothing: the JSON of those blocks, one after the other. ``size`` counts
    characters of text, ``tokens`` and ``stub_tokens`` are estimates, ``line`` is what the index says of it once it has
    left the window. ``first_turn`` and ``last_turn`` are the turns whose replies and requests it covers. A derived
    object has no places: its links name its parts. ``by_user`` are the numbers of the places, from 0, whose words the
    user said; of what was made before version 2 nobody knows.
    """

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
    line: str = ""
    key_entities: tuple[str, ...]
    links: tuple[Link, ...]
    admission: Admission
    by_user: tuple[int, ...] = ()


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
    """The model, or a person, said that it is no longer needed."""

    at: int
    object: str
    branch: str
    turn: int
    reason: str


@attrs.frozen(kw_only=True)
class ObjectRequested:
    """A person wants the branch to show it again, at ``after``, behind what its user types next after ``turn``."""

    at: int
    object: str
    branch: str
    turn: int
    after: Fidelity
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
class ObjectForgotten:
    """It is managed no longer: its stub and its renditions are not shown to anybody, and it cannot be restored.

    Nothing decides one, since sessions are forgotten whole (``SessionForgotten``); what is stored is read for ever.
    """

    at: int
    object: str
    reason: str


@attrs.frozen(kw_only=True)
class TurnAssessed:
    """How full the window of a turn was, once its new messages were in objects.

    Messages before number ``open_from`` lie wholly in objects; the next turn goes on there. ``typed`` are the last
    messages that the user typed. ``content`` and ``head`` are the features (``tokens.Features``) of the messages, and
    of system prompt and tools; ``tokens`` is the estimate of the prompt, ``usable`` the tokens that history may take,
    ``zone`` the pressure.
    """

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
        """The part of ``tokens`` that is system prompt and tools, as estimated before any reply taught anything."""
        return min(self.tokens, Estimator.of(self.model).tokens(Features(*self.head)))


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
    | ObjectForgotten
)


OBJECT_EVENT_NAMES: Mapping[str, type[ObjectEvent]] = {
    "object.created.v2": ObjectCreated,
    "object.summarized.v2": ObjectSummarized,
    "object.degraded.v1": ObjectDegraded,
    "object.restored.v1": ObjectRestored,
    "object.faulted.v1": ObjectFaulted,
    "object.pinned.v1": ObjectPinned,
    "object.unpinned.v1": ObjectUnpinned,
    "object.released.v1": ObjectReleased,
    "object.requested.v1": ObjectRequested,
    "object.superseded.v1": ObjectSuperseded,
    "object.forgotten.v1": ObjectForgotten,
}
