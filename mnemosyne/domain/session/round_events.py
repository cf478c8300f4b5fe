"""Events of a managed branch: its mode, its epochs, and each round with the provider.

The body that a managed branch sends upstream is not the client's. Each round's event records it as TurnBegan records
the client's: as a change on an earlier body, with the SHA-256 of the whole.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.session.address import AttemptEvent


class Mode(Enum):
    """The source of the requests that a branch sends upstream."""

    OBSERVE = "observe"
    """The client's own bytes."""
    MANAGE = "manage"
    """Its wire history, with the memory tools."""
    BYPASS = "bypass"
    """It is no longer managed: it sends the client's request, without thinking that was signed against the earlier wire
    history, and without the memory tools. If that no longer fits the model's window, it keeps the last rendering."""


@attrs.frozen(kw_only=True)
class BranchModeSet:
    """What a branch sends upstream from here on, and ``why``. ``tool_budget`` is the budget of ``tool_paging``, in
    tokens; None if no tool is paged.

    ``late`` is true if the memory tools are not added to the branch's first request: in observe mode, the branch is
    waiting for a request in which they cost next to nothing; in manage mode, it did wait.
    """

    at: int
    branch: str
    mode: Mode
    why: str
    tool_budget: int | None = None
    late: bool = False


@attrs.frozen(kw_only=True)
class RoundBegan(AttemptEvent):
    """The proxy sent a request of a managed branch to the provider.

    ``body`` is an encoded BodyChange on the body that the event of version ``base`` of this stream recorded. ``sha256``
    is the hash of the bytes that were sent; ``stored_sha256`` is the hash of the rebuilt bytes if a credential was
    withheld. ``ends`` maps each of the client's messages, from number ``kept`` on, to the number of wire messages that
    represent the history up to it; earlier entries are as in the branch's last round (for a fork's first: in its
    parent's). A new ``epoch`` means that the body does not begin with the body sent before.
    """

    round: int
    epoch: int
    base: int
    body: bytes
    size: int
    sha256: bytes
    stored_sha256: bytes | None
    kept: int
    ends: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Answered:
    """A hidden call and its result: the ``tool_result`` block as an encoded BodyChange on an empty body."""

    call: str
    result: bytes


@attrs.frozen(kw_only=True)
class RoundFinished(AttemptEvent):
    """A round's reply is complete. ``reply`` is an encoded BodyChange on an empty body: the message as the provider
    sent it.

    ``answers`` are the results of its hidden calls. ``faults`` and ``tokens`` count the page faults of this turn so
    far, in all rounds, and the tokens that they restored.
    """

    round: int
    reply: bytes
    model: str | None
    stop_reason: str | None
    usage: Mapping[str, Any]
    answers: tuple[Answered, ...]
    faults: int
    tokens: int


@attrs.frozen(kw_only=True)
class EpochBegan:
    """The wire history of a branch was rewritten before the request of ``turn``: the client's first ``messages``
    messages were rendered again, without thinking, each object at the fidelity that the branch shows from here on.
    Epochs count from 1.

    ``freed`` is the estimated reduction of the prompt in tokens. ``price`` is the cost of writing content to the
    provider's cache again that it still held, in tokens of plain input; ``payback`` is the number of requests after
    which the savings were expected to cover it (None if that was not the ``reason``). With ``hour``, system prompt and
    tools are cached for an hour from here on.
    """

    at: int
    branch: str
    turn: int
    epoch: int
    messages: int
    reason: str
    freed: int
    price: int
    payback: int | None
    hour: bool


@attrs.frozen(kw_only=True)
class WindowFilled:
    """The proxy sent the request of a ``turn`` although it fills the branch's ``window``; ``why`` is the reason why no
    more was evicted.

    ``tokens`` is its estimated size, ``fixed`` the size of system prompt and tools, ``new`` the size of the content
    that no earlier request contained. Such a request may turn out to be larger than the window.
    """

    at: int
    branch: str
    turn: int
    window: int
    tokens: int
    fixed: int
    new: int
    why: str


@attrs.frozen(kw_only=True)
class WindowStated(AttemptEvent):
    """The provider refused the first round of an attempt as longer than the ``window`` of the ``model`` that the client
    asked for. ``tokens`` is the size of that round as the provider counted it; None if it does not state that.
    """

    model: str | None
    window: int
    tokens: int | None


@attrs.frozen(kw_only=True)
class FallbackSent(AttemptEvent):
    """For a turn, the proxy sent neither the client's own bytes nor a body that continues the wire history, but the
    client's request without thinking that the provider would have refused. ``why`` is the reason. The branch continues
    from the body sent before it.

    ``body``, ``base``, ``size`` and the hashes are as in RoundBegan.
    """

    base: int
    body: bytes
    size: int
    sha256: bytes
    stored_sha256: bytes | None
    why: str

    @property
    def round(self) -> int:
        """Always 1: a fallback is the only round of its turn."""
        return 1


@attrs.frozen(kw_only=True)
class KnowledgeTold:
    """Cross-session knowledge was inserted into a new branch: this ``text``, after the client's message number
    ``message``, in every request of the branch. ``entries`` are the ids of the entries in it, ``tokens`` is its
    estimated size.
    """

    at: int
    branch: str
    turn: int
    message: int
    text: str
    entries: tuple[str, ...]
    tokens: int


@attrs.frozen(kw_only=True)
class ManagingSwitched:
    """Managing was switched ``on`` or off, and ``why``: for the session of this stream, or for all sessions if the
    stream is the operator's.
    """

    at: int
    on: bool
    why: str


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
)

ROUND_EVENT_NAMES: Mapping[str, type[RoundEvent]] = {
    "session.branch_mode_set.v2": BranchModeSet,
    "session.epoch_began.v1": EpochBegan,
    "session.window_filled.v1": WindowFilled,
    "session.window_stated.v1": WindowStated,
    "session.round_began.v1": RoundBegan,
    "session.round_finished.v2": RoundFinished,
    "session.fallback_sent.v1": FallbackSent,
    "session.knowledge_told.v1": KnowledgeTold,
    "session.managing_switched.v1": ManagingSwitched,
}
