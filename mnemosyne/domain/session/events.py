"""What is recorded of a session, and under which names.

A stored name is ours and for ever; changing a field is a new version of the name. `docs/events.md` explains each field
to people.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.cost.tariffs import API
from mnemosyne.domain.objects.events import OBJECT_EVENT_NAMES, ObjectEvent, TurnAssessed
from mnemosyne.domain.session.input_events import GROUND_EVENT_NAMES, InputEvent
from mnemosyne.domain.session.ledger_events import LEDGER_EVENT_NAMES, TurnAccounted
from mnemosyne.domain.session.retired import RETIRED_EVENT_NAMES, RetiredEvent
from mnemosyne.domain.session.round_events import ROUND_EVENT_NAMES, RoundEvent
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.normal_form import Echo


class BranchKind(Enum):
    """What a branch is."""

    MAIN = "main"
    AGENT = "agent"
    """A sub-agent's window."""
    SIDE = "side"
    """Requests without tools beside the conversation: a title, a summary of a file."""
    COMPACTION = "compaction"
    """The client asked for a summary of its history. Nothing goes on from it."""
    SUCCESSOR = "successor"
    """A history that begins with such a summary."""
    FORK = "fork"
    """A history that left another one: the user went back, two requests were tried at once, a client goes on under
    another name, or an agent began with all that its parent knows.
    """
    OPAQUE = "opaque"
    """Requests that hold no history to compare: another dialect, or a conversation that the provider holds."""

    @property
    def is_talked_to(self) -> bool:
        """Whether the conversation of the user may go on in it."""
        return self in (BranchKind.MAIN, BranchKind.SUCCESSOR, BranchKind.FORK)


class TurnRelation(Enum):
    """What a request's history is to the branch that it was put on."""

    FIRST = "first"
    """The first request of its branch."""
    CONTINUES = "continues"
    """The history of the last turn, and more; on an opaque branch, only that it came next."""
    REPEATS = "repeats"
    """The history of a turn that was there before: another attempt."""


@attrs.frozen(kw_only=True)
class SessionStarted:
    """A session was seen for the first time. ``salt`` keys the ids that are made in it; ``at`` as everywhere: µs of
    UTC.
    """

    at: int
    tenant: str
    external_id: str
    client: str
    client_version: str | None
    salt: bytes


@attrs.frozen(kw_only=True)
class BranchOpened:
    """A context window of the session was seen for the first time.

    ``forked_at`` is the parent's turn after which it begins, ``kept`` the number of messages that it shares with the
    parent. Where ``inherits`` is true its turns continue the parent's count, and turns up to ``forked_at`` are the
    parent's own.
    """

    at: int
    branch: str
    kind: BranchKind
    lane: str
    parent: str | None
    forked_at: int
    inherits: bool
    kept: int
    agent_id: str | None

    @property
    def is_talked_to(self) -> bool:
        """Whether the conversation of the user goes on in it, and no agent's that another one called."""
        return self.kind.is_talked_to and self.agent_id is None


@attrs.frozen(kw_only=True)
class TurnBegan:
    """A request went upstream.

    ``body`` is an encoded BodyChange on the body that the event of version ``base`` of this stream recorded (0: on
    nothing). ``sha256`` is that of the bytes that were sent, ``stored_sha256`` that of what can be rebuilt, where a
    credential was withheld. ``chains`` are the chain hashes of the messages after the first ``kept`` of the branch's
    history (of a fork's first turn: of its parent's). ``opaque`` says why the body was not read as a conversation.
    ``echo`` says how a history that goes on shows the reply to the turn before, and ``echoed_attempt`` whose reply that
    is; both are None where there is nothing to compare. ``speaker`` is what the headers said of who speaks, None where
    it is what they said at the branch's last event of this kind.
    """

    at: int
    branch: str
    turn: int
    attempt: int
    relation: TurnRelation
    model: str | None
    stream: bool
    base: int
    body: bytes
    size: int
    sha256: bytes
    stored_sha256: bytes | None
    kept: int
    chains: tuple[bytes, ...]
    echo: Echo | None
    echoed_attempt: int | None
    opaque: str | None
    speaker: ClientHeaders | None = None


@attrs.frozen(kw_only=True)
class TurnFinished:
    """A reply came whole. ``reply`` is an encoded BodyChange on nothing: the message, or the error, as JSON. ``limits``
    are what its head said of a subscription's windows (wire.limits).
    """

    at: int
    branch: str
    turn: int
    attempt: int
    status: int
    reply: bytes
    message_id: str | None
    model: str | None
    stop_reason: str | None
    error_type: str | None
    usage: Mapping[str, Any]
    limits: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class TurnInterrupted:
    """There was no whole reply; ``reply`` is what arrived of it, ``status`` None if not even a head did."""

    at: int
    branch: str
    turn: int
    attempt: int
    status: int | None
    reply: bytes | None
    reason: str
    usage: Mapping[str, Any]
    limits: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class GapRecorded:
    """``turns`` turns went through between ``since`` and ``at`` without being recorded, because ``reason``."""

    at: int
    since: int
    turns: int
    reason: str


@attrs.frozen(kw_only=True)
class SessionForgotten:
    """The content of everything before was erased on request; hashes and shapes remain."""

    at: int


