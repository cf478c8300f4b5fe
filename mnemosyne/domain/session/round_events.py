"""What is recorded of a managed branch: its mode, its epochs, and each round with the provider.

In a managed branch the body that goes upstream is not the client's. Each round's event records it as TurnBegan records
the client's: as the change on an earlier body, with the SHA-256 of the whole.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs


class Mode(Enum):
    """What a branch sends upstream."""

    OBSERVE = "observe"
    """The client's own bytes."""
    MANAGE = "manage"
    """Its wire history, with the memory tools."""
    BYPASS = "bypass"
    """It was managed and is no longer: what the client says, without thinking that was signed against the wire history
    of before, and without the memory tools. Where that no longer fits the model's window: what was shown last."""


@attrs.frozen(kw_only=True)
class BranchModeSet:
    """What a branch sends upstream from here on, and ``why``. ``tool_budget`` is that of ``tool_paging``, in tokens;
    None where no tool is paged.

    ``late`` says that its memory tools do not come with its first request: while it observes, that it waits for one
    with which they cost next to nothing; once it is managed, that it waited.
    """

    at: int
    branch: str
    mode: Mode
    why: str
    tool_budget: int | None = None
    late: bool = False


@attrs.frozen(kw_only=True)
class RoundBegan:
    """A request of a managed branch left for the provider.

    ``body`` is an encoded BodyChange on the body that the event of version ``base`` of this stream recorded. ``sha256``
    is that of the bytes that were sent, ``stored_sha256`` that of what can be rebuilt, where a credential was withheld.
    ``ends`` are how many of its messages stand for the client's first messages, from number ``kept`` on; those before
    are as in the branch's last round (of a fork's first: its parent's). In a new ``epoch`` the body does not begin with
    what was sent before.
    """

    at: int
    branch: str
    turn: int
    attempt: int
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
    """A hidden call and its result: an encoded BodyChange on nothing that makes the ``tool_result`` block."""

    call: str
    result: bytes


@attrs.frozen(kw_only=True)
class RoundFinished:
    """A round's reply came whole. ``reply`` is an encoded BodyChange on nothing: the message as the provider sent it.

    ``answers`` are the results of its hidden calls. ``faults`` and ``tokens`` are what the model has had back in this
    turn by then, in all rounds: how often, and how many tokens together.
    """

    at: int
    branch: str
    turn: int
    attempt: int
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
    """What a branch sends was rewritten before the request of ``turn``: the client's first ``messages`` messages were
    rendered again, without thinking, each object at the fidelity that the branch shows it at from here on. Epochs count
    from 1.

    ``reason`` is why; ``freed`` the estimated tokens by which the prompt became smaller. ``price`` is what is written
    to the provider's cache again that it still held, in tokens of plain input, and ``payback`` in how many requests
    that was expected to have been saved (None where that was not the reason). ``hour`` says that system prompt and
    tools are held for an hour from here on.
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
    """The request of a ``turn`` left although it fills the branch's ``window``, and ``why`` no more was taken out.

    ``tokens`` is its size as it was estimated, ``fixed`` the part that is system prompt and tools, ``new`` the part
    that no earlier request held. Such a request may turn out to be larger than the window.
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
class WindowStated:
    """The provider refused the first round of an attempt as longer than the ``window`` of the ``model`` that the client
    asked for. ``tokens`` is the size of that round as the provider counted it; None where it does not state that.
    """

    at: int
    branch: str
    turn: int
    attempt: int
    model: str | None
    window: int
    tokens: int | None


@attrs.frozen(kw_only=True)
class FallbackSent:
    """What left for a turn was neither the client's own bytes nor what its branch goes on from, and ``why``: the
    client's request without thinking that the provider would have refused. The branch goes on from what was sent
    before it.

    ``body``, ``base``, ``size`` and the hashes are as in RoundBegan.
    """

    at: int
    branch: str
    turn: int
    attempt: int
    base: int
    body: bytes
    size: int
    sha256: bytes
    stored_sha256: bytes | None
    why: str

    @property
    def round(self) -> int:
        """It stands for the turn's first and only round."""
        return 1


@attrs.frozen(kw_only=True)
class KnowledgeTold:
    """As a branch began, what is known beyond sessions was told behind message number ``message`` of its client's: this
    ``text``, which stands there in every request of the branch. ``entries`` are the ids of what it tells, ``tokens`` is
    its estimated size.
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
    """Somebody decided whether anything may be managed from here on (``on``), and ``why``: in the session of this
    stream, or in all of them, where the stream is the operator's.
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
