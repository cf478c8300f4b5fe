"""What is said to a session's actor, and what it answers.

A question (``Prepare``, ``Recognize``, ``FindPassages``) changes nothing. Everything else is a command: it
says what happened, or what leaves now, and is recorded as said. So what is on record is what left, however long the
answer took and whoever stopped waiting for it.
"""

from collections.abc import Mapping
from functools import cached_property
from uuid import UUID

import attrs
import trio

from mnemosyne import credentials
from mnemosyne.actors.managed_turn import ManagedTurn
from mnemosyne.actors.owners import OWNER, MemoryClient
from mnemosyne.actors.threads import ReadAlone
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.recall.composing import HelperQuestion
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.decision_inputs import HelperAnswer
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window.refusals import Refusal
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.dialects import lane_of
from mnemosyne.domain.wire.identity import Caller, ClientHeaders, identify, speaker
from mnemosyne.domain.wire.reply import HiddenCall, Reply
from mnemosyne.domain.wire.transcript import Transcript, TranscriptReading


@attrs.frozen(kw_only=True)
class Identity:
    """Which session an actor is for. Where it is not ``is_known``, the request may go on from another one's history,
    which could not be asked.
    """

    stream: UUID
    tenant: str
    external_id: str
    is_known: bool = attrs.field(default=True, eq=False)


@attrs.frozen(kw_only=True)
class ArrivedRequest:
    """A client's request as it arrived. ``wanted`` is what it asks to be sent upstream, None if it does not say;
    ``default`` is what a branch sends that begins with it. ``credential`` stands for what it shows to its provider, in
    this process alone; None where all callers are taken for one. ``client`` is who it comes from, as far as
    memory beyond sessions is concerned.
    """

    at: int
    headers: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    raw: bytes = attrs.field(repr=False)
    correlation_id: str
    dialect: Dialect
    wanted: Mode | None = None
    default: Mode = Mode.OBSERVE
    credential: bytes | None = attrs.field(default=None, repr=False)
    client: MemoryClient = OWNER
    _alone: ReadAlone = attrs.field(factory=ReadAlone, init=False, repr=False, eq=False)

    async def read(self) -> TranscriptReading:
        """Its body, read against nothing."""
        return await self._alone.read(self.raw, self.lane)

    @cached_property
    def heard(self) -> ClientHeaders:
        """What the headers say, which several ask for."""
        return speaker(self.headers)

    def caller(self, read: Transcript) -> Caller:
        """Who asks, and what for, by the headers and by the body, as it was read."""
        return identify(self.heard, read, credentials.in_headers(self.headers))

    @property
    def lane(self) -> str:
        """The lane of an ordinary turn of whoever speaks, as far as the headers tell: a fork's is its parent's."""
        return lane_of(self.dialect, self.heard.agent_id)


Contents = tuple[tuple[bytes, bytes], ...]
"""Contents to be stored: (digest, data)."""

# What leaves for the provider


@attrs.frozen
class Passthrough:
    """The client's own bytes; ``late`` says that its session did not answer in time what else might go."""

    late: bool = False


@attrs.frozen
class NothingSent:
    """Nothing: whoever asked went away before. So nothing is decided about what its conversation sends."""


@attrs.frozen
class Fallback:
    """Another ``body``, which the actor did not make, and ``why``."""

    body: bytes = attrs.field(repr=False)
    why: str


@attrs.frozen(kw_only=True)
class Proposal:
    """The ``body`` that the actor proposed when its session had so many events (``version``). Its branch sends in
    ``mode``. From the ``turn`` and its ``attempt`` whoever hears no more of the actor can go on.
    """

    version: int
    mode: Mode
    body: bytes = attrs.field(repr=False)
    turn: ManagedTurn = attrs.field(repr=False)
    attempt: int


@attrs.frozen(kw_only=True)
class Continuation:
    """A ``body`` that the actor did not make: what its branch was sent last, with what is new. No plan was made for it,
    because the actor did not say anything in time.
    """

    body: bytes = attrs.field(repr=False)


Leaving = Passthrough | NothingSent | Fallback | Proposal | Continuation


# Questions and commands


@attrs.frozen(kw_only=True)
class Prepare:
    """What would go upstream for this request? Nothing changes by the question. Answered by Upstream."""

    request: ArrivedRequest


@attrs.frozen(kw_only=True)
class Recognize:
    """Does this request belong to a history of the session, whatever its client calls it? Answered by Recognized."""

    request: ArrivedRequest


@attrs.frozen(kw_only=True)
class Begin:
    """A turn begins: this leaves for it, or has left, or would have. ``gap`` tells of turns before it that were not
    recorded. Answered by Begun; refused as Outdated where a proposal does not hold any more.
    """

    request: ArrivedRequest
    outgoing: Leaving = attrs.field(factory=Passthrough)
    gap: Gap | None = None


