"""The messages to a session's actor, and its answers.

A question (``Prepare``, ``Recognize``, ``FindPassages``) changes nothing. Every other message is a command: it reports
an event or a request that is being sent, and the actor records it unchanged. So the log holds the sent request, even if
the answer is late or the caller has stopped waiting.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

import attrs
import trio

from mnemosyne import credentials
from mnemosyne.actors.managed_turn import ManagedTurn
from mnemosyne.actors.owners import OWNER, MemoryClient
from mnemosyne.actors.threads import ReadAlone
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.helper.background import Effect
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.decision_inputs import RecordWork
from mnemosyne.domain.session.events import SubmittedBlock
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window.refusals import Refusal
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.dialects import conversation_of
from mnemosyne.domain.wire.identity import ClientHeaders, RequestOrigin, identify, read_client_headers
from mnemosyne.domain.wire.reply import HiddenCall, Reply
from mnemosyne.domain.wire.transcript import Transcript, TranscriptReading


@attrs.frozen(kw_only=True)
class Identity:
    """The session of an actor. If not ``is_known``, the request may continue the history of another session that could
    not be asked.
    """

    stream: UUID
    tenant: str
    external_id: str
    is_known: bool = attrs.field(default=True, eq=False)


def find_none(read: Transcript) -> SubmittedBlock | None:
    """No hook vouched for anything."""
    return None


def deny(read: Transcript) -> bool:
    """Nothing is known of the request's provider."""
    return False


@attrs.frozen(kw_only=True)
class ArrivedRequest:
    """A client's request as received. ``wanted`` is the mode that it asks for, None if it does not; ``default`` is the
    mode of a branch that begins with it. ``credential`` is a digest, valid in this process, of the credentials for its
    provider; None if all clients count as one. ``client`` is the sender as the memory beyond sessions knows it.
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
    find_submitted: Callable[[Transcript], SubmittedBlock | None] = attrs.field(default=find_none, repr=False, eq=False)
    """Finds the block that the client's hook vouched for; the same on every call."""
    asks_verdict: Callable[[Transcript], bool] = attrs.field(default=deny, repr=False, eq=False)
    """Whether its provider is to be asked why its cache missed, if the proxy composes the request."""
    takes_behind: Callable[[Transcript], bool] = attrs.field(default=deny, repr=False, eq=False)
    """Whether its provider takes tools behind the cached head."""
    client_headers: ClientHeaders = attrs.field(repr=False, eq=False)
    _alone: ReadAlone = attrs.field(factory=ReadAlone, init=False, repr=False, eq=False)

    @client_headers.default
    def _read_client_headers(self) -> ClientHeaders:
        return read_client_headers(self.headers)

    async def read(self) -> TranscriptReading:
        """The reading of its body, without a previous body."""
        return await self._alone.read(self.raw, self.conversation)

    def identify(self, read: Transcript) -> RequestOrigin:
        """The client and the purpose of the request, from its headers and its parsed body."""
        return identify(self.client_headers, read, credentials.in_headers(self.headers))

    @property
    def conversation(self) -> str:
        """The conversation of an ordinary turn of this client, judging by the headers; a fork's is its parent's."""
        return conversation_of(self.dialect, self.client_headers.agent_id)


Contents = tuple[tuple[bytes, bytes], ...]
"""Contents to be stored: (digest, data)."""

# Requests that are sent to the provider


@attrs.frozen
class Passthrough:
    """The client's own bytes. ``late``: the session's actor did not answer in time."""

    late: bool = False


@attrs.frozen
class NothingSent:
    """Nothing: the client disconnected before. So the mode of its conversation is not decided."""


@attrs.frozen
class Fallback:
    """A ``body`` that the actor did not make, and the reason."""

    body: bytes = attrs.field(repr=False)
    why: str


@attrs.frozen(kw_only=True)
class Proposal:
    """The ``body`` that the actor proposed at this ``version`` of its session. With ``turn`` and ``attempt`` the caller
    can continue without the actor.
    """

    version: int
    body: bytes = attrs.field(repr=False)
    turn: ManagedTurn = attrs.field(repr=False)
    attempt: int


@attrs.frozen(kw_only=True)
class Continuation:
    """A ``body`` that the actor did not make: the last request of its branch plus the new messages. It is unplanned,
    because the actor did not answer in time.
    """

    body: bytes = attrs.field(repr=False)


Outgoing = Passthrough | NothingSent | Fallback | Proposal | Continuation


# Questions and commands


@attrs.frozen(kw_only=True)
class Prepare:
    """Plan the upstream request for a client's request. Changes nothing. Answered by UpstreamPlan."""

    request: ArrivedRequest


@attrs.frozen(kw_only=True)
class Recognize:
    """Check whether a request belongs to a history of the session, under any session name. Answered by Recognized."""

    request: ArrivedRequest


@attrs.frozen(kw_only=True)
class Begin:
    """Begin a turn: ``outgoing`` is being sent for it, was sent, or would have been. ``gap`` describes unrecorded turns
    before it. Answered by Begun; refused as Outdated if a proposal is no longer valid.
    """

    request: ArrivedRequest
    outgoing: Outgoing = attrs.field(factory=Passthrough)
    gap: Gap | None = None


