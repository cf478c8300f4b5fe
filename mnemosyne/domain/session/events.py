"""The events of a session, and their stored names.

A stored name never changes; changing a field makes a new version of the name. `docs/events.md` explains each field.
"""

from collections.abc import Callable, Mapping, Sequence
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
    def is_agent_context(self) -> bool:
        """Whether it is the context of an agent. Only such a branch has memory, may be managed, and has its turns
        accounted; the others cost the same without the proxy.
        """
        return self in (BranchKind.MAIN, BranchKind.AGENT, BranchKind.SUCCESSOR, BranchKind.FORK)

    @property
    def is_interactive(self) -> bool:
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
    def is_interactive(self) -> bool:
        """Whether the user's conversation may continue in it; never true of a sub-agent's branch."""
        return self.kind.is_interactive and self.agent_id is None


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


Upcast = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts the fields of a stored event to those of the next version."""


def _add(**then: Any) -> Upcast:
    """Add fields, with the values that their absence meant in earlier versions."""
    return lambda fields: {**fields, **then}


def _add_to_speaker(**then: Any) -> Upcast:
    """The same for the client headers of a request, if it has any."""

    def upcast(began: dict[str, Any]) -> dict[str, Any]:
        speaker = began.get("speaker")
        return {**began, "speaker": {**speaker, **then} if speaker else None}

    return upcast


def _add_scores(noted: dict[str, Any]) -> dict[str, Any]:
    """Add unknown scores to the passages; an index that did not answer has no passages."""
    found = [
        {**each, "passages": each["passages"] and [{**passage, "score": None} for passage in each["passages"]]}
        for each in noted["found"]
    ]
    return {**noted, "found": found}


def _without_wishes(assessed: dict[str, Any]) -> dict[str, Any]:
    """Drop the evictions that a second, inactive policy would have made at the assessed turn."""
    return {name: value for name, value in assessed.items() if name not in ("wished", "withdrawn")}


_USUAL_WINDOW = 160_000
"""The default window of earlier servers; None is the default now."""

_UPCASTS: Mapping[str, Sequence[Upcast]] = {
    "session.edited": (lambda fields: {**fields, "closed": fields["closed"] or None, "grounding": None},),
    "session.round_finished": (_add(faults=0, tokens=0),),
    "object.created": (_add(by_user=[]),),
    "object.pinned": (_add(branch=None),),
    "object.unpinned": (_add(branch=None),),
    "object.released": (_add(everywhere=True),),
    "object.faulted": (_add(why=None),),
    "object.summarized": (lambda fields: {**fields, "losses": {**fields["losses"], "asked": 0, "failed": []}},),
    "session.turn_assessed": (_without_wishes,),
    "session.turn_accounted": (_add(far=None),),
    "session.branch_mode_set": (lambda fields: {"tool_budget": None, **fields, "late": False}, _add(behind=False)),
    "session.settings_taken": (
        _add(tariff=API, models=""),
        _add(tell_repeats=False),
        _add(manages_small=True, scaled=False),
        _add(parts=False),
        lambda fields: {**fields, "window": None if fields["window"] == _USUAL_WINDOW else fields["window"]},
        _add(counted=False),
        _add(policy="economic", policy_version="", fidelity="thrifty", chosen=[], refused=[], restores="both"),
        _add(faults=3),
        _add(cited=False),
        _add(prefixes=False, nearest=False),
        _add(by_kind=False),
    ),
    "session.grounds_noted": (_add(policy=None), _add_scores),
    "session.turn_finished": (_add(limits={}), _add(first_byte=None)),
    "session.turn_interrupted": (_add(limits={}), _add(first_byte=None)),
    "session.turn_began": (_add_to_speaker(credential=None), _add(submitted=None), _add_to_speaker(betas=None)),
    "session.helper_asked": (_add(version=0, prompt="", read=None, written=None),),
}
"""For each kind of event, the conversions from version 1 to 2, from 2 to 3, and so on."""

EVENT_UPCASTS: Mapping[str, tuple[str, Upcast]] = {
    f"{kind}.v{version}": (f"{kind}.v{version + 1}", upcast)
    for kind, upcasts in _UPCASTS.items()
    for version, upcast in enumerate(upcasts, 1)
}
"""For each stored name that is no longer written: the name of the next version, and the conversion to it."""


def names_of(*kinds: type[Event]) -> list[str]:
    """The stored names of some kinds of events, earlier versions included."""
    names = [name for name, event in EVENT_NAMES.items() if event in kinds]
    for old, (name, _) in reversed([*EVENT_UPCASTS.items()]):
        if name in names:
            names.append(old)
    return names
