"""What is recorded of the grounds of a decision that no other event tells of.

A decision that has all its grounds in the log can be taken again from it.
"""

from collections.abc import Mapping
from enum import Enum

import attrs

from mnemosyne.domain.session.round_events import Mode


@attrs.frozen(kw_only=True)
class SettingsTaken:
    """From here on a session's requests are decided with these settings of its server.

    ``mode`` is that of a branch that begins. A managed prompt may hold ``window`` tokens; where that is None, its model
    and its client say how many. ``tool_budget`` is that of a branch that begins, as in BranchModeSet; ``strict`` says
    that the model is told to keep to what memory says, ``tell_repeats`` that it is told when it calls the same thing
    over and over; ``manages_small`` that a branch is managed from its first request on, however small that is.
    ``scaled`` says that the ledger compares the smallest size that is cached with estimates at the provider's scale;
    ``parts`` that it takes the estimates of system prompt and tools to be as wrong as those are, and of messages as
    wrong as these are, where else both are as wrong as the whole. ``counted`` says that the memory tools state sizes
    as the provider counted them, where else they state estimates. ``tariff`` is the name of the one that was weighed
    with, and ``models`` the digest of the table that it, the prices and the models come from; empty where the log does
    not say.
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
    """What a request waits for, and not for long."""

    ACTOR = "actor"
    """What its session's actor plans for it: what was sent last went on, with what is new."""
    LEAVING = "leaving"
    """That anything leaves for it: its client was gone before."""
    SUMMARIES = "summaries"
    """The summaries that an epoch shows; stubs stand for them."""
    RESTORES = "bringing"
    """The contents of objects that a person asked to see again."""
    GOAL = "goal"
    """What the user's message asked of memory. Only older logs hold it."""
    ANSWERS = "answers"
    """The answers of a round, all of them: what the model was told was settled without the actor that records it."""


@attrs.frozen(kw_only=True)
class FoundPassage:
    """A passage of an object that the index found: its characters from ``start`` up to ``end``."""

    object: str
    start: int
    end: int


@attrs.frozen(kw_only=True)
class IndexFound:
    """What the index of objects answered. ``question`` is the beginning of a hash of what it was asked. ``passages``
    come best first, None where no answer came in time; ``missing`` counts the objects that it did not hold yet.
    """

    question: bytes
    passages: tuple[FoundPassage, ...] | None
    missing: int


@attrs.frozen(kw_only=True)
class GroundsNoted:
    """What was decided of a ``round`` of a turn stood on this, too: the mode that the request ``wanted``, None if it
    did not say; what came too ``late``, and the hidden calls of which that is true (``late_calls``) or whose contents
    could not be read (``unread_calls``); and what the index ``found``.
    """

    at: int
    branch: str
    turn: int
    attempt: int
    round: int
    wanted: Mode | None
    late: tuple[Awaited, ...]
    late_calls: tuple[str, ...]
    unread_calls: tuple[str, ...]
    found: tuple[IndexFound, ...]


@attrs.frozen(kw_only=True)
class GroundedSentence:
    """A sentence of a helper model's, and the bytes of an object's text, from ``start`` up to, not including, ``end``,
    in which it was found to be grounded.
    """

    text: str
    object: str
    start: int
    end: int


@attrs.frozen(kw_only=True)
class HelperAsked:
    """A ``helper`` model was asked a ``question`` about passages of what is remembered, for the hidden ``call`` of a
    round; ``branch`` and all that names the round are None where a person asked.

    ``sentences`` are those of its answer that were told, ``dropped`` how many were not. Where none was, ``why`` says
    why, and the question was answered in quotes alone. ``nanodollars`` is what it cost.
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
    nanodollars: int


InputEvent = SettingsTaken | GroundsNoted | HelperAsked

GROUND_EVENT_NAMES: Mapping[str, type[InputEvent]] = {
    "session.helper_asked.v1": HelperAsked,
    "session.settings_taken.v7": SettingsTaken,
    "session.grounds_noted.v1": GroundsNoted,
}