@attrs.frozen(kw_only=True)
class RoundEnd:
    """A round's complete reply; ``calls`` are to be answered. ``request`` is the client's body, for an actor that did
    not begin the turn.
    """

    reply: Reply = attrs.field(repr=False)
    calls: tuple[HiddenCall, ...] = ()
    request: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen(kw_only=True)
class TurnMessage:
    """A message about the turn with this address, sent at the time ``at``."""

    at: int
    address: Address
    correlation_id: str


@attrs.frozen(kw_only=True)
class FindPassages(TurnMessage):
    """Find the passages for a helper model's answers to a round's questions. Changes nothing. Answered by the
    questions, by call; none for calls without passages. ``again`` as in ``answering.question_for``, for a single call.
    """

    round: RoundEnd
    again: HelperQuestion | None = None


@attrs.frozen(kw_only=True)
class AnswerCalls(TurnMessage):
    """Answer the calls of a finished round in which the model called only memory tools. Answered by UpstreamPlan, with
    the next round. A caller that stops waiting sets ``left`` and reports the substitutes that were ``sent`` later: the
    ``tool_result`` block of each call by its id. ``helped`` are the helper model's answers by call.
    """

    round: RoundEnd
    sent: Mapping[str, bytes] | None = attrs.field(default=None, repr=False)
    left: trio.Event = attrs.field(factory=trio.Event, repr=False, eq=False)
    helped: Mapping[str, HelperAnswer] = attrs.field(factory=dict, repr=False)


@attrs.frozen(kw_only=True)
class Refused(TurnMessage):
    """The provider refused a round for something that the proxy added; ``reply`` is the refusal. Answered by
    UpstreamPlan, with a replacement.
    """

    refusal: Refusal
    reply: Reply = attrs.field(repr=False)
    request: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class NextRound(TurnMessage):
    """The next round, as the last answer proposed it, is being sent."""

    body: bytes = attrs.field(repr=False)
    request: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class _TurnEnd(TurnMessage):
    """The end of a turn. ``limits`` are the subscription windows in the headers of its reply, ``first_byte`` the time
    in µs to the reply's first byte.
    """

    limits: Mapping[str, str] = attrs.field(factory=dict)
    first_byte: int | None = None


@attrs.frozen(kw_only=True)
class Finish(_TurnEnd):
    """The reply to a turn is complete. ``last`` is its last round, whose reply may differ from the client's."""

    status: int
    reply: Reply = attrs.field(repr=False)
    last: RoundEnd | None = None


@attrs.frozen(kw_only=True)
class Interrupt(_TurnEnd):
    """The reply to a turn is incomplete or missing."""

    status: int | None
    reply: Reply | None = attrs.field(repr=False)
    reason: str


@attrs.frozen
class CompleteDeferred:
    """Complete the session's deferred work; if it ``closes``, also that of a pause. Answered by the ticket of the last
    append, None if there was none.
    """

    closes: bool = False


@attrs.frozen(kw_only=True)
class HelperDone:
    """A helper model worked on an order: the record of it, and the ``effect`` on the session's objects. ``generation``
    is that of the session's memory at the order.
    """

    work: RecordWork
    effect: Effect
    correlation_id: str
    generation: int = 0


@attrs.frozen(kw_only=True)
class End:
    """The client has ended the session, which is closed until its next turn."""

    at: int
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
    | HelperDone
    | End
)


# Answers


@attrs.frozen
class UpstreamPlan:
    """What may be sent upstream. Without a ``proposal``, the client's own bytes are sent, or no other round follows.
    ``ticket`` is the promise that the events behind it become durable.
    """

    proposal: Proposal | None = None
    ticket: Ticket | None = None


@attrs.frozen(order=True)
class Recognized:
    """How closely a request matches a session; the greatest of several wins. ``is_ours``: both contain the same reply
    of the model. ``goes_on``: the request continues the end of a branch, or retries its unanswered request, and no
    recorded event contradicts that. ``shared`` is the number of messages in the common beginning. ``is_exact``: the
    last reply is shown unchanged, with its unique ids. ``awaits_reply``: the reply that the request may show is not
    recorded yet.
    """

    is_ours: bool = False
    goes_on: bool = False
    is_same_caller: bool = False
    shared: int = 0
    is_exact: bool = False
    awaits_reply: bool = attrs.field(default=False, order=False)

    @property
    def is_whole(self) -> bool:
        """Whether only a session that shares more messages, or whose reply is shown exactly, can match better."""
        return self.is_ours and self.goes_on and self.is_same_caller


@attrs.frozen
class Begun:
    """The address of a turn, the promise that its beginning becomes durable, and a digest of its account."""

    address: Address
    ticket: Ticket
    account: str | None = None


Answer = UpstreamPlan | Recognized | Begun | Mapping[str, HelperQuestion] | Ticket | None
"""The requested result of a question; the promise of durability for a command, None if there was nothing to record."""