@attrs.frozen(kw_only=True)
class RoundEnd:
    """A round's reply came whole; ``calls`` are to be answered. ``request`` is the client's body, for an actor that did
    not begin the turn.
    """

    reply: Reply = attrs.field(repr=False)
    calls: tuple[HiddenCall, ...] = ()
    request: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class FindPassages:
    """What may a helper model answer the questions of a round from? Nothing changes by it. Answered by Passages."""

    at: int
    address: Address
    round: RoundEnd


@attrs.frozen(kw_only=True)
class AnswerCalls:
    """A round is over in which the model called memory tools alone: answer them. Answered by Upstream, with what may go
    next. Whoever waits no longer has ``left`` and says afterwards what was ``sent`` instead: the ``tool_result`` block
    of each call by its id. ``helped`` is what a helper model was asked for a call before, and made of it.
    """

    at: int
    address: Address
    round: RoundEnd
    correlation_id: str
    sent: Mapping[str, bytes] | None = attrs.field(default=None, repr=False)
    left: trio.Event = attrs.field(factory=trio.Event, repr=False, eq=False)
    helped: Mapping[str, HelperAnswer] = attrs.field(factory=dict, repr=False)


@attrs.frozen(kw_only=True)
class Refused:
    """The provider refused a first round for something of ours, and said so in ``reply``. Answered by Upstream, with
    what may go instead.
    """

    at: int
    address: Address
    refusal: Refusal
    reply: Reply = attrs.field(repr=False)
    request: bytes = attrs.field(repr=False)
    correlation_id: str


@attrs.frozen(kw_only=True)
class NextRound:
    """What the last answer said may go next leaves now."""

    at: int
    address: Address
    body: bytes = attrs.field(repr=False)
    request: bytes = attrs.field(repr=False)
    correlation_id: str


@attrs.frozen(kw_only=True)
class Finish:
    """The reply to a turn came whole. ``last`` is its last round, whose reply may be another than the client saw;
    ``limits`` are what its head says of a subscription's windows.
    """

    at: int
    address: Address
    status: int
    reply: Reply = attrs.field(repr=False)
    correlation_id: str
    last: RoundEnd | None = None
    limits: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Interrupt:
    """The reply to a turn did not come whole, or not at all."""

    at: int
    address: Address
    status: int | None
    reply: Reply | None = attrs.field(repr=False)
    reason: str
    correlation_id: str
    limits: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class CompleteDeferred:
    """Complete the session's deferred work. Answered by the ticket of the last append, None where there was none."""


@attrs.frozen(kw_only=True)
class SummaryMade:
    """A helper model wrote a rendition; ``data`` are its bytes."""

    command: Summarize
    data: bytes = attrs.field(repr=False)
    correlation_id: str


Message = (
    Prepare
    | Recognize
    | Begin
    | FindPassages
    | AnswerCalls
    | Refused
    | NextRound
    | Finish
    | Interrupt
    | CompleteDeferred
    | SummaryMade
)


# Answers


@attrs.frozen
class UpstreamPlan:
    """What may go upstream in a branch of this mode. Without a ``proposal`` the client's own bytes go, or there is to
    be no other round. ``ticket`` is the promise that what led to it becomes durable.
    """

    mode: Mode
    proposal: Proposal | None = None
    ticket: Ticket | None = None


@attrs.frozen(order=True)
class Recognized:
    """How near a request is to a session; of several it belongs to the greatest. ``is_ours`` says that both hold the
    same reply of the model; ``goes_on``, that the request goes on from the end of a branch, or tries again what nobody
    answered there, and that nothing on record speaks against it. How many messages both begin with is ``shared``.
    ``is_exact`` says that the last reply is shown as it was given, with the ids that no other has; ``awaits_reply``,
    that the reply which the request may show is not on record yet.
    """

    is_ours: bool = False
    goes_on: bool = False
    is_same_caller: bool = False
    shared: int = 0
    is_exact: bool = False
    awaits_reply: bool = attrs.field(default=False, order=False)

    @property
    def is_whole(self) -> bool:
        """Whether only a session that shares more, or shows its reply exactly, can be nearer."""
        return self.is_ours and self.goes_on and self.is_same_caller


@attrs.frozen
class Begun:
    """Where a turn was put, and the promise that it becomes durable."""

    address: Address
    ticket: Ticket


@attrs.frozen
class Passages:
    """What a helper model may be asked, by the call; nothing where there is nothing to answer from."""

    questions: Mapping[str, HelperQuestion]


Answer = UpstreamPlan | Recognized | Begun | Passages | Ticket | None
"""To a question what it asks for; to a command the promise of durability, None if there was nothing to record."""
