"""One turn, as the relay drives it: its upstream requests and its reply.

A turn of an observed conversation waits for nothing: its request is passed through and recorded in the background. For
any other turn, the session's actor decides the upstream request, which is recorded first. On any failure the client
still gets its reply, and the turn is reported afterwards.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import partial
from itertools import chain, islice
from typing import Any
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
    Message,
    NextRound,
    NothingSent,
    Outgoing,
    Passthrough,
    Prepare,
    Proposal,
    Recognized,
    Refused,
    RoundEnd,
    UpstreamPlan,
    deny,
)
from mnemosyne.actors.owners import OWNER, MemoryOwners
from mnemosyne.actors.pending_reports import TurnReport
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session_finder import SessionFinder
from mnemosyne.actors.spending_guard import SpendingGuard
from mnemosyne.actors.threads import is_much, read_in_thread, run_in_thread
from mnemosyne.actors.tools import NOT_HELPED
from mnemosyne.backoff import backoff
from mnemosyne.domain.cost.catalogue import family_of
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.recall.memory_results import NOT_NOW
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import CHAIN_BYTES, Gap
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import rounds
from mnemosyne.domain.window.refusals import Refusal, refusal_of
from mnemosyne.domain.window.request_settings import choose
from mnemosyne.domain.window.window_size import choose_window
from mnemosyne.domain.wire import echoed_keys
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.identity import TENANT_HEADER
from mnemosyne.domain.wire.json_spans import has_too_many_values
from mnemosyne.domain.wire.limits import limits_of
from mnemosyne.domain.wire.reply import HiddenCall, Reply
from mnemosyne.domain.wire.transcript import ANY_NUMBER, TOO_MANY_VALUES
from mnemosyne.errors import ActorStopped, LogFailed, MnemosyneError, Outdated, VersionConflict

log = logging.getLogger(__name__)

ATTEMPTS = 10
"""Number of attempts at a command when another process keeps writing to the session."""

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.64
"""Seconds before the third attempt, and the maximum before later ones: without the pauses, a caller that has to read
the log before each attempt would always be too late.
"""

Headers = tuple[tuple[str, str], ...]


@attrs.frozen
class Prepared:
    """The request to send upstream: ``body``, None for the client's own bytes. ``hidden`` are the names of the memory
    tools in it. ``hides_verdict``: the proxy, not the client, asks why the provider's cache missed.
    """

    body: bytes | None = attrs.field(default=None, repr=False)
    hidden: frozenset[str] = frozenset()
    hides_verdict: bool = False


PASSTHROUGH = Prepared()


@attrs.frozen
class TurnOpener:
    """Opens turns. ``now`` gives µs of UTC, ``new_id`` a correlation id.

    ``of_tenant`` returns the finder of a tenant that a request names, ``of_keys`` has the finders of tenants by the
    SHA-256 of their credentials; ``finder`` serves all others. ``owners`` distinguishes the owner of the memory from
    strangers; without it all requests are the owner's. ``guard`` enforces the user's limits on cost.
    ``sends``: the proxy itself sends the requests, so that it can add a header. ``keep_files`` saves the client's files
    at a session's request, given its time in µs of UTC, and then sets the event, for which the reply waits.
    """

    registry: SessionRegistry
    finder: SessionFinder
    nursery: trio.Nursery
    now: Callable[[], int]
    new_id: Callable[[], str]
    of_keys: Mapping[str, SessionFinder] = attrs.field(factory=dict)
    of_tenant: Callable[[str], SessionFinder] | None = None
    owners: MemoryOwners | None = None
    guard: SpendingGuard | None = None
    keep_files: Callable[[UUID, int, trio.Event], Awaitable[None]] | None = None
    sends: bool = True
    _warned: set[str] = attrs.field(factory=set, init=False)
    """The default tenant, once the log has warned that requests are assigned to it."""

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
        """The turn that this request begins. Nothing is recorded before ``note_sent`` or ``prepare``.

        ``wanted`` is the mode that the request asks for, None if it does not; ``default`` is the mode of a new
        conversation. ``lease`` and ``lacks_room`` are as in http.messages_route.TurnLogs.
        """
        named = self._finder_of_tenant(headers)
        request = self._make_request(headers, body, dialect, wanted, default)
        if self.owners is not None:
            client_name = request.client_headers.external_id
            client = self.owners.find_client(headers, client_name) if named is None else OWNER
            find_submitted = self.owners.vouch_in(client_name)
            request = attrs.evolve(request, client=client, find_submitted=find_submitted)
        return Turn(self, request, named or self.finder, lease, lacks_room=lacks_room)

    async def read_history(self, headers: Headers, body: bytes, dialect: Dialect) -> tuple[str, list[bytes]]:
        """The tenant of a request, and the hashes of the history that it shows; none before the model's first reply."""
        tenant = (self._finder_of_tenant(headers) or self.finder).tenant
        if b'"assistant"' not in body:
            return tenant, []
        read = (await self._make_request(headers, body, dialect, None, Mode.OBSERVE).read()).transcript
        return tenant, [each.chain[:CHAIN_BYTES] for each in read.messages]

    async def may_be_managed(self, headers: Headers, dialect: Dialect, wanted: Mode | None, default: Mode) -> bool:
        """Whether a request may belong to a managed conversation, judging by its headers."""
        request = self._make_request(headers, b"", dialect, wanted, default)
        client_headers = request.client_headers
        if (
            (wanted or default) is Mode.MANAGE
            or client_headers.external_id is None
            or client_headers.agent_id is not None
        ):
            return True  # an agent may be a fork of a managed conversation
        finder = self._finder_of_tenant(headers) or self.finder
        identity = await finder.identity_of(request)
        is_managed = await finder.mode_of(identity, request) is not Mode.OBSERVE
        return is_managed or await finder.is_switched_on(identity, request)

    def _make_request(
        self,
        headers: Headers,
        body: bytes,
        dialect: Dialect,
        wanted: Mode | None,
        default: Mode,
    ) -> ArrivedRequest:
        credential = self.registry.known_credentials.credential_of(headers)
        return ArrivedRequest(
            at=self.now(),
            headers=headers,
            raw=body,
            correlation_id=self.new_id(),
            dialect=dialect,
            wanted=wanted,
            default=default,
            credential=credential,
            asks_verdict=partial(self.registry.asks_verdict, credential),
            takes_behind=partial(self.registry.takes_behind, credential) if self.sends else deny,
        )

    def _finder_of_tenant(self, headers: Headers) -> SessionFinder | None:
        """The finder of the tenant that a request names, or whose credential it shows; None for the default tenant, so
        that no session breaks because of a missing row.
        """
        named = next((value for name, value in headers if name.lower() == TENANT_HEADER), None)
        if named is not None and self.of_tenant is not None:
            return self.of_tenant(named.strip())
        if not self.of_keys:
            return None
        digests = map(credentials.digest, credentials.keys_in(headers))
        found = next((self.of_keys[each] for each in digests if each in self.of_keys), None)
        if found is None and self.finder.tenant not in self._warned:
            self._warned.add(self.finder.tenant)
            log.warning(
                "a request without a credential of tenant_keys is assigned to tenant %s, and so are all like it; "
                "`mnemosyne config tenant-key TENANT` prints the row for a credential (logged once)",
                self.finder.tenant,
            )
        return found


