"""Inputs of decisions that no other event records. `docs/events.md` explains each field.

A decision whose inputs are all in the log can be replayed from it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.objects.fidelity import FidelityMode
from mnemosyne.domain.session.address import AttemptEvent
from mnemosyne.domain.session.round_events import Mode


@attrs.frozen(kw_only=True)
class RecordedSettings:
    """The settings of a server that determine its requests upstream, as recorded."""

    window: int | None = None
    tool_budget: int | None = None
    strict: bool = False
    tariff: str | None = None
    models: bytes = b""
    tell_repeats: bool = False
    manages_small: bool = True
    scaled: bool = True
    parts: bool = True
    counted: bool = True
    prefixes: bool = True
    nearest: bool = True
    by_kind: bool = True
    policy: str = "economic"
    policy_version: str = ""
    fidelity: FidelityMode = FidelityMode.THRIFTY
    chosen: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    restores: str = "both"
    faults: int = 3
    cited: bool = False

    @property
    def grounding(self) -> str:
        """How the model may use evicted content: ``free``, ``cited`` or ``strict``."""
        return "strict" if self.strict else "cited" if self.cited else "free"

    def as_fields(self) -> dict[str, Any]:
        """The settings by name, without the fields of a subclass."""
        return {name: getattr(self, name) for name in attrs.fields_dict(RecordedSettings)}


@attrs.frozen(kw_only=True)
class SettingsTaken(RecordedSettings):
    """From here on a session's requests are decided with these settings of its server."""

    at: int
    mode: Mode


class Awaited(Enum):
    """A result that a request waits for, for a short time only."""

    ACTOR = "actor"
    """The plan of the session's actor. Without it, the last sent history continues with the new messages."""
    LEAVING = "leaving"
    """The dispatch of the request. The client disconnected before it, or a limit on cost refused it."""
    SUMMARIES = "summaries"
    """The summaries that an epoch shows. Without them, it shows stubs."""
    RESTORES = "bringing"
    """The contents of objects that a person asked to restore."""
    GOAL = "goal"
    """The result of a memory search for the user's message. Only older logs contain it."""
    ANSWERS = "answers"
    """All answers of a round. Without them, the model's results were settled without the actor that records them."""


@attrs.frozen(kw_only=True)
class FoundPassage:
    """A passage of an object in an index result: its characters from ``start`` up to ``end``. ``score`` is in percent;
    None in older logs.
    """

    object: str
    start: int
    end: int
    score: int | None = None


@attrs.frozen(kw_only=True)
class IndexFound:
    """A result of the object index. ``question`` is a truncated hash of the query. ``passages`` are ordered best first,
    None if no answer came in time; ``missing`` counts the objects that were not indexed yet.
    """

    question: bytes
    passages: tuple[FoundPassage, ...] | None
    missing: int


@attrs.frozen(kw_only=True, slots=False)
class InputsSoFar:
    """External results that a decision has used so far, and those that came too late."""

    late: tuple[Awaited, ...] = ()
    late_calls: tuple[str, ...] = ()
    unread_calls: tuple[str, ...] = ()
    found: tuple[IndexFound, ...] = ()
    policy: str | None = None


@attrs.frozen(kw_only=True)
class GroundsNoted(AttemptEvent, InputsSoFar):
    """Inputs of the decision about a round that no other event records."""

    round: int
    wanted: Mode | None


@attrs.frozen(kw_only=True)
class GroundedSentence:
    """A sentence of a helper model, and the bytes of an object's text, from ``start`` up to, not including, ``end``,
    that support it.
    """

    text: str
    object: str
    start: int
    end: int


@attrs.frozen(kw_only=True, slots=False)
class HelperAnswer:
    """A helper model's answer to a question."""

    helper: str
    sentences: tuple[GroundedSentence, ...] = ()
    dropped: int = 0
    why: str | None = None
    version: int = 0
    prompt: bytes = b""
    read: int | None = None
    written: int | None = None
    nanodollars: int = 0

    def as_fields(self) -> dict[str, Any]:
        """The fields of an answer, without the fields of a subclass."""
        return {name: getattr(self, name) for name in attrs.fields_dict(HelperAnswer)}


@attrs.frozen(kw_only=True)
class HelperAsked(HelperAnswer):
    """A helper model was asked a ``question`` about remembered passages, by a hidden call or by a person."""

    at: int
    branch: str | None = None
    turn: int | None = None
    attempt: int | None = None
    round: int | None = None
    call: str | None = None
    question: str


@attrs.frozen(kw_only=True)
class HelperWorked:
    """A helper model worked on a task (``domain.helper``) for a subject, such as an object."""

    at: int
    task: str
    version: int
    helper: str
    subject: str
    branch: str | None
    turn: int | None
    prompt: bytes
    key: bytes
    record: str
    rejected: tuple[str, ...]
    dropped: tuple[str, ...]
    cached: bool
    read: int | None
    written: int | None
    nanodollars: int


InputEvent = SettingsTaken | GroundsNoted | HelperAsked | HelperWorked

GROUND_EVENT_NAMES: Mapping[str, type[InputEvent]] = {
    "session.helper_asked.v2": HelperAsked,
    "session.helper_worked.v1": HelperWorked,
    "session.settings_taken.v12": SettingsTaken,
    "session.grounds_noted.v3": GroundsNoted,
}
