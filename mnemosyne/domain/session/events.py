"""The events of a session, and their stored names.

A stored name never changes; changing a field makes a new version of the name. `docs/events.md` explains each field.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.cost.tariffs import API
from mnemosyne.domain.objects.events import OBJECT_EVENT_NAMES, ObjectEvent, TurnAssessed
from mnemosyne.domain.session.address import AttemptEvent, BodyEvent
from mnemosyne.domain.session.input_events import GROUND_EVENT_NAMES, InputEvent
from mnemosyne.domain.session.ledger_events import LEDGER_EVENT_NAMES, TurnAccounted
from mnemosyne.domain.session.retired import RETIRED_EVENT_NAMES, RetiredEvent
from mnemosyne.domain.session.round_events import ROUND_EVENT_NAMES, RoundEvent
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.normal_form import Echo


class BranchKind(Enum):
    """The kind of a branch."""

    MAIN = "main"
    AGENT = "agent"
    """A sub-agent's window."""
    SIDE = "side"
    """Requests without tools that are not part of the conversation, such as those for a title or a file summary."""
    COMPACTION = "compaction"
    """The client asked for a summary of its history. Nothing continues such a branch."""
    SUCCESSOR = "successor"
    """A history that begins with such a summary."""
    FORK = "fork"
    """A history that diverges from another one: the user went back, the client sent two requests at once, a client
    continues under another name, or an agent began with its parent's whole history.
    """
    OPAQUE = "opaque"
    """Requests that contain no history to compare: another dialect, or a conversation that the provider stores."""

    @property
    def is_talked_to(self) -> bool:
        """Whether the user's conversation may continue in it."""
        return self in (BranchKind.MAIN, BranchKind.SUCCESSOR, BranchKind.FORK)


class TurnRelation(Enum):
    """The relation between a request's history and its branch."""

    FIRST = "first"
    """The first request of its branch."""
    CONTINUES = "continues"
    """The history of the last turn, and more; on an opaque branch, just the next request."""
    REPEATS = "repeats"
    """The history of an existing turn: another attempt."""


@attrs.frozen(kw_only=True)
class SessionStarted:
    """A session was seen for the first time."""

    at: int
    tenant: str
    external_id: str
    client: str
    client_version: str | None
    salt: bytes


@attrs.frozen(kw_only=True)
class BranchOpened:
    """A context window of the session was seen for the first time."""

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
        """Whether the user's conversation may continue in it; never true of a sub-agent's branch."""
        return self.kind.is_talked_to and self.agent_id is None


@attrs.frozen(kw_only=True)
class SubmittedBlock:
    """A text block that the client's hook vouched for: the user submitted it. ``message`` and ``block`` are its numbers
    in the request. ``interactive``: a person was at the client; otherwise a program may have submitted it.
    """

    message: int
    block: int
    interactive: bool


@attrs.frozen(kw_only=True)
class TurnBegan(BodyEvent):
    """A request went upstream."""

    relation: TurnRelation
    model: str | None
    stream: bool
    kept: int
    chains: tuple[bytes, ...]
    echo: Echo | None
    echoed_attempt: int | None
    opaque: str | None
    speaker: ClientHeaders | None = None
    submitted: SubmittedBlock | None = None


@attrs.frozen(kw_only=True)
class TurnFinished(AttemptEvent):
    """A reply is complete."""

    status: int
    reply: bytes
    message_id: str | None
    model: str | None
    stop_reason: str | None
    error_type: str | None
    usage: Mapping[str, Any]
    limits: Mapping[str, str] = attrs.field(factory=dict)
    first_byte: int | None = None


CLIENT_LEFT = "the client left"
"""The reason of an interrupted turn whose client closed the connection."""


@attrs.frozen(kw_only=True)
class TurnInterrupted(AttemptEvent):
    """The reply is incomplete; ``reply`` is the part that arrived, ``status`` is None if no headers arrived."""

    status: int | None
    reply: bytes | None
    reason: str
    usage: Mapping[str, Any]
    limits: Mapping[str, str] = attrs.field(factory=dict)
    first_byte: int | None = None


