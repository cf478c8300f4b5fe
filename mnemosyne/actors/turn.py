"""One turn, as the relay tells of it: what may leave for it, what left, what came back.

A turn of a conversation that is only observed waits for nobody: its request leaves as it came, and is recorded behind
it. Of any other the session's actor says what goes upstream, and that is recorded before it leaves. Whatever fails, the
client gets its reply; then what left is told afterwards.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from itertools import chain, islice
from uuid import UUID

import attrs
import trio

from mnemosyne import credentials
from mnemosyne.actors.managed_turn import MOST_ROUNDS
from mnemosyne.actors.messages import (
    Answer,
    AnswerCalls,
    ArrivedRequest,
    Begin,
    Begun,
    Continuation,
    Fallback,
    FindPassages,
    Finish,
    Identity,
    Interrupt,
    Leaving,
    Message,
    NextRound,
    NothingSent,
    Passages,
    Passthrough,
    Prepare,
    Proposal,
    Recognized,
    Refused,
    RoundEnd,
    UpstreamPlan,
)
from mnemosyne.actors.owners import OWNER, MemoryClient, MemoryOwners
from mnemosyne.actors.pending_reports import TurnReport
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session_finder import SessionFinder
from mnemosyne.actors.threads import is_much, read_in_thread, run_in_thread
from mnemosyne.actors.tools import NOT_HELPED
from mnemosyne.backoff import backoff
from mnemosyne.domain.cost.catalogue import family_of
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.recall.composing import HelperQuestion
from mnemosyne.domain.recall.memory_results import NOT_NOW
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.decision_inputs import HelperAnswer
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import rounds
from mnemosyne.domain.window.refusals import Refusal, refusal_of
from mnemosyne.domain.window.window_size import choose_window
from mnemosyne.domain.wire import echoed_keys
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.identity import TENANT_HEADER, speaker
from mnemosyne.domain.wire.json_spans import has_too_many_values
from mnemosyne.domain.wire.limits import limits_of
from mnemosyne.domain.wire.reply import HiddenCall, Reply
from mnemosyne.domain.wire.transcript import ANY_NUMBER, TOO_MANY_VALUES
from mnemosyne.errors import ActorStopped, LogFailed, MnemosyneError, Outdated, VersionConflict

log = logging.getLogger(__name__)

ATTEMPTS = 10
"""How often a command is told, when each time another process has just written to the session."""

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.64
"""Seconds before the third attempt, and at most before a further one: whoever has to read the log again before each
attempt would else always come too late.
"""

Headers = tuple[tuple[str, str], ...]


@attrs.frozen
class Prepared:
    """What goes upstream: ``body``, None for the client's own bytes. ``hidden`` are the tools in it that are ours."""

    body: bytes | None = attrs.field(default=None, repr=False)
    hidden: frozenset[str] = frozenset()


AS_IT_CAME = Prepared()