class Turn:
    """One turn (http.turn_log.TurnLog). It waits for a bounded time; its recording continues in the nursery of
    ``opener``.
    """

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
        self._arrived_at = trio.current_time()
        self._first_byte: int | None = None
        """Time in µs from the request to the first byte of its reply."""
        self._refused: list[Refusal] = []
        self._identified: Identity | None = None
        self._outgoing: Outgoing = Passthrough()
        self._prepared: Prepared | None = None
        """The request to send, once it is final: it was sent, or nothing can hold it back."""
        self._started = False
        self._begun = trio.Event()
        self._outdated = False
        self._address: Address | None = None
        self._account: str | None = None
        self._last: Proposal | None = None
        """The last request sent: the actor's, or one made from it."""
        self._rounds_reported = trio.Event()
        """Set while all sent rounds are reported to the actor."""
        self._rounds_reported.set()
        self._report = TurnReport()
        self._is_gap = False
        """Whether a part of it could not be recorded."""
        self._files_kept: trio.Event | None = None
        """Set when the files at its request are saved, or cannot be; None if the server saves none."""

    # Sending

    async def prepare(self) -> Prepared:
        """The first upstream request; the same on every call. Raises OverBudget."""
        if self._prepared is None and self._opener.guard is not None:
            patience = self._registry.database_patience
            await self._opener.guard.check(self._request, await self.identity(), patience)
        if self._files_kept is None and self._opener.keep_files is not None:
            self._files_kept = trio.Event()
            stream = (await self.identity()).stream
            self._opener.nursery.start_soon(self._opener.keep_files, stream, self._request.at, self._files_kept)
        return self._prepared or await self._prepare()

    async def _prepare(self) -> Prepared:
        mode = await self._find_mode()
        if mode is Mode.OBSERVE and not await self._may_be_managed():
            return self._settle(PASSTHROUGH)
        if self._lacks_room:
            return self._settle(await self._prepare_fallback(mode, rounds.NO_ROOM))
        await self._apply_operator_override()
        for _ in range(ATTEMPTS):
            answer = await self._ask()
            if answer is None:
                break
            if answer.proposal is None:
                return self._settle(await self._prepare_passthrough(mode))
            if await self._record_proposal(answer.proposal):
                return self._settle(self._prepare_proposal(answer.proposal))
        return self._settle(await self._prepare_unplanned(mode))

    async def preview(self) -> tuple[bytes, bytes] | None:
        """The first upstream request, if this were sent, and one without anything of the proxy; None for the client's
        own bytes. Nothing is recorded. It asks for no verdict, which an API refuses in a request for a token count.
        """
        self._request = attrs.evolve(self._request, asks_verdict=deny)
        is_observed = await self._find_mode() is Mode.OBSERVE and not await self._may_be_managed()
        if is_observed or self._lacks_room:
            return None
        await self._apply_operator_override()
        answer = await self._ask()
        proposal = await self._continue_last() if answer is None else answer.proposal
        if proposal is None:
            return None
        own = await trio.to_thread.run_sync(rounds.without_thinking, proposal.turn.read)
        return proposal.body, own or self._request.raw

    async def replace_refused(self, refusal: Reply, status: int) -> bytes | None:
        """The replacement for a round that the provider may have refused for something the proxy added; None for
        another reason.
        """
        last = self._last
        kind = None if last is None else last.turn.find_refusal(refusal.body, status)
        if last is None or kind is None:
            return None
        if kind in (Refusal.VERDICT, Refusal.TOOLS_BEHIND) and last.turn.may_lack(kind) and status < 500:
            self._refused.append(kind)
        refusal = await self._without_keys(refusal, status)
        if self._address is not None:
            asking = self._make_refused(kind, refusal, self._address)
            try:
                with trio.fail_after(self._patience.answers):
                    await self._rounds_reported.wait()
                    plan = await self._upstream(asking)
            except (MnemosyneError, trio.TooSlowError) as error:
                stream = (await self.identity()).stream
                log.warning("the replacement of a refused request of session %s is not planned: %s", stream, error)
            else:
                if plan.ticket is not None:
                    return await self._accept_plan(plan, asking)
        return self._replace_alone(kind, refusal, last)

    async def try_again(self, refusal: Reply, status: int) -> "Turn | None":
        """Another attempt at this turn, without thinking that the provider refused: a proxy with another database may
        have sent the prompt for which it was signed. None for another refusal, or if there is no thinking to drop.
        """
        kind = refusal_of(refusal.body, b"[]", self._request.dialect, status=status)
        if kind is not Refusal.THINKING or isinstance(self._outgoing, Fallback):
            return None
        request = attrs.evolve(self._request, at=self._opener.now(), correlation_id=self._opener.new_id())
        again = Turn(self._opener, request, self._finder, self._lease)
        try:
            again._identified = await self.identity()
            again._settle(await again._prepare_fallback(None, rounds.THINKING_REFUSED))
        except Exception:
            log.exception("refused thinking cannot be dropped")
            return None
        return again if isinstance(again._outgoing, Fallback) else None

    def _replace_alone(self, kind: Refusal, refusal: Reply, last: Proposal) -> bytes | None:
        """The same without the session's actor, which does not know the refused request: another process had written to
        the session, and that is why the provider refused. The actor gets the report later.
        """
        if not last.turn.may_lack(kind):
            return None
        turn = last.turn.without(kind)
        body = turn.body(last.attempt)
        self._last = attrs.evolve(last, turn=turn, body=body)
        self._report_round(lambda address: self._make_refused(kind, refusal, address), body)
        return body

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        """The upstream request after these calls are answered; None if no other round follows. Calls that are not
        answered in time get a result that says so.
        """
        end = RoundEnd(reply=reply, calls=calls, request=self._request.raw)
        asking: AnswerCalls | None = None
        helped: dict[str, HelperAnswer] = {}
        try:
            with trio.fail_after(self._patience.answers):
                await self._begun.wait()
                await self._rounds_reported.wait()
                if self._address is None:
                    return self._refuse_calls(end)
                await self._ask_helper(end, self._address, helped)
                asking = attrs.evolve(self._answer_calls(end, self._address), helped=helped)
                plan = await self._upstream(asking)
        except (MnemosyneError, trio.TooSlowError) as error:
            stream = (await self.identity()).stream
            log.warning("calls of memory tools in session %s were not answered: %s", stream, error)
            if asking is not None:
                asking.left.set()
            return self._refuse_calls(end, helped)
        except BaseException:  # the client has disconnected, but the helper's work is paid for
            if asking is None and helped:
                self._report_round(self._make_report(end, helped), None)
            raise
        return await self._accept_plan(plan, asking)

    async def _ask_helper(self, end: RoundEnd, address: Address, helped: dict[str, HelperAnswer]) -> None:
        """Put a helper model's answers to a round's questions into ``helped``, by call, if there is a helper and it
        answers in time. The session's actor does not wait for it.
        """
        questions = self._registry.questions
        if questions is None or not any(call.name == memory_tools.QUERY for call in end.calls):
            return
        stream = (await self.identity()).stream

        async def ask(call: HiddenCall, question: HelperQuestion) -> None:
            async def find(again: HelperQuestion, first: HelperAnswer) -> HelperQuestion | None:
                helped[call.id] = first
                return (await self._find_passages(attrs.evolve(end, calls=(call,)), address, again)).get(call.id)

            answer = await questions.ask_up_to_twice(question, stream, self._patience, find)
            if answer is not None:
                helped[call.id] = answer

        found = await self._find_passages(end, address)
        async with trio.open_nursery() as nursery:
            for call in end.calls:
                if call.id in found:
                    nursery.start_soon(ask, call, found[call.id])

    async def _find_passages(
        self, end: RoundEnd, address: Address, again: HelperQuestion | None = None
    ) -> Mapping[str, HelperQuestion]:
        """The questions of a round with passages, by call; ``again`` as in ``FindPassages``."""
        message = FindPassages(address=address, round=end, again=again, **self._stamp())
        try:
            found = await self._send(message, durable=False)
        except MnemosyneError as error:
            log.info("a helper is not asked: %s", error)
            return {}
        assert isinstance(found, Mapping)
        return found

    async def _accept_plan(self, plan: UpstreamPlan, asked: AnswerCalls | Refused) -> bytes | None:
        """The body of another round, None if none follows, once it is recorded as sent. From here on that body is sent
        even if the record fails: the actor gets the ``asked`` message again if it was not accepted.
        """
        if plan.ticket is None:
            return None
        proposal = plan.proposal
        if proposal is not None:
            self._last = proposal
            if isinstance(asked, AnswerCalls):
                asked = attrs.evolve(asked, sent=proposal.turn.results(proposal.attempt))
        body = None if proposal is None else proposal.body
        await self._wait_for_database(
            self._report_round(lambda address: attrs.evolve(asked, address=address), body, plan.ticket)
        )
        return body

    def _refuse_calls(self, end: RoundEnd, helped: Mapping[str, HelperAnswer] = NOT_HELPED) -> bytes | None:
        """The body of another round whose calls got no answer. The actor gets a report later, including the helper's
        answers and their cost.
        """
        last = self._last
        if last is None:
            return None
        turn = last.turn.add_reply(last.attempt, end.reply.body, self._write_refusals(end)).next
        body = turn.body(last.attempt) if turn.round <= MOST_ROUNDS else None
        if body is not None:
            self._last = attrs.evolve(last, turn=turn, body=body)
        self._report_round(self._make_report(end, helped), body)
        return body

    def _write_refusals(self, end: RoundEnd) -> Mapping[str, bytes]:
        return {call.id: self._request.dialect.write_result(call.id, NOT_NOW, True) for call in end.calls}

    def _make_report(self, end: RoundEnd, helped: Mapping[str, HelperAnswer]) -> Callable[[Address], AnswerCalls]:
        """The report of a round whose calls got no answer, with the helper's answers and their cost."""
        sent = self._write_refusals(end)
        return lambda address: attrs.evolve(self._answer_calls(end, address, sent), helped=helped)

    def _report_round(
        self, ended: Callable[[Address], AnswerCalls | Refused], body: bytes | None, ticket: Ticket | None = None
    ) -> Callable[[], Awaitable[None]]:
        """Report the end of a round, unless its ticket exists, and the sending of another, after all earlier reports.
        The returned function waits until both are recorded.
        """
        earlier, done = self._rounds_reported, trio.Event()
        self._rounds_reported = done
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
            with self._report.withholding():
                await self._begun.wait()
                await earlier.wait()
                recorded = ticket is not None and self._address is not None and await _is_durable(ticket)
            if self._address is not None:
                recorded = recorded or await self._report_safely(ended(self._address), "the end of a round")
                if recorded and body is not None:
                    recorded = await self._report_safely(self._next_round(self._address, body), "a round")
                if not recorded:
                    self._note_gap((await self.identity()).stream, "a round that the client does not see")
        done.set()

    def _prepare_proposal(self, proposal: Proposal) -> Prepared:
        self._last = proposal
        hidden = memory_tools.NAMES if proposal.turn.mode is Mode.MANAGE else frozenset()
        return Prepared(proposal.body, hidden, hides_verdict=proposal.turn.compared_with is not None)

    async def _prepare_passthrough(self, mode: Mode | None) -> Prepared:
        """The client's own body, as its branch sends. In a conversation that was managed elsewhere, a body with too
        many values to parse is sent without thinking, which may have been signed there.
        """
        if mode in (Mode.MANAGE, Mode.BYPASS) and await self._is_too_much():
            return await self._prepare_fallback(mode, TOO_MANY_VALUES)
        return PASSTHROUGH

    async def _is_too_much(self) -> bool:
        """Whether the client's body has too many values to parse."""
        raw = self._request.raw
        return await run_in_thread(lambda: has_too_many_values(raw), in_thread=is_much(raw))

    async def _prepare_unplanned(self, mode: Mode | None) -> Prepared:
        """The request without a plan of the actor: the last request plus the new messages, which loses and costs
        nothing; the next request is planned. If that is not known, the client's own body.
        """
        continuation = await self._continue_last()
        stream = (await self.identity()).stream
        if continuation is None:
            log.warning("a turn of session %s is sent without its upstream history", stream)
            return await self._prepare_fallback(mode)
        log.warning("a turn of session %s continues its last request without a plan", stream)
        self._outgoing = Continuation(body=continuation.body)
        return self._prepare_proposal(continuation)

    async def _continue_last(self) -> Proposal | None:
        """The last request plus the new messages, if known without waiting."""
        stream = (await self.identity()).stream
        try:
            return await self._registry.continue_last(stream, self._request)
        except Exception:
            log.exception("the last request of session %s cannot be continued", stream)
            return None

    def _settle(self, prepared: Prepared) -> Prepared:
        self._prepared = prepared
        return prepared

    @property
    def _may_become_managed(self) -> bool:
        return (self._request.wanted or self._request.default) is Mode.MANAGE

    async def _may_be_managed(self) -> bool:
        """Whether an observed conversation may become managed with this request."""
        return self._may_become_managed or await self._finder.is_switched_on(await self.identity(), self._request)

    async def identity(self) -> Identity:
        if self._identified is None:
            self._identified = await self._finder.identity_of(self._request)
        return self._identified

    @property
    def address(self) -> Address | None:
        """The recorded address; None while it is unknown, or if the turn is not recorded."""
        return self._address

    async def _find_mode(self) -> Mode | None:
        """The mode of the conversation, as far as it is known; a new one counts as observed. A new request may also
        repeat the beginning of a managed conversation, so the finder is asked unless the actor is asked anyway.
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
        """The actor's proposal; None if it is late, or another session may be the right one."""
        identity = await self.identity()
        stream = identity.stream
        if not identity.is_known:
            return None
        try:
            with trio.move_on_after(self._registry.patience_with(stream, self._patience.actor)):
                return await self._upstream(Prepare(request=self._request))
            self._registry.note_late(stream)
            if not await self._fits_without_plan():
                log.warning("a turn of session %s waits for its plan: nothing else would fit the model", stream)
                with trio.move_on_after(self._patience.last_resort):
                    return await self._upstream(Prepare(request=self._request))
        except MnemosyneError as error:
            log.warning("a request of session %s could not be planned: %s", stream, error)
        return None

    async def _fits_without_plan(self) -> bool:
        """Whether the request without a plan fits the model, as far as is known. For a model in no table, only the
        configured window is known; it is the limit for a managed conversation whose actor is only busy.
        """
        stream, conversation = (await self.identity()).stream, self._request.conversation
        mode = self._registry.mode_of(stream, conversation)
        if mode is Mode.OBSERVE:
            return True  # its client's own bytes, as before
        is_busy = mode is Mode.MANAGE
        continuation = await self._continue_last()
        read = await (
            self._request.read()
            if continuation is None
            else read_in_thread(continuation.body, conversation=conversation)
        )
        wanted = choose(self._registry.settings, self._request.headers).window
        model = read.transcript.fields.model
        is_known = bool(family_of(model or ""))
        stated = self._registry.find_stated_window(stream, model)
        most = choose_window(wanted, model, stated) if continuation is None and is_busy and not is_known else None
        return await trio.to_thread.run_sync(lambda: rounds.fits(read.transcript, most=most, stated=stated))

    async def _record_proposal(self, proposal: Proposal) -> bool:
        """Record that this proposal is sent; return whether it may be. Another process may have made it outdated."""
        self._outgoing = proposal
        self.note_sent()
        await self._wait_for_database(self._begun.wait)
        if not self._outdated:
            return True
        self._reset_dispatch()
        return False

    def _reset_dispatch(self) -> None:
        """Reset the dispatch: nothing was sent or reported, so both are undecided again."""
        self._outgoing, self._outdated = Passthrough(), False
        self._started, self._begun, self._address = False, trio.Event(), None

    async def _prepare_fallback(self, mode: Mode | None, why: str = rounds.NO_ANSWER) -> Prepared:
        """The client's body: unchanged if it is observed, otherwise without thinking, which may have been signed for
        another history than the client's.
        """
        body, raw = None, self._request.raw
        if mode is not Mode.OBSERVE:
            read = (await read_in_thread(raw, conversation=self._request.conversation, most=ANY_NUMBER)).transcript
            body = await run_in_thread(lambda: rounds.without_thinking(read), in_thread=is_much(raw))
        self._outgoing = Passthrough(late=True) if body is None else Fallback(body, why)
        return Prepared(body)

    def _next_round(self, address: Address, body: bytes) -> NextRound:
        return NextRound(address=address, body=body, request=self._request.raw, **self._stamp())

    def _answer_calls(self, end: RoundEnd, address: Address, sent: Mapping[str, bytes] | None = None) -> AnswerCalls:
        return AnswerCalls(address=address, round=end, sent=sent, **self._stamp())

    def _make_refused(self, kind: Refusal, reply: Reply, address: Address) -> Refused:
        return Refused(address=address, refusal=kind, reply=reply, request=self._request.raw, **self._stamp())

    def _stamp(self) -> dict[str, Any]:
        return {"at": self._opener.now(), "correlation_id": self._request.correlation_id}

    async def _upstream(self, message: Message) -> UpstreamPlan:
        """The actor's plan, which may not be durable yet."""
        answer = await self._send(message, durable=False)
        assert isinstance(answer, UpstreamPlan)
        return answer

    # Events

    def note_sent(self) -> None:
        """The request was sent; start recording."""
        if not self._started:
            self._started = True
            self._opener.nursery.start_soon(self._record_begin, self._begun)

    async def note_begun(self) -> None:
        """The reply begins; nothing of it has reached the client yet."""
        self.note_sent()
        await self._wait_for_database(self._begun.wait)
        if self._files_kept is not None:
            await self._files_kept.wait()

    def note_byte(self) -> None:
        """Bytes of the reply's body arrived; the first ones are timed."""
        if self._first_byte is None:
            self._first_byte = round((trio.current_time() - self._arrived_at) * 1e6)

    async def note_finished(self, head: ReplyHead, reply: Reply) -> None:
        """The reply is complete; its last bytes have not been sent to the client yet."""
        await self._finish(head, reply, None)

    async def note_ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None:
        """The reply is complete: ``reply`` as the client gets it, ``last`` as its last round."""
        await self._finish(head, reply, RoundEnd(reply=last, calls=calls, request=self._request.raw))

    def _note_accepted(self, head: ReplyHead, reply: Reply) -> None:
        """Remember the refused part if the request without it succeeded; otherwise it was not the reason."""
        if self._last is not None and head.status < 300 and reply.error_type is None:
            for kind in self._refused:
                self._registry.note_refused(kind, self._request.credential, self._last.turn.read)

    async def _finish(self, head: ReplyHead, reply: Reply, last: RoundEnd | None) -> None:
        self._note_accepted(head, reply)
        reply = await self._without_keys(reply, head.status)
        ended = {"first_byte": self._first_byte, **self._stamp()}
        await self._record_end(
            lambda address: Finish(
                address=address,
                status=head.status,
                reply=reply,
                last=last,
                limits=limits_of(head.headers, self._account),
                **ended,
            )
        )

    async def note_interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None:
        """There is no complete reply, and there will be none."""
        status = head.status if head else None
        headers = head.headers if head else ()
        ended = {"first_byte": self._first_byte, **self._stamp()}
        if reply is not None:
            reply = await self._without_keys(reply, status)
        why = echoed_keys.without_in_text(reason, credentials.in_headers(self._request.headers))
        await self._record_end(
            lambda address: Interrupt(
                address=address,
                status=status,
                reply=reply,
                reason=why,
                limits=limits_of(headers, self._account),
                **ended,
            )
        )

    async def _without_keys(self, reply: Reply, status: int | None) -> Reply:
        """An error reply to record: without its request's keys, which it may quote."""
        if not echoed_keys.is_error(status, reply):
            return reply
        # Reading a long body takes time; the thread lets others be served.
        in_body = await trio.to_thread.run_sync(echoed_keys.keys_in_body, self._request.raw, self._request.dialect)
        keys = credentials.in_headers(self._request.headers) | in_body
        return echoed_keys.without(reply, keys, status=status)

    # Recording

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
            self._fall_back(stream, "an internal error; see the server's log")
        finally:
            if gap is not None:
                self._registry.note_gap(stream, gap)
            begun.set()

    async def _report_begin(self, gap: Gap | None) -> None:
        """Report the request. An outdated proposal is planned again, unless it was already sent: then the report says
        so.
        """
        outgoing = self._outgoing
        try:
            await self._send(Begin(request=self._request, outgoing=outgoing, gap=gap))
        except (Outdated, VersionConflict, ActorStopped):
            if not isinstance(outgoing, Proposal):
                raise
            self._outdated = self._prepared is None
            if self._prepared is not None:
                left = Fallback(outgoing.body, "another process had just written to its session")
                await self._send(Begin(request=self._request, outgoing=left, gap=gap))

    def _fall_back(self, stream: UUID, reason: str) -> None:
        self._address = None
        log.warning("a turn of session %s is not recorded: %s", stream, reason)
        self._note_gap(stream, reason)

    def _note_gap(self, stream: UUID, reason: str) -> None:
        """Record that the turn is not recorded, or incompletely. It counts once, however much is missing."""
        if not self._is_gap:
            self._is_gap = True
            self._registry.turns_lost += 1
            self._registry.note_gap(stream, Gap(since=self._request.at, turns=1, reason=reason))

    async def _record_end(self, message: Callable[[Address], Message]) -> None:
        if self._prepared is None and not self._started:
            self._outgoing = NothingSent()
        self.note_sent()  # a request that could not be sent is a turn, too
        done = trio.Event()
        self._opener.nursery.start_soon(self._report_end, message, done)
        await self._wait_for_database(done.wait)

    async def _report_end(self, message: Callable[[Address], Message], done: trio.Event) -> None:
        with self._registry.reports.report((await self.identity()).stream, self._report):
            with nullcontext() if self._rounds_reported.is_set() else self._report.withholding():
                await self._begun.wait()
                await self._rounds_reported.wait()
            if self._address is not None:
                await self._report_safely(message(self._address), "the end of a turn")
        done.set()

    async def _report_safely(self, message: Message, what: str) -> bool:
        """Send a message to the actor; return whether it is recorded."""
        try:
            await self._send(message)
        except MnemosyneError as error:
            log.warning("%s of session %s is not recorded: %s", what, (await self.identity()).stream, error)
            return False
        except Exception:
            log.exception("recording failed")
            return False
        return True

    async def _send(self, message: Message, *, durable: bool = True) -> Answer:
        """The actor's answer, once it is durable; after a conflict, the answer of the next actor, which has read the
        log again.
        """
        is_proposal = isinstance(message, Begin) and isinstance(message.outgoing, Proposal)
        pauses = islice(chain((0.0,), backoff(FIRST_PAUSE, LONGEST_PAUSE)), ATTEMPTS - 1)
        while True:
            try:
                return await self._report_once(message, durable=durable)
            except (VersionConflict, ActorStopped) as lost:
                pause = next(pauses, None)
                # An unsent proposal is planned again if another process wrote; otherwise the next actor gets the same
                # message.
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
                self._address, self._account = answer.address, answer.account
            if durable:
                await _until_durable(answer)
        except (VersionConflict, ActorStopped):
            self._registry.discard(identity.stream, actor)
            raise
        return answer

    async def _wait_for_database(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Wait as long as the database can be expected to answer; it may turn out to be unreachable meanwhile."""
        began = trio.current_time()
        while (left := began + self._registry.database_patience - trio.current_time()) > 0:
            with trio.move_on_after(min(left, self._patience.database)) as scope:
                await wait()
            if not scope.cancelled_caught:
                return
        log.warning("the database takes longer than %.2g s; the turn continues", trio.current_time() - began)


async def _until_durable(answer: Answer) -> None:
    match answer:
        case None | Recognized() | Mapping():
            return
        case UpstreamPlan():
            if answer.ticket is not None:
                await answer.ticket.durable()
        case Begun():
            await answer.ticket.durable()
        case _:
            await answer.durable()


async def _is_durable(ticket: Ticket) -> bool:
    """Whether an append was accepted, once it is settled."""
    try:
        await ticket.durable()
    except LogFailed:
        return False
    return True