@attrs.frozen
class ToolUse:
    """The sources that the tool of a ``call`` read and changed: paths, other names, or ids of objects."""

    call: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ToolsDeclared:
    """The client declared what its tools read and changed."""

    at: int
    uses: tuple[ToolUse, ...]


@attrs.frozen(kw_only=True)
class GapRecorded:
    """``turns`` turns passed through unrecorded between ``since`` and ``at``, because of ``reason``."""

    at: int
    since: int
    turns: int
    reason: str


@attrs.frozen(kw_only=True)
class SessionForgotten:
    """The content of all earlier events was erased on request; hashes and shapes remain."""

    at: int


@attrs.frozen(kw_only=True)
class SessionImported:
    """A ``session`` was imported from a file, from which its times and all its other data come."""

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
    """Replaces an event of a session that could no longer be read, and was forgotten ``at`` this time."""

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
    | ToolsDeclared
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
    "session.turn_began.v4": TurnBegan,
    "session.turn_finished.v3": TurnFinished,
    "session.turn_interrupted.v3": TurnInterrupted,
    "session.turn_assessed.v2": TurnAssessed,
    "session.gap_recorded.v1": GapRecorded,
    "session.tools_declared.v1": ToolsDeclared,
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
"""The stored name of each event. A name never changes."""


def _without_wishes(assessed: dict[str, Any]) -> dict[str, Any]:
    """Drop the evictions that a second policy, which never acted, would have made at the assessed turn."""
    return {name: value for name, value in assessed.items() if name not in ("wished", "withdrawn")}


def _upcast_unchecked(summarized: dict[str, Any]) -> dict[str, Any]:
    """Upcast a rendition from before spot checks."""
    return {**summarized, "losses": {**summarized["losses"], "asked": 0, "failed": []}}


def _without_first_byte(ended: dict[str, Any]) -> dict[str, Any]:
    """Upcast the end of a turn that did not record the time to the first byte of its reply."""
    return {**ended, "first_byte": None}


def _without_limits(ended: dict[str, Any]) -> dict[str, Any]:
    """Upcast the end of a turn that did not record the limits of a subscription either."""
    return _without_first_byte({**ended, "limits": {}})


def _without_betas(began: dict[str, Any]) -> dict[str, Any]:
    """Upcast a request that did not record its betas."""
    speaker = began.get("speaker")
    return {**began, "speaker": {**speaker, "betas": None} if speaker else None}


def _without_submission(began: dict[str, Any]) -> dict[str, Any]:
    """Upcast a request from before hooks vouched for prompts."""
    return _without_betas({**began, "submitted": None})


def _without_credential(began: dict[str, Any]) -> dict[str, Any]:
    """Upcast a request that did not record the kind of its credential either."""
    speaker = began.get("speaker")
    return _without_submission({**began, "speaker": {**speaker, "credential": None} if speaker else None})


_OF_ALL_KINDS: Mapping[str, Any] = {"by_kind": False}
_OF_ENDS: Mapping[str, Any] = {"prefixes": False, "nearest": False, **_OF_ALL_KINDS}
_UNCITED: Mapping[str, Any] = {"cited": False, **_OF_ENDS}
_THREE_FAULTS: Mapping[str, Any] = {"faults": 3, **_UNCITED}
_ONE_POLICY: Mapping[str, Any] = {
    "policy": "economic",
    "policy_version": "",
    "fidelity": "thrifty",
    "chosen": [],
    "refused": [],
    "restores": "both",
    **_THREE_FAULTS,
}
_UNCOUNTED: Mapping[str, Any] = {"counted": False, **_ONE_POLICY}
_OF_BEFORE: Mapping[str, Any] = {"manages_small": True, "scaled": False, "parts": False, **_UNCOUNTED}
"""The behaviour of earlier servers, which had no settings for it."""

_USUAL_WINDOW = 160_000
"""The default window of earlier servers; None is the default now."""