@attrs.frozen
class TurnOpener:
    """Opens turns. ``now`` gives µs of UTC, ``new_id`` a name for what one request sets off.

    ``of_tenant`` brings the finder of a tenant that a request may name, ``of_keys`` has those of tenants by the SHA-256
    of a credential of theirs; ``finder`` is that of all others. ``owners`` tells the owner of memory from strangers;
    without it all requests are the owner's.
    """

    registry: SessionRegistry
    finder: SessionFinder
    nursery: trio.Nursery
    now: Callable[[], int]
    new_id: Callable[[], str]
    of_keys: Mapping[str, SessionFinder] = attrs.field(factory=dict)
    of_tenant: Callable[[str], SessionFinder] | None = None
    owners: MemoryOwners | None = None
    _told: set[str] = attrs.field(factory=set, init=False)
    """The default tenant, once it was said that requests fall to it."""

    def open_turn(
        self,
        headers: Headers,
        body: bytes,
        dialect: Dialect,
        wanted: Mode | None = None,
        default: Mode = Mode.OBSERVE,
        *,
        lease: object = None,
        lacks_room: bool = False,
    ) -> "Turn":
        """The turn that this request begins. Nothing of it is recorded before it is told that the request left.

        ``wanted`` is the mode that the request asks for, None if it does not; ``default`` is that of a conversation
        that begins. ``lease`` and ``lacks_room`` are as in http.messages_route.TurnLogs.
        """
        named = self._finder_of_tenant(headers)
        client = self._find_client(headers) if named is None else OWNER
        request = self._make_request(headers, body, dialect, wanted, default, client)
        return Turn(self, request, named or self.finder, lease, lacks_room=lacks_room)

    async def may_be_managed(self, headers: Headers, dialect: Dialect, wanted: Mode | None, default: Mode) -> bool:
        """Whether a request may belong to a conversation that is managed, as far as its headers say."""
        request = self._make_request(headers, b"", dialect, wanted, default)
        heard = request.heard
        if (wanted or default) is Mode.MANAGE or heard.external_id is None or heard.agent_id is not None:
            return True  # an agent may be a fork of a managed conversation
        finder = self._finder_of_tenant(headers) or self.finder
        return await finder.mode_of(await finder.identity_of(request), request) is not Mode.OBSERVE

    def _make_request(
        self,
        headers: Headers,
        body: bytes,
        dialect: Dialect,
        wanted: Mode | None,
        default: Mode,
        client: MemoryClient = OWNER,
    ) -> ArrivedRequest:
        return ArrivedRequest(
            at=self.now(),
            headers=headers,
            raw=body,
            correlation_id=self.new_id(),
            dialect=dialect,
            wanted=wanted,
            default=default,
            credential=self.registry.callers.credential_of(headers),
            client=client,
        )

    def _find_client(self, headers: Headers) -> MemoryClient:
        if self.owners is None:
            return OWNER
        return self.owners.find_client(headers, speaker(headers).external_id)

    def _finder_of_tenant(self, headers: Headers) -> SessionFinder | None:
        """That of the tenant whom a request names, or whose credential it shows; None where the default's is meant:
        no session breaks for a row that is missing.
        """
        named = next((value for name, value in headers if name.lower() == TENANT_HEADER), None)
        if named is not None and self.of_tenant is not None:
            return self.of_tenant(named.strip())
        if not self.of_keys:
            return None
        digests = map(credentials.digest, credentials.keys_in(headers))
        found = next((self.of_keys[each] for each in digests if each in self.of_keys), None)
        if found is None and self.finder.tenant not in self._told:
            self._told.add(self.finder.tenant)
            log.warning(
                "a request shows no credential of tenant_keys, and is tenant %s's, as all like it are; "
                "`mnemosyne config tenant-key TENANT` prints the row for a credential (this is said once)",
                self.finder.tenant,
            )
        return found


