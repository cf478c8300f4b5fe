"""Inputs of decisions that no other event records.

A decision whose inputs are all in the log can be replayed from it.
"""

from collections.abc import Mapping
from enum import Enum

import attrs

from mnemosyne.domain.session.address import AttemptEvent
from mnemosyne.domain.session.round_events import Mode


@attrs.frozen(kw_only=True)
class SettingsTaken:
    """From here on a session's requests are decided with these settings of its server.

    ``mode`` and ``tool_budget`` (as in BranchModeSet) apply to new branches. A managed prompt may hold ``window``
    tokens; if that is None, the model and the client determine the limit. With ``strict``, the model is instructed to
    rely on memory; with ``tell_repeats``, it is notified when it repeats the same call; with ``manages_small``, a
    branch is managed from its first request on, however small. With ``scaled``, the ledger compares the minimum size of
    a cached prompt with estimates at the provider's scale; with ``parts``, it scales system prompt and tools separately
    from messages, else both at the scale of the whole. With ``counted``, the memory tools state sizes as the provider
    counted them, else estimates. ``tariff`` is the name of the tariff used in planning, and ``models`` the digest of
    the table that tariff, prices and models come from; empty if the log does not say.
    """

    at: int
    mode: Mode
    window: int | None
    tool_budget: int | None
    strict: bool
    tariff: str
    models: bytes
    tell_repeats: bool
    manages_small: bool
    scaled: bool
    parts: bool
    counted: bool


class Awaited(Enum):
    """A result that a request waits for, for a short time only."""

    ACTOR = "actor"
    """The plan of the session's actor. Without it, the last sent history continues with the new messages."""
    LEAVING = "leaving"
    """The dispatch of the request. The client disconnected before it."""
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
    """A passage of an object in an index result: its characters from ``start`` up to ``end``."""

    object: str
    start: int
    end: int


@attrs.frozen(kw_only=True)
class IndexFound:
    """A result of the object index. ``question`` is a truncated hash of the query. ``passages`` are ordered best first,
    None if no answer came in time; ``missing`` counts the objects that were not indexed yet.
    """

    question: bytes
    passages: tuple[FoundPassage, ...] | None
    missing: int


@attrs.frozen(kw_only=True)
class GroundsNoted(AttemptEvent):
    """Further inputs of the decision about a ``round`` of a turn: the mode that the request ``wanted``, None if it
    named none; the results that came too ``late``; the hidden calls whose results came too late (``late_calls``) or
    whose contents could not be read (``unread_calls``); and the index results (``found``).
    """

    round: int
    wanted: Mode | None
    late: tuple[Awaited, ...]
    late_calls: tuple[str, ...]
    unread_calls: tuple[str, ...]
    found: tuple[IndexFound, ...]


@attrs.frozen(kw_only=True)
class GroundedSentence:
    """A sentence of a helper model, and the bytes of an object's text, from ``start`` up to, not including, ``end``,
    that support it.
    """

    text: str
    object: str
    start: int
    end: int


@attrs.frozen(kw_only=True)
class HelperAsked:
    """A ``helper`` model was asked a ``question`` about remembered passages, for the hidden ``call`` of a round;
    ``branch`` and the other fields that identify the round are None if a person asked.

    ``sentences`` are the sentences of its answer that were used, ``dropped`` counts the others. If none was used,
    ``why`` is the reason, and the question was answered with quotes alone. ``version`` is the task's, ``prompt`` the
    SHA-256 of what was sent; ``read`` and ``written`` are tokens as the endpoint counted them, ``nanodollars`` is the
    cost.
    """

    at: int
    branch: str | None
    turn: int | None
    attempt: int | None
    round: int | None
    call: str | None
    question: str
    helper: str
    sentences: tuple[GroundedSentence, ...]
    dropped: int
    why: str | None
    version: int
    prompt: bytes
    read: int | None
    written: int | None
    nanodollars: int


@attrs.frozen(kw_only=True)
class HelperWorked:
    """A ``helper`` model worked on a ``task`` (``domain.helper``) for a ``subject``, such as an object; ``branch`` and
    ``turn`` are None if the work is for the whole session.

    ``record`` is the accepted part of its answer as JSON, empty if the answer was ``rejected`` for these reasons;
    ``dropped`` are the reasons for which other parts were not accepted. ``version`` is the task's, ``prompt`` the
    SHA-256 of what was sent, and ``key`` the key of the cache. If ``cached``, an earlier answer was used and the model
    was not asked. ``read`` and ``written`` are tokens as the endpoint counted them, ``nanodollars`` is the cost.
    """

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
    "session.settings_taken.v7": SettingsTaken,
    "session.grounds_noted.v1": GroundsNoted,
}
