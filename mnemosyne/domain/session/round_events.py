"""Events of a managed branch: its mode, its epochs, and each round with the provider. `docs/events.md` explains
each field.

The body that a managed branch sends upstream is not the client's. Each round's event records it as TurnBegan records
the client's: as a change on an earlier body, with the SHA-256 of the whole.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.session.address import AttemptEvent, BodyEvent, TurnEvent


class Mode(Enum):
    """The source of the requests that a branch sends upstream."""

    OBSERVE = "observe"
    """The client's own bytes."""
    MANAGE = "manage"
    """Its wire history, with the memory tools."""
    BYPASS = "bypass"
    """It is no longer managed: it sends the client's request, without thinking that was signed against the earlier wire
    history, and without the memory tools. If that no longer fits the model's window, it keeps the last rendering."""


UNTIL_EVICTED = "the memory tools join with the first content that is evicted"
TOO_SMALL = "the memory tools would be too large a part of it, so they wait until it has grown"
WAITING = (UNTIL_EVICTED, TOO_SMALL)
"""The reasons for sending a branch's requests unchanged, though each is planned: until its memory tools join."""


@attrs.frozen(kw_only=True)
class BranchModeSet:
    """What a branch sends upstream from here on, and why."""

    at: int
    branch: str
    mode: Mode
    why: str
    tool_budget: int | None = None
    late: bool = False
    behind: bool = False


@attrs.frozen(kw_only=True)
class RoundBegan(BodyEvent):
    """The proxy sent a request of a managed branch to the provider."""

    round: int
    epoch: int
    kept: int
    ends: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Answered:
    """A hidden call and its result: the ``tool_result`` block as an encoded BodyChange on an empty body."""

    call: str
    result: bytes


@attrs.frozen(kw_only=True)
class RoundFinished(AttemptEvent):
    """A round's reply is complete."""

    round: int
    reply: bytes
    model: str | None
    stop_reason: str | None
    usage: Mapping[str, Any]
    answers: tuple[Answered, ...]
    faults: int
    tokens: int


@attrs.frozen(kw_only=True)
class EpochBegan(TurnEvent):
    """The wire history of a branch was rewritten before the request of a turn. Epochs count from 1."""

    epoch: int
    messages: int
    reason: str
    freed: int
    price: int
    payback: int | None
    hour: bool


@attrs.frozen(kw_only=True)
class WindowFilled(TurnEvent):
    """The proxy sent a request although it fills the branch's window."""

    window: int
    tokens: int
    fixed: int
    new: int
    why: str


@attrs.frozen(kw_only=True)
class WindowStated(AttemptEvent):
    """The provider refused the first round of an attempt as longer than the window of its model."""

    model: str | None
    window: int
    tokens: int | None


@attrs.frozen(kw_only=True)
class FallbackSent(BodyEvent):
    """The proxy sent the client's request without thinking that the provider would have refused. The branch continues
    from the body sent before it.
    """

    why: str

    @property
    def round(self) -> int:
        """Always 1: a fallback is the only round of its turn."""
        return 1


@attrs.frozen(kw_only=True)
class KnowledgeTold(TurnEvent):
    """Cross-session knowledge was inserted into a new branch, and stays in every request of it."""

    message: int
    text: str
    entries: tuple[str, ...]
    tokens: int


@attrs.frozen(kw_only=True)
class ManagingSwitched:
    """Managing was switched on or off: for this session, or for all if the stream is the operator's."""

    at: int
    on: bool
    why: str


@attrs.frozen(kw_only=True)
class SessionTrashed:
    """A person put the session into the trash, or took it out (``trashed`` is False). A later turn also does."""

    at: int
    trashed: bool


@attrs.frozen(kw_only=True)
class SessionEdited:
    """A person named the session, ``closed`` it until its next turn or opened it again, or chose its ``grounding``
    (empty for the server's). None: no change.
    """

    at: int
    title: str | None = None
    closed: bool | None = None
    grounding: str | None = None


RoundEvent = (
    BranchModeSet
    | EpochBegan
    | WindowFilled
    | WindowStated
    | RoundBegan
    | RoundFinished
    | FallbackSent
    | KnowledgeTold
    | ManagingSwitched
    | SessionTrashed
    | SessionEdited
)

ROUND_EVENT_NAMES: Mapping[str, type[RoundEvent]] = {
    "session.branch_mode_set.v3": BranchModeSet,
    "session.epoch_began.v1": EpochBegan,
    "session.window_filled.v1": WindowFilled,
    "session.window_stated.v1": WindowStated,
    "session.round_began.v1": RoundBegan,
    "session.round_finished.v2": RoundFinished,
    "session.fallback_sent.v1": FallbackSent,
    "session.knowledge_told.v1": KnowledgeTold,
    "session.managing_switched.v1": ManagingSwitched,
    "session.trashed.v1": SessionTrashed,
    "session.edited.v2": SessionEdited,
}