class Turn:
    """One turn (http.turn_log.TurnLog). Its waiting is bounded; its recording goes on in the nursery of ``opener``."""

    def __init__(
        self,
        opener: TurnOpener,
        request: ArrivedRequest,
        finder: SessionFinder,
        lease: object = None,
        *,
        lacks_room: bool = False,
    ) -> None:
        self._lease = lease  # ends with the turn
        self._lacks_room = lacks_room
        self._opener = opener
        self._finder = finder
        self._registry = opener.registry
        self._patience = opener.registry.patience
        self._request = request
        self._identified: Identity | None = None
        self._outgoing: Leaving = Passthrough()
        self._prepared: Prepared | None = None
        """What leaves, once that is settled: it has left, or nothing can hold it back."""
        self._started = False
        self._begun = trio.Event()
        self._outdated = False
        self._address: Address | None = None
        self._last: Proposal | None = None
        """What left last, of the actor's or made from that."""
        self._told_rounds = trio.Event()
        """Set while the actor has been told of all rounds that left."""
        self._told_rounds.set()
        self._report = TurnReport()
        self._is_gap = False
        """Whether something of it could not be recorded."""

    # What leaves

    async def prepare(self) -> Prepared:
        """What goes upstream first; the same whoever asks again."""
        return self._prepared or await self._prepare()

    async def _prepare(self) -> Prepared:
        mode = await self._find_mode()
        if mode is Mode.OBSERVE and not self._may_become_managed:
            return self._settle(AS_IT_CAME)
        if self._lacks_room:
            return self._settle(await self._without_us(mode, rounds.NO_ROOM))
        await self._apply_operator_override()
        for _ in range(ATTEMPTS):
            answer = await self._ask()
            if answer is None:
                break
            if answer.proposal is None:
                return self._settle(await self._prepare_passthrough(mode))
            if await self._begins_with(answer.proposal):
                return self._settle(self._with(answer.proposal))
        return self._settle(await self._prepare_unplanned(mode))

    async def preview(self) -> bytes | None:
        """What would go upstream first, if this were to leave; None for the client's own bytes. Nothing is recorded."""
        is_observed = await self._find_mode() is Mode.OBSERVE and not self._may_become_managed
        if is_observed or self._lacks_room:
            return None
        await self._apply_operator_override()
        answer = await self._ask()
        proposal = await self._going_on() if answer is None else answer.proposal
        return None if proposal is None else proposal.body

    async def replace_refused(self, refusal: Reply) -> bytes | None:
        """What goes instead of a first request that was refused for something of ours; None if it was not."""
        last = self._last
        kind = None if last is None else refusal_of(refusal.body, last.turn.read.tools, last.turn.read.dialect)
        if last is None or kind is None:
            return None
        refusal = await self._without_keys(refusal, 400)
        if self._address is not None:
            asking = self._make_refused(kind, refusal, self._address)
            try:
                with trio.fail_after(self._patience.answers):
                    plan = await self._upstream(asking)
            except (MnemosyneError, trio.TooSlowError) as error:
                stream = (await self.identity()).stream
                log.warning("what is sent instead of a refused request of session %s is not planned: %s", stream, error)
            else:
                if plan.ticket is not None:
                    return await self._goes(plan, asking)
        return self._replace_alone(kind, refusal, last)

    def _replace_alone(self, kind: Refusal, refusal: Reply, last: Proposal) -> bytes | None:
        """The same where the session's actor does not know what left: another process had written to the session, and
        what it wrote is why the provider refused. The actor is told when it listens again.
        """
        if not last.turn.may_lack(kind):
            return None
        turn = last.turn.without(kind)
        body = turn.body(last.attempt)
        self._last = attrs.evolve(last, turn=turn, body=body)
        self._report_round(lambda address: self._make_refused(kind, refusal, address), body)
        return body

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        """What goes upstream once these calls are answered; None if there is to be no other round. Calls that nobody
        answers in time are told to go on.
        """
        end = RoundEnd(reply=reply, calls=calls, request=self._request.raw)
        asking: AnswerCalls | None = None
        helped = NOT_HELPED
        try:
            with trio.fail_after(self._patience.answers):
                await self._begun.wait()
                await self._told_rounds.wait()
                if self._address is None:
                    return self._without_memory(end)
                helped = await self._ask_helper(end, self._address)
                asking = attrs.evolve(self._answer_calls(end, self._address), helped=helped)
                plan = await self._upstream(asking)
        except (MnemosyneError, trio.TooSlowError) as error:
            stream = (await self.identity()).stream
            log.warning("calls of memory tools in session %s got no answer: %s", stream, error)
            if asking is not None:
                asking.left.set()
            return self._without_memory(end, helped)
        return await self._goes(plan, asking)

    async def _ask_helper(self, end: RoundEnd, address: Address) -> Mapping[str, HelperAnswer]:
        """What a helper model makes of a round's questions, by the call, where there is one and it answers in time. The
        session's actor does not wait for it.
        """
        questions = self._registry.questions
        if questions is None or not any(call.name == memory_tools.QUERY for call in end.calls):
            return {}
        helped: dict[str, HelperAnswer] = {}
        try:
            found = await self._tell(FindPassages(at=self._opener.now(), address=address, round=end), durable=False)
        except MnemosyneError as error:
            log.info("a helper is not asked: %s", error)
            return helped
        assert isinstance(found, Passages)

        async def ask(call: str, question: HelperQuestion) -> None:
            answer = await questions.ask(question, self._patience)
            if answer is not None:
                helped[call] = answer

        async with trio.open_nursery() as nursery:
            for call, question in found.questions.items():
                nursery.start_soon(ask, call, question)
        return helped

    async def _goes(self, plan: UpstreamPlan, asked: AnswerCalls | Refused) -> bytes | None:
        """The body of another round, None if there is to be none, once it is on record that it goes. From here on
        that is what goes, whatever becomes of the record: what was ``asked`` is told again if it was not accepted.
        """
        if plan.ticket is None:
            return None
        proposal = plan.proposal
        if proposal is not None:
            self._last = proposal
            if isinstance(asked, AnswerCalls):
                asked = attrs.evolve(asked, sent=proposal.turn.results(proposal.attempt))
        body = None if proposal is None else proposal.body
        await self._patiently(
            self._report_round(lambda address: attrs.evolve(asked, address=address), body, plan.ticket)
        )
        return body

    def _without_memory(self, end: RoundEnd, helped: Mapping[str, HelperAnswer] = NOT_HELPED) -> bytes | None:
        """The body of another round whose calls nobody answered. The actor is told of it when it listens again, and of
        what a helper was asked and cost.
        """
        last = self._last
        if last is None:
            return None
        sent = {call.id: self._request.dialect.write_result(call.id, NOT_NOW, True) for call in end.calls}
        turn = last.turn.add_reply(last.attempt, end.reply.body, sent).next
        body = turn.body(last.attempt) if turn.round <= MOST_ROUNDS else None
        if body is not None:
            self._last = attrs.evolve(last, turn=turn, body=body)
        self._report_round(lambda address: attrs.evolve(self._answer_calls(end, address, sent), helped=helped), body)
        return body

    def _report_round(
        self, ended: Callable[[Address], AnswerCalls | Refused], body: bytes | None, ticket: Ticket | None = None
    ) -> Callable[[], Awaitable[None]]:
        """Tell that a round ended, unless that has its ticket, and that another leaves, behind all that is told by now.
        What is returned waits until it is on record.
        """
        earlier, done = self._told_rounds, trio.Event()
        self._told_rounds = done
        self._opener.nursery.start_soon(self._record_round, ended, body, ticket, earlier, done)
        return done.wait

    async def _record_round(
        self,
        ended: Callable[[Address], AnswerCalls | Refused],
        body: bytes | None,
        ticket: Ticket | None,
        earlier: trio.Event,
        done: trio.Event,
    ) -> None:
        with self._registry.reports.report((await self.identity()).stream, self._report):
            await self._report_rounds(ended, body, ticket, earlier)
        done.set()

    async def _report_rounds(
        self,
        ended: Callable[[Address], AnswerCalls | Refused],
        body: bytes | None,
        ticket: Ticket | None,
        earlier: trio.Event,
    ) -> None:
        with self._report.withholding():
            await self._begun.wait()
            await earlier.wait()
            told = ticket is not None and self._address is not None and await _is_durable(ticket)
        if self._address is not None:
            told = told or await self._report_safely(ended(self._address), "the end of a round")
            if told and body is not None:
                told = await self._report_safely(self._next_round(self._address, body), "a round")
            if not told:
                self._note_gap((await self.identity()).stream, "a round that the client does not see")

    def _with(self, proposal: Proposal) -> Prepared:
        self._last = proposal
        return Prepared(proposal.body, memory_tools.NAMES if proposal.mode is Mode.MANAGE else frozenset())

    async def _prepare_passthrough(self, mode: Mode | None) -> Prepared:
        """The client's own body, which its branch sends; of a conversation that is managed elsewhere, what is too much
        to be read goes without the thinking that was signed there.
        """
        if mode in (Mode.MANAGE, Mode.BYPASS) and await self._is_too_much():
            return await self._without_us(mode, TOO_MANY_VALUES)
        return AS_IT_CAME

    async def _is_too_much(self) -> bool:
        """Whether the client's body has more values than are read."""
        raw = self._request.raw
        return await run_in_thread(lambda: has_too_many_values(raw), in_thread=is_much(raw))

    async def _prepare_unplanned(self, mode: Mode | None) -> Prepared:
        """What goes where the actor did not say anything: what was sent last, with what is new, which loses nothing and
        costs nothing; the next request is planned. Where that is not known, the client's own body.
        """
        going_on = await self._going_on()
        stream = (await self.identity()).stream
        if going_on is None:
            log.warning("a turn of session %s goes on without its upstream history", stream)
            return await self._without_us(mode)
        log.warning("a turn of session %s goes on as it was sent before, and nothing is planned for it", stream)
        self._outgoing = Continuation(body=going_on.body)
        return self._with(going_on)

    async def _going_on(self) -> Proposal | None:
        """What was sent last, with what is new, as far as that is known at once."""
        stream = (await self.identity()).stream
        try:
            return await self._registry.going_on(stream, self._request)
        except Exception:
            log.exception("what session %s was sent last cannot be gone on with", stream)
            return None

    def _settle(self, prepared: Prepared) -> Prepared:
        self._prepared = prepared
        return prepared

    @property
    def _may_become_managed(self) -> bool:
        return (self._request.wanted or self._request.default) is Mode.MANAGE

    async def identity(self) -> Identity:
        """The session that it belongs to."""
        if self._identified is None:
            self._identified = await self._finder.identity_of(self._request)
        return self._identified

    @property
    def address(self) -> Address | None:
        """Where it is recorded; None while that is not known, or it is not."""
        return self._address

    async def _find_mode(self) -> Mode | None:
        """What the conversation sends upstream, as far as that is known; one that begins is observed so far. It may
        begin with what a managed one began with, too, which is to be asked where its actor is not asked anyway.
        """
        begins = b'"assistant"' not in self._request.raw
        if begins and self._may_become_managed:
            return Mode.OBSERVE
        mode = await self._finder.mode_of(await self.identity(), self._request)
        return Mode.OBSERVE if mode is None and begins else mode

    async def _apply_operator_override(self) -> None:
        if await self._finder.off_since() is not None:
            self._request = attrs.evolve(self._request, wanted=Mode.BYPASS)

    async def _ask(self) -> UpstreamPlan | None:
        """What the session's actor proposes; None if it does not say in time, or another's may have to be asked."""
        identity = await self.identity()
        stream = identity.stream
        if not identity.is_known:
            return None
        try:
            with trio.move_on_after(self._registry.patience_with(stream, self._patience.actor)):
                return await self._upstream(Prepare(request=self._request))
            self._registry.note_late(stream)
            if not await self._fits_without_plan():
                log.warning("a turn of session %s waits for its upstream history: nothing else would fit", stream)
                with trio.move_on_after(self._patience.last_resort):
                    return await self._upstream(Prepare(request=self._request))
        except MnemosyneError as error:
            log.warning("what goes upstream in session %s cannot be had: %s", stream, error)
        return None

    async def _fits_without_plan(self) -> bool:
        """Whether what goes upstream without the session's actor is not too large for the model, as far as can be told.
        Of a model that is in no table, the configured window is all that is known; it counts for a managed conversation
        whose actor is only busy.
        """
        going_on = await self._going_on()
        stream, lane = (await self.identity()).stream, self._request.lane
        is_busy = self._registry.mode_of(stream, lane) is Mode.MANAGE
        read = await (self._request.read() if going_on is None else read_in_thread(going_on.body, lane=lane))
        wanted, model = self._registry.settings.window, read.transcript.fields.model
        is_known = bool(family_of(model or ""))
        stated = self._registry.find_stated_window(stream, model)
        most = choose_window(wanted, model, stated) if going_on is None and is_busy and not is_known else None
        return await trio.to_thread.run_sync(lambda: rounds.fits(read.transcript, most=most, stated=stated))

    async def _begins_with(self, proposal: Proposal) -> bool:
        """Record that this leaves; whether it may. What another process has just written may have changed it."""
        self._outgoing = proposal
        await self.note_begun()
        if not self._outdated:
            return True
        self._reset_dispatch()
        return False

    def _reset_dispatch(self) -> None:
        """Nothing left, and nothing was told: what leaves, and where it is recorded, is open again."""
        self._outgoing, self._outdated = Passthrough(), False
        self._started, self._begun, self._address = False, trio.Event(), None

    async def _without_us(self, mode: Mode | None, why: str = rounds.NO_ANSWER) -> Prepared:
        """The client's body: as it came where it is only observed, else without thinking, which may have been signed
        against another history than the client's.
        """
        body, raw = None, self._request.raw
        if mode is not Mode.OBSERVE:
            read = (await read_in_thread(raw, lane=self._request.lane, most=ANY_NUMBER)).transcript
            body = await run_in_thread(lambda: rounds.without_thinking(read), in_thread=is_much(raw))
        self._outgoing = Passthrough(late=True) if body is None else Fallback(body, why)
        return Prepared(body)

    def _next_round(self, address: Address, body: bytes) -> NextRound:
        return NextRound(
            at=self._opener.now(),
            address=address,
            body=body,
            request=self._request.raw,
            correlation_id=self._request.correlation_id,
        )

    def _answer_calls(self, end: RoundEnd, address: Address, sent: Mapping[str, bytes] | None = None) -> AnswerCalls:
        at, id_ = self._opener.now(), self._request.correlation_id
        return AnswerCalls(at=at, address=address, round=end, correlation_id=id_, sent=sent)

    def _make_refused(self, kind: Refusal, reply: Reply, address: Address) -> Refused:
        return Refused(
            at=self._opener.now(),
            address=address,
            refusal=kind,
            reply=reply,
            request=self._request.raw,
            correlation_id=self._request.correlation_id,
        )

    async def _upstream(self, message: Message) -> UpstreamPlan:
        """What the actor says to it, which may not be durable yet."""
        answer = await self._tell(message, durable=False)
        assert isinstance(answer, UpstreamPlan)
        return answer

    # What happened

    def note_sent(self) -> None:
        """The request has left; recording may begin."""
        if not self._started:
            self._started = True
            self._opener.nursery.start_soon(self._record_begin, self._begun)

    async def note_begun(self) -> None:
        """The reply begins; nothing of it has reached the client yet."""
        self.note_sent()
        await self._patiently(self._begun.wait)

    async def note_finished(self, head: ReplyHead, reply: Reply) -> None:
        """The reply is whole; its last bytes have not left yet."""
        await self._finish(head, reply, None)

    async def note_ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None:
        """The reply is whole: ``reply`` to the client, ``last`` as its last round."""
        await self._finish(head, reply, RoundEnd(reply=last, calls=calls, request=self._request.raw))

    async def _finish(self, head: ReplyHead, reply: Reply, last: RoundEnd | None) -> None:
        at = self._opener.now()
        reply = await self._without_keys(reply, head.status)
        await self._record_end(
            lambda address: Finish(
                at=at,
                address=address,
                status=head.status,
                reply=reply,
                correlation_id=self._request.correlation_id,
                last=last,
                limits=limits_of(head.headers),
            )
        )

    async def note_interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None:
        """There is no whole reply, and there will be none."""
        at = self._opener.now()
        status = head.status if head else None
        if reply is not None:
            reply = await self._without_keys(reply, status)
        await self._record_end(
            lambda address: Interrupt(
                at=at,
                address=address,
                status=status,
                reply=reply,
                reason=echoed_keys.without_in_text(reason, credentials.in_headers(self._request.headers)),
                correlation_id=self._request.correlation_id,
                limits=limits_of(head.headers) if head else {},
            )
        )

    async def _without_keys(self, reply: Reply, status: int | None) -> Reply:
        """An error as it is recorded: without the keys of its request, which it may quote."""
        if not echoed_keys.is_error(status, reply):
            return reply
        # Reading a long body takes its time; meanwhile others are served.
        in_body = await trio.to_thread.run_sync(echoed_keys.keys_in_body, self._request.raw, self._request.dialect)
        keys = credentials.in_headers(self._request.headers) | in_body
        return echoed_keys.without(reply, keys, status=status)

    # How it is recorded

    async def _record_begin(self, begun: trio.Event) -> None:
        gap: Gap | None = None
        stream = (await self.identity()).stream
        try:
            gap = self._registry.take_gap(stream)
            with self._registry.reports.report(stream, self._report):
                await self._report_begin(gap)
            gap = None if not self._outdated else gap
        except MnemosyneError as error:
            self._fall_back(stream, str(error))
        except Exception:
            log.exception("recording failed")
            self._fall_back(stream, "an error of ours; see the server's log")
        finally:
            if gap is not None:
                self._registry.note_gap(stream, gap)
            begun.set()

    async def _report_begin(self, gap: Gap | None) -> None:
        """Tell what leaves. A proposal that does not hold any more is decided anew, unless it has left by now: then
        that is told.
        """
        outgoing = self._outgoing
        try:
            await self._tell(Begin(request=self._request, outgoing=outgoing, gap=gap))
        except (Outdated, VersionConflict, ActorStopped):
            if not isinstance(outgoing, Proposal):
                raise
            self._outdated = self._prepared is None
            if self._prepared is not None:
                left = Fallback(outgoing.body, "another process had just written to its session")
                await self._tell(Begin(request=self._request, outgoing=left, gap=gap))

    def _fall_back(self, stream: UUID, reason: str) -> None:
        self._address = None
        log.warning("a turn of session %s is not recorded: %s", stream, reason)
        self._note_gap(stream, reason)

    def _note_gap(self, stream: UUID, reason: str) -> None:
        """The turn is not recorded, or not whole. It is one turn, however much of it is missing."""
        if not self._is_gap:
            self._is_gap = True
            self._registry.turns_lost += 1
            self._registry.note_gap(stream, Gap(since=self._request.at, turns=1, reason=reason))

    async def _record_end(self, message: Callable[[Address], Message]) -> None:
        if self._prepared is None and not self._started:
            self._outgoing = NothingSent()
        self.note_sent()  # a request that could not leave is a turn, too
        done = trio.Event()
        self._opener.nursery.start_soon(self._report_end, message, done)
        await self._patiently(done.wait)

    async def _report_end(self, message: Callable[[Address], Message], done: trio.Event) -> None:
        with self._registry.reports.report((await self.identity()).stream, self._report):
            with nullcontext() if self._told_rounds.is_set() else self._report.withholding():
                await self._begun.wait()
                await self._told_rounds.wait()
            if self._address is not None:
                await self._report_safely(message(self._address), "the end of a turn")
        done.set()

    async def _report_safely(self, message: Message, what: str) -> bool:
        """Tell it; whether it is on record."""
        try:
            await self._tell(message)
        except MnemosyneError as error:
            log.warning("%s of session %s is not recorded: %s", what, (await self.identity()).stream, error)
            return False
        except Exception:
            log.exception("recording failed")
            return False
        return True

    async def _tell(self, message: Message, *, durable: bool = True) -> Answer:
        """The actor's answer, once it is durable; after a conflict, that of the one that has read the log again."""
        is_proposal = isinstance(message, Begin) and isinstance(message.outgoing, Proposal)
        pauses = islice(chain((0.0,), backoff(FIRST_PAUSE, LONGEST_PAUSE)), ATTEMPTS - 1)
        while True:
            try:
                return await self._report_once(message, durable=durable)
            except (VersionConflict, ActorStopped) as lost:
                pause = next(pauses, None)
                # What has not left is decided anew if another process wrote; the next actor is asked for the same.
                is_outdated = is_proposal and self._prepared is None and isinstance(lost, VersionConflict)
                if pause is None or is_outdated:
                    raise
                await trio.sleep(pause)

    async def _report_once(self, message: Message, *, durable: bool) -> Answer:
        identity = await self.identity()
        if isinstance(message, Prepare):
            await self._registry.catch_up(identity.stream)
        actor, asked = self._registry.ask(identity, message)
        self._report.note(actor)
        if isinstance(message, Begin) and isinstance(message.outgoing, Passthrough):
            await self._registry.note_passthrough(identity.stream, self._request)
        try:
            answer = await asked.wait()
            if isinstance(answer, Begun):
                self._address = answer.address
            if durable:
                await _until_durable(answer)
        except (VersionConflict, ActorStopped):
            self._registry.discard(identity.stream, actor)
            raise
        return answer

    async def _patiently(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Wait, as long as the database lets one expect an outcome; it may turn out to be unreachable meanwhile."""
        began = trio.current_time()
        while (left := began + self._registry.database_patience - trio.current_time()) > 0:
            with trio.move_on_after(min(left, self._patience.database)) as scope:
                await wait()
            if not scope.cancelled_caught:
                return
        log.warning("the database takes longer than %.2g s; the turn goes on", trio.current_time() - began)


async def _until_durable(answer: Answer) -> None:
    match answer:
        case None | Recognized() | Passages():
            return
        case UpstreamPlan():
            if answer.ticket is not None:
                await answer.ticket.durable()
        case Begun():
            await answer.ticket.durable()
        case _:
            await answer.durable()


async def _is_durable(ticket: Ticket) -> bool:
    """Whether an append was accepted, once that is known."""
    try:
        await ticket.durable()
    except LogFailed:
        return False
    return True