@attrs.frozen(kw_only=True)
class SessionImported:
    """A ``session`` was brought in from a file: its times and all else that it says of itself are the file's. It stands
    in the operator's stream, because a session's own events refer to each other by their numbers.
    """

    at: int
    session: UUID


@attrs.frozen(kw_only=True)
class CheckpointNamed:
    """A person gave a turn of a branch a name."""

    at: int
    name: str
    branch: str
    turn: int


@attrs.frozen(kw_only=True)
class EventLost:
    """An event stood here whose session could not be read any more, and was forgotten ``at`` this time."""

    at: int


SessionEvent = (
    SessionStarted
    | BranchOpened
    | TurnBegan
    | TurnFinished
    | TurnInterrupted
    | TurnAssessed
    | TurnAccounted
    | GapRecorded
    | SessionForgotten
    | SessionImported
    | CheckpointNamed
    | EventLost
    | RoundEvent
    | InputEvent
    | RetiredEvent
)

Event = SessionEvent | ObjectEvent

EVENT_NAMES: Mapping[str, type[Event]] = {
    "session.started.v1": SessionStarted,
    "session.branch_opened.v1": BranchOpened,
    "session.turn_began.v2": TurnBegan,
    "session.turn_finished.v2": TurnFinished,
    "session.turn_interrupted.v2": TurnInterrupted,
    "session.turn_assessed.v2": TurnAssessed,
    "session.gap_recorded.v1": GapRecorded,
    "session.forgotten.v1": SessionForgotten,
    "session.imported.v1": SessionImported,
    "session.checkpoint_named.v1": CheckpointNamed,
    "session.event_lost.v1": EventLost,
    **ROUND_EVENT_NAMES,
    **LEDGER_EVENT_NAMES,
    **GROUND_EVENT_NAMES,
    **RETIRED_EVENT_NAMES,
    **OBJECT_EVENT_NAMES,
}
"""The stored name of each event: ours, and for ever."""


def _without_wishes(assessed: dict[str, Any]) -> dict[str, Any]:
    """A turn was assessed together with what a second policy, which never acted, would have had leave the window."""
    return {name: value for name, value in assessed.items() if name not in ("wished", "withdrawn")}


def _upcast_unchecked(summarized: dict[str, Any]) -> dict[str, Any]:
    """A rendition of before spot checks."""
    return {**summarized, "losses": {**summarized["losses"], "asked": 0, "failed": []}}


def _without_credential(began: dict[str, Any]) -> dict[str, Any]:
    """A request of which the kind of its credential was not recorded."""
    speaker = began.get("speaker")
    return {**began, "speaker": {**speaker, "credential": None} if speaker else None}


_OF_BEFORE = {"manages_small": True, "scaled": False, "parts": False, "counted": False}
"""How servers of before decided, which had no choice in it."""

_USUAL_WINDOW = 160_000
"""The window of before that was the model's, as none is now."""


def _upcast_settings(**then: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Settings of before, of which what they did not say was so ``then``."""

    def upcast(taken: dict[str, Any]) -> dict[str, Any]:
        window = taken["window"]
        return {**taken, **then, "window": None if window == _USUAL_WINDOW else window}

    return upcast


EVENT_UPCASTS: Mapping[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "session.round_finished.v1": ("session.round_finished.v2", lambda fields: {**fields, "faults": 0, "tokens": 0}),
    "object.created.v1": ("object.created.v2", lambda fields: {**fields, "by_user": []}),
    "object.summarized.v1": ("object.summarized.v2", _upcast_unchecked),
    "session.turn_assessed.v1": ("session.turn_assessed.v2", _without_wishes),
    "session.branch_mode_set.v1": ("session.branch_mode_set.v2", lambda fields: {**fields, "late": False}),
    "session.settings_taken.v1": (
        "session.settings_taken.v7",
        _upcast_settings(tariff=API, models="", tell_repeats=False, **_OF_BEFORE),
    ),
    "session.settings_taken.v2": ("session.settings_taken.v7", _upcast_settings(tell_repeats=False, **_OF_BEFORE)),
    "session.settings_taken.v3": ("session.settings_taken.v7", _upcast_settings(**_OF_BEFORE)),
    "session.settings_taken.v4": ("session.settings_taken.v7", _upcast_settings(parts=False, counted=False)),
    "session.settings_taken.v5": ("session.settings_taken.v7", _upcast_settings(counted=False)),
    "session.settings_taken.v6": ("session.settings_taken.v7", lambda fields: {**fields, "counted": False}),
    "session.turn_finished.v1": ("session.turn_finished.v2", lambda fields: {**fields, "limits": {}}),
    "session.turn_interrupted.v1": ("session.turn_interrupted.v2", lambda fields: {**fields, "limits": {}}),
    "session.turn_began.v1": ("session.turn_began.v2", _without_credential),
}
"""Of each stored name that is written no more, its successor, and what makes that one's fields of the old ones."""


def names_of(*kinds: type[Event]) -> list[str]:
    """The stored names of some kinds of events, those of before among them."""
    names = [name for name, event in EVENT_NAMES.items() if event in kinds]
    return [*names, *(old for old, (name, _) in EVENT_UPCASTS.items() if name in names)]