def _upcast_settings(**then: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Upcast settings, with the values that absent fields had ``then``."""

    def upcast(taken: dict[str, Any]) -> dict[str, Any]:
        window = taken["window"]
        return {**taken, **then, "window": None if window == _USUAL_WINDOW else window}

    return upcast


EVENT_UPCASTS: Mapping[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "session.edited.v1": (
        "session.edited.v2",
        lambda fields: {**fields, "closed": fields["closed"] or None, "grounding": None},
    ),
    "session.round_finished.v1": ("session.round_finished.v2", lambda fields: {**fields, "faults": 0, "tokens": 0}),
    "object.created.v1": ("object.created.v2", lambda fields: {**fields, "by_user": []}),
    "object.pinned.v1": ("object.pinned.v2", lambda fields: {**fields, "branch": None}),
    "object.unpinned.v1": ("object.unpinned.v2", lambda fields: {**fields, "branch": None}),
    "object.released.v1": ("object.released.v2", lambda fields: {**fields, "everywhere": True}),
    "object.faulted.v1": ("object.faulted.v2", lambda fields: {**fields, "why": None}),
    "object.summarized.v1": ("object.summarized.v2", _upcast_unchecked),
    "session.turn_assessed.v1": ("session.turn_assessed.v2", _without_wishes),
    "session.branch_mode_set.v1": (
        "session.branch_mode_set.v3",
        lambda fields: {"tool_budget": None, **fields, "late": False, "behind": False},
    ),
    "session.branch_mode_set.v2": ("session.branch_mode_set.v3", lambda fields: {**fields, "behind": False}),
    "session.settings_taken.v1": (
        "session.settings_taken.v12",
        _upcast_settings(tariff=API, models="", tell_repeats=False, **_OF_BEFORE),
    ),
    "session.settings_taken.v2": ("session.settings_taken.v12", _upcast_settings(tell_repeats=False, **_OF_BEFORE)),
    "session.settings_taken.v3": ("session.settings_taken.v12", _upcast_settings(**_OF_BEFORE)),
    "session.settings_taken.v4": ("session.settings_taken.v12", _upcast_settings(parts=False, **_UNCOUNTED)),
    "session.settings_taken.v5": ("session.settings_taken.v12", _upcast_settings(**_UNCOUNTED)),
    "session.settings_taken.v6": ("session.settings_taken.v12", lambda fields: {**fields, **_UNCOUNTED}),
    "session.settings_taken.v7": ("session.settings_taken.v12", lambda fields: {**fields, **_ONE_POLICY}),
    "session.settings_taken.v8": ("session.settings_taken.v12", lambda fields: {**fields, **_THREE_FAULTS}),
    "session.settings_taken.v9": ("session.settings_taken.v12", lambda fields: {**fields, **_UNCITED}),
    "session.settings_taken.v10": ("session.settings_taken.v12", lambda fields: {**fields, **_OF_ENDS}),
    "session.settings_taken.v11": ("session.settings_taken.v12", lambda fields: {**fields, **_OF_ALL_KINDS}),
    "session.grounds_noted.v1": ("session.grounds_noted.v2", lambda fields: {**fields, "policy": None}),
    "session.turn_finished.v1": ("session.turn_finished.v3", _without_limits),
    "session.turn_finished.v2": ("session.turn_finished.v3", _without_first_byte),
    "session.turn_interrupted.v1": ("session.turn_interrupted.v3", _without_limits),
    "session.turn_interrupted.v2": ("session.turn_interrupted.v3", _without_first_byte),
    "session.turn_began.v1": ("session.turn_began.v4", _without_credential),
    "session.turn_began.v2": ("session.turn_began.v4", _without_submission),
    "session.turn_began.v3": ("session.turn_began.v4", _without_betas),
    "session.helper_asked.v1": (
        "session.helper_asked.v2",
        lambda fields: {**fields, "version": 0, "prompt": "", "read": None, "written": None},
    ),
}
"""For each stored name that is no longer written: its successor, and a function that converts the fields."""


def names_of(*kinds: type[Event]) -> list[str]:
    """The stored names of some kinds of events, earlier versions included."""
    names = [name for name, event in EVENT_NAMES.items() if event in kinds]
    return [*names, *(old for old, (name, _) in EVENT_UPCASTS.items() if name in names)]
