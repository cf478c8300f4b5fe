"""One task per session: collect inputs, decide, append, answer; one message at a time.

Only the actor knows the current state of its session. The state evolves as soon as events are queued, so that several
turns can run at once. If queued events turn out to conflict with the stream, because another process wrote to it, the
actor is discarded and the next one reads the log again.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

import attrs
import trio

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.deferred_work import DeferredWork
from mnemosyne.actors.helper_work import HelperQueue
from mnemosyne.actors.knowledge_source import KnowledgeSource
from mnemosyne.actors.known_credentials import ClientKeys
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.mailbox import Ask, Mailbox
from mnemosyne.actors.messages import (
    Answer,
    AnswerCalls,
    ArrivedRequest,
    Begin,
    Begun,
    CompleteDeferred,
    Contents,
    Continuation,
    End,
    Fallback,
    FindPassages,
    Finish,
    HelperDone,
    Interrupt,
    Message,
    NextRound,
    NothingSent,
    Outgoing,
    Passthrough,
    Prepare,
    Proposal,
    Recognize,
    Recognized,
    Refused,
    RoundEnd,
    UpstreamPlan,
)
from mnemosyne.actors.owners import MemoryClient
from mnemosyne.actors.rounds import NOTHING, ManagedRounds, Planned, RoundOver
from mnemosyne.actors.session_orders import SessionOrders
from mnemosyne.actors.threads import read_in_thread
from mnemosyne.backoff import backoff
from mnemosyne.domain.cost import catalogue
from mnemosyne.domain.history.change_actors import Actor, actor_of
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.prompts import find_remembered, read_prompt
from mnemosyne.domain.objects import decide as objects
from mnemosyne.domain.ports import Append, Content, Envelope, Journal, StreamReader, Ticket
from mnemosyne.domain.session import decision_inputs, sanitize
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import (
    BeginTurn,
    EndSession,
    FinishTurn,
    Gap,
    InterruptTurn,
    SendFallback,
    SetMode,
    decide,
)
from mnemosyne.domain.session.decision_inputs import RecordWork, ServerSettings
from mnemosyne.domain.session.events import Event, TurnBegan, TurnRelation
from mnemosyne.domain.session.input_events import Awaited, InputsSoFar
from mnemosyne.domain.session.round_events import EpochBegan, Mode, SessionEdited
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window import rounds
from mnemosyne.domain.window.request_settings import choose
from mnemosyne.domain.window.rounds import SETTINGS, Opening
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.identity import account_of
from mnemosyne.domain.wire.project import project_of_transcript
from mnemosyne.domain.wire.transcript import Transcript, TranscriptReading
from mnemosyne.errors import (
    ActorStopped,
    LogFailed,
    LogUnavailable,
    MnemosyneError,
    NotFound,
    Outdated,
    VersionConflict,
    release_frames,
)

log = logging.getLogger(__name__)

WAITING = 64
"""Size of an actor's mailbox. Beyond that, turns go unrecorded, as a gap."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between attempts to load a session while the database is away."""

PAUSE_SECONDS = 8.0
"""Pause after which everything in the last request of an observed conversation becomes objects."""

STOPPED = ActorStopped("the session's actor has stopped.")
INTERNAL_ERROR = MnemosyneError("an internal error; see the server's log")


@attrs.frozen(kw_only=True)
class _Gathered:
    """A parsed request, its branch and its plan."""

    version: int
    reading: TranscriptReading
    opening: Opening
    planned: Planned


class SessionActor:
    """Owns one session. ``run`` is its task; other tasks send messages to ``mailbox``."""

    def __init__(
        self,
        memory: Loaded,
        *,
        event_log: StreamReader[Event],
        journal: Journal,
        settings: ServerSettings = SETTINGS,
        orders: HelperQueue | None = None,
        outside: ActorServices | None = None,
        client_keys: ClientKeys | None = None,
        knowledge_source: KnowledgeSource | None = None,
    ) -> None:
        outside = outside or ActorServices()
        self.identity = memory.identity
        self.mailbox: Mailbox[Message, Answer] = Mailbox(WAITING)
        self.loaded = False
        """Whether ``state`` has been read from the log."""
        self._log = event_log
        self._journal = journal
        self._settings = settings
        self._memory = memory
        self.rounds = ManagedRounds(memory, outside, settings)
        """The rounds of its managed turns."""
        self._deferred = DeferredWork(memory, outside.patience, settings)
        self._orders = SessionOrders(memory, orders) if orders is not None else None
        self._client_keys = client_keys
        self._knowledge_source = knowledge_source
        self._clients: set[MemoryClient] = set()
        """The clients that the knowledge source knows."""
        self._last: Ticket | None = None
        self._last_may_wait = False
        self._gathered: dict[str, _Gathered] = {}
        self._correlation = ""
        self._scope = trio.CancelScope()

    @property
    def state(self) -> Session:
        """The session folded from its events so far."""
        return self._memory.state

    @property
    def bytes_held(self) -> int:
        """Size of the bodies in memory."""
        held = {id(raw): raw for raw in (*self._memory.list_held(), *self._deferred.list_held())}
        return sum(map(len, held.values()))

    async def continue_last(self, request: ArrivedRequest) -> Proposal | None:
        """The last request on this branch plus the new messages, while the actor is busy with anything else; None if it
        is not known.
        """
        version = self.state.version
        turn = await self.rounds.continue_last(request) if self.loaded else None
        if turn is None:
            return None
        return Proposal(version=version, body=turn.body(1), turn=turn, attempt=1)

    def pause(self) -> None:
        """Order the work that is due when no request has arrived for a while."""
        if self._orders is not None and self._last is not None:
            self._orders.pause(self._last)

    async def pause_on_close(self) -> None:
        """Order the same work if a person closed the session after its last turn, in any process. Raises what reading
        the log raises.
        """
        last = max((each.body_version for each in self.state.branches.values()), default=0)
        events = [each.envelope.event for each in await self._log.read(self.identity.stream, after=last)]
        edits = [each.closed for each in events if isinstance(each, SessionEdited) and each.closed is not None]
        if edits and edits[-1]:
            self.pause()

    def stop(self) -> None:
        """Stop. Waiting callers get ActorStopped and may ask the next actor."""
        self._scope.cancel()

    async def run(self) -> None:
        """Load the session, then handle messages until stopped. An unexpected error ends only this actor."""
        ending: MnemosyneError = INTERNAL_ERROR
        try:
            with self._scope:
                await self._load()
                ending = STOPPED
                while True:
                    asked = await self._next_before_record()
                    await self._do_deferred_work(waits=False)
                    if asked is None and self._deferred.is_behind and not self._deferred.is_late:
                        asked = await self.mailbox.next_before(self._do_deferred_work)
                    asked = asked or await self._next_before_pause() or await self.mailbox.next()
                    if self._needs_deferred_work(asked.message):
                        await self._do_deferred_work(is_needed=True)
                    await self._handle(asked)
        except MnemosyneError as error:
            log.error("session %s cannot be read: %s", self.identity.stream, error)
            ending = release_frames(error)
        except Exception:
            log.exception("the actor of session %s failed; the next request starts another", self.identity.stream)
        finally:
            self.mailbox.close(STOPPED if self._scope.cancel_called else ending)

    async def _load(self) -> None:
        for pause in backoff(FIRST_PAUSE, LONGEST_PAUSE):
            try:
                recorded = await self._log.read(self.identity.stream)
                break
            except LogUnavailable:
                await trio.sleep(pause)
        self._memory.load(recorded)
        self._correlation = recorded[-1].envelope.correlation_id if recorded else ""
        self.loaded = True

    async def _next_before_record(self) -> Ask[Message, Answer] | None:
        """The next message, if it arrives before the last append is settled. Durability comes first: a client waits for
        it, and deferred work must not block it.
        """
        last = self._last
        if last is None or last.settled or self._last_may_wait:
            return None
        return await self.mailbox.next_before(lambda: _wait_for_outcome(last))

    async def _next_before_pause(self) -> Ask[Message, Answer] | None:
        """The next message, if it arrives before the pause that makes objects of all that an observed client sent."""
        if not self._deferred.list_paused():
            return None
        asked, last = await self.mailbox.next_before(partial(trio.sleep, PAUSE_SECONDS)), self._last
        if asked is None and last is not None and last.settled:
            with suppress(LogFailed):  # the registry replaces the actor of a refused append
                await last.durable()
                await self._deferred.close_runs(self._append_deferred)
        return asked

    def _needs_deferred_work(self, message: Message) -> bool:
        """Whether deferred work has to be done before a message. A turn does not wait for objects of other sessions."""
        if isinstance(message, Begin):
            return self._deferred.is_late
        return self._deferred.is_behind and not isinstance(message, Finish | Interrupt)

    async def _do_deferred_work(self, *, waits: bool = True, is_needed: bool = False) -> None:
        await self._deferred.do(self._append_deferred, waits=waits, is_needed=is_needed)
        if self._orders is not None and self._last is not None:
            self._orders.note_leaving(self.rounds.list_leaving(), self._last)

    # Messages

    async def _handle(self, asked: Ask[Message, Answer]) -> None:
        try:
            await self.stop_if_refused()
            asked.answer(await self.do(asked.message))
        except MnemosyneError as error:
            asked.refuse(error)
        except Exception:
            asked.refuse(INTERNAL_ERROR)  # callers may ask the next actor; this message would crash that one, too
            raise

    async def do(self, message: Message) -> Answer:
        """Handle a message: queue its events, update the state and return the answer."""
        match message:
            case Prepare():
                return await self._prepare(message.request)
            case Recognize():
                return await self._recognize(message.request)
            case Begin():
                return await self._begin(message)
            case FindPassages():
                return await self.rounds.find_passages(message)
            case AnswerCalls():
                return await self._answer(message)
            case Refused():
                return await self._refuse(message)
            case NextRound():
                return await self._next_round(message)
            case Finish():
                return await self._finish(message)
            case Interrupt():
                return await self._interrupt(message)
            case CompleteDeferred():
                if message.closes:
                    await self._deferred.close_runs(self._append_deferred)
                return self._last
            case HelperDone():
                return await self._record_help(message)
            case End():
                return await self._close(message)
            case _:
                assert_never(message)

    # A turn begins

    async def _gather(self, request: ArrivedRequest, gap: Gap | None = None) -> tuple[TranscriptReading, Opening]:
        """Parse a request against the session's bodies and decide how its turn opens."""
        command, reading = await self._memory.read_turn(request, gap)
        events = decide(command, self.state)
        opening = Opening(
            at=request.at,
            wanted=request.wanted,
            default=request.default,
            events=events,
            read=reading.transcript,
            before=self.state,
            session=self._memory.preview(events),
            settings=choose(self._settings, request.headers, self.state.grounding),
            asks_verdict=request.asks_verdict(reading.transcript),
            takes_behind=request.takes_behind(reading.transcript),
        )
        return reading, opening

    async def _plan(self, request: ArrivedRequest, gap: Gap | None = None) -> _Gathered:
        version = self.state.version
        reading, opening = await self._gather(request, gap)
        return _Gathered(
            version=version, reading=reading, opening=opening, planned=await self.rounds.plan(opening, request.client)
        )

    async def _prepare(self, request: ArrivedRequest) -> UpstreamPlan:
        """Plan the upstream request. On any error, the caller may send the client's own body."""
        try:
            gathered = await self._plan(request)
            if gathered.planned.turn is None and rounds.may_be_managed_elsewhere(gathered.opening):
                await self._stop_if_outdated()
        except VersionConflict:
            raise
        except MnemosyneError as error:
            log.warning("the upstream history of session %s cannot be built: %s", self.identity.stream, error)
            raise
        except Exception:
            log.exception("planning a request of session %s failed", self.identity.stream)
            raise INTERNAL_ERROR from None
        planned = gathered.planned
        self._gathered = {request.correlation_id: gathered}
        if planned.turn is None:
            return UpstreamPlan()
        attempt = gathered.opening.began.attempt
        return UpstreamPlan(Proposal(version=gathered.version, body=planned.body, turn=planned.turn, attempt=attempt))

    async def _recognize(self, request: ArrivedRequest) -> Recognized:
        """How closely a request matches the session. Before it answers that the request is foreign, the actor checks
        that no other process wrote to the session.
        """
        found = await self._memory.recognize(request)
        if not found.is_ours:
            await self._stop_if_outdated()
        return found

    async def _begin(self, message: Begin) -> Begun:
        match message.outgoing:
            case Proposal():
                return await self._begin_as_proposed(message, message.outgoing)
            case Passthrough() | NothingSent():
                return await self._begin_unplanned(message, None)
            case Fallback():
                return await self._begin_unplanned(message, message.outgoing)
            case Continuation():
                return await self._begin_continuation(message, message.outgoing)
            case _:
                assert_never(message.outgoing)

    async def _begin_as_proposed(self, message: Begin, proposal: Proposal) -> Begun:
        gathered = self._find_gathered(message) or await self._plan(message.request, message.gap)
        if gathered.planned.turn is None or gathered.planned.body != proposal.body:
            raise Outdated("the session changed meanwhile; plan the upstream request again.")
        return await self._begin_planned(message, gathered.reading, gathered.opening, gathered.planned)

    def _find_gathered(self, message: Begin) -> _Gathered | None:
        """The plan made for this request by ``Prepare``, if nothing happened since."""
        gathered = self._gathered.pop(message.request.correlation_id, None)
        if gathered is None or gathered.version != self.state.version or message.gap is not None:
            return None
        return gathered

    async def _begin_continuation(self, message: Begin, outgoing: Continuation) -> Begun:
        """Begin an unplanned turn. If the session changed meanwhile, its branch does not continue from it."""
        reading, opening = await self._gather(message.request, message.gap)
        planned = await self.rounds.plan_continuation(opening)
        if planned is None or planned.body != outgoing.body:
            return await self._begin_unplanned(message, Fallback(outgoing.body, rounds.NO_ANSWER))
        return await self._begin_planned(message, reading, opening, attrs.evolve(planned, noted=_inputs_of(outgoing)))

    async def _begin_planned(
        self, message: Begin, reading: TranscriptReading, opening: Opening, planned: Planned
    ) -> Begun:
        """Begin a turn with a body of the proxy's, from which its branch continues."""
        began, turn = opening.began, planned.turn
        assert turn is not None
        address = began.address
        more = (*self._record_inputs(opening, planned.noted), *planned.more)
        before = (*planned.events, *more)
        known = self._memory.known.union(digest for digest, _ in reading.contents)
        round_, contents, sent = await self.rounds.outgoing(
            address, turn, planned.body, self._memory.preview(before), opening.at, known
        )
        ticket = await self._append_all(
            ((planned.events, BeginTurn.__name__), ((*more, *round_), Begin.__name__)),
            message.request.correlation_id,
            (*reading.contents, *planned.contents, *contents),
        )
        version = self.state.version - len(more) - len(round_)
        self._hold(began, reading.transcript, version, message.request)
        self.rounds.hold(address, turn)
        self._keep_sent(address, sent)
        return Begun(address, ticket, account_of(message.request.headers, reading.transcript))

    async def _begin_unplanned(self, message: Begin, fallback: Fallback | None) -> Begun:
        """Begin a turn with the client's own body, or one that the actor did not make."""
        request = message.request
        gathered = self._find_gathered(message)
        if gathered is not None:
            reading, opening = gathered.reading, gathered.opening
        else:
            reading, opening = await self._gather(request, message.gap)
        began = opening.began
        address = began.address
        version = self.state.version + len(opening.events)
        fallback_events: tuple[Event, ...] = ()
        contents: Contents = ()
        is_read = opening.read.opaque is None  # otherwise no history can continue from it
        if fallback is not None and opening.branch.mode is Mode.OBSERVE and opening.is_last and is_read:
            return await self._begin_bypassed(message, reading, opening, fallback)
        if fallback is not None:
            fallback_events, contents = await self._fallback(address, version, opening, fallback)
        was_sent = not isinstance(message.outgoing, NothingSent)
        mode = rounds.mode_without_us(opening) if was_sent else None
        modes = decide(mode, opening.session)
        noted = _inputs_of(message.outgoing, waits=opening.branch.late)
        is_asked = noted != InputsSoFar() or rounds.depends_on_settings(opening)  # else only for the client's own bytes
        inputs = self._record_inputs(opening, noted) if is_asked else ()
        more = (*inputs, *modes, *fallback_events)
        ticket = await self._append_all(
            ((opening.events, BeginTurn.__name__), (more, Begin.__name__)),
            request.correlation_id,
            (*reading.contents, *contents),
        )
        self._hold(began, reading.transcript, version, request)
        return Begun(address, ticket, account_of(message.request.headers, reading.transcript))

    async def _begin_bypassed(
        self, message: Begin, reading: TranscriptReading, opening: Opening, fallback: Fallback
    ) -> Begun:
        """Begin a turn of an observed branch for which a fallback was sent; the branch continues from that."""
        command = SetMode(at=opening.at, branch=opening.branch.name, mode=Mode.BYPASS, why=fallback.why)
        planned = Planned(
            events=opening.events,
            more=decide(command, opening.session),
            turn=self.rounds.bypass(opening),
            body=fallback.body,
            noted=_inputs_of(message.outgoing),
        )
        return await self._begin_planned(message, reading, opening, planned)

    def _record_inputs(self, opening: Opening, noted: InputsSoFar) -> tuple[Event, ...]:
        """The decision inputs to record for an upstream request."""
        tariff = rounds.tariff_of(opening).name
        settings = attrs.evolve(opening.settings, tariff=tariff, models=catalogue.in_force().digest)
        taken = decision_inputs.record_settings(settings, opening.default, opening.session.taken, opening.at)
        return (*taken, *decision_inputs.record_inputs(noted, opening.began.address, 1, opening.at, opening.wanted))

    async def _fallback(
        self, address: Address, version: int, opening: Opening, fallback: Fallback
    ) -> tuple[tuple[Event, ...], Contents]:
        """Record a body that is neither the client's own (event ``version``) nor an upstream history."""
        read = attrs.evolve(opening.read, recipe=opening.branch.body)
        own = opening.is_last  # otherwise the client's own body is not available as a base
        before, known = read if own else None, self._memory.known
        reading = await read_in_thread(fallback.body, before, conversation=opening.branch.conversation, known=known)
        sent = reading.transcript
        command = SendFallback(
            at=opening.at,
            **attrs.asdict(address),
            base=version if own else 0,
            body=recipe.encode(reading.change),
            size=len(fallback.body),
            sha256=sent.sha256,
            stored_sha256=sent.stored_sha256 if sent.stored_sha256 != sent.sha256 else None,
            why=fallback.why,
        )
        return decide(command, opening.session), reading.contents

    def _hold(self, began: TurnBegan, read: Transcript, version: int, request: ArrivedRequest) -> None:
        """Keep the client's body, which the event with this version recorded, and report its client and its prompt."""
        self._memory.hold(began, read, request.credential)
        if self._client_keys is not None and began.relation is not TurnRelation.REPEATS:
            self._client_keys.note(self.identity.stream, request.headers, request.dialect.name, began.model)
        if self._knowledge_source is not None and request.client not in self._clients:
            self._clients.add(request.client)
            self._knowledge_source.observe(self.identity, request.client)
        if self._knowledge_source is not None and began.attempt == 1 and began.opaque is None:
            self._report_prompt(self._knowledge_source, began, read, request)
        self._deferred.keep_sent(version, read)
        if self._orders is not None and self._last is not None:
            self._orders.note_request(began, read, request.client, self._last)

    def _report_prompt(
        self, source: KnowledgeSource, began: TurnBegan, read: Transcript, request: ArrivedRequest
    ) -> None:
        """Report a prompt of the user's conversation that asks to remember something."""
        branch = self.state.branches[began.branch]
        if not branch.is_interactive or read.fields.has_output_format:
            return
        place = Provenance(session=self.identity.stream, branch=began.branch, turn=began.turn)
        prompt = read_prompt(read, began.submitted, place)
        wanted = find_remembered(prompt.text, source.words) if prompt is not None else None
        if prompt is not None and wanted is not None:
            folder = project_of_transcript(read)
            source.obey(self.identity.tenant, request.client, folder, wanted, prompt)

    def _keep_sent(self, address: Address, sent: Transcript) -> None:
        """Keep the body that the last event recorded."""
        turn = self.rounds.under_way(address)
        if turn is not None:
            self.rounds.go_on(address, turn, sent)
        self._deferred.keep_sent(self.state.version, sent)

    # Rounds

    async def _answer(self, message: AnswerCalls) -> UpstreamPlan:
        over = await self.rounds.answer(message)
        if over.turn is None:
            raise NotFound(f"turn {message.address.turn} of branch {message.address.branch} is not running.")
        return await self._round_over(message, over)

    async def _refuse(self, message: Refused) -> UpstreamPlan:
        return await self._round_over(message, await self.rounds.refuse(message))

    async def _round_over(self, message: AnswerCalls | Refused, over: RoundOver) -> UpstreamPlan:
        ticket = None
        if over.turn is not None:
            ticket = await self._append(over.events, type(message).__name__, message.correlation_id, over.contents)
            self.rounds.hold(message.address, over.turn)
        return self._propose(message.address, ticket, more=over.more)

    def _propose(self, address: Address, ticket: Ticket | None, *, more: bool) -> UpstreamPlan:
        turn, attempt = self.rounds.under_way(address), address.attempt
        if turn is None or not more:
            return UpstreamPlan(None, ticket)
        proposal = Proposal(version=self.state.version, body=turn.body(attempt), turn=turn, attempt=attempt)
        return UpstreamPlan(proposal, ticket)

    async def _next_round(self, message: NextRound) -> Ticket | None:
        turn = await self.rounds.turn_of(message.address, message.request)
        if turn is None:
            raise NotFound(f"turn {message.address.turn} of branch {message.address.branch} is not running.")
        if turn.body(message.address.attempt) != message.body:
            raise Outdated("another process had just written to the session; the round cannot be recorded as proposed.")
        before = self._memory.preview(turn.happens)
        events, contents, sent = await self.rounds.outgoing(
            message.address, turn, message.body, before, message.at, self._memory.known
        )
        ticket = await self._append(
            (*turn.happens, *events), NextRound.__name__, message.correlation_id, (*turn.contents, *contents)
        )
        self._keep_sent(message.address, sent)
        return ticket

    # A turn ends

    async def _finish(self, message: Finish) -> Ticket | None:
        # A turn without memory tools has one round, which is the client's.
        last = message.last or (RoundEnd(reply=message.reply) if message.status == 200 else None)
        over = NOTHING if last is None else await self.rounds.finish(message.address, last, message.at)
        reply, more = transcript.store_reply(message.reply.body, self._memory.known)
        self._memory.bodies.hold_stored(reply, message.reply.body)
        return await self._end(message, _finish(message, reply), over, more)

    async def _interrupt(self, message: Interrupt) -> Ticket | None:
        if message.reply is None:
            return await self._end(message, _interrupt(message, None), NOTHING, ())
        reply, contents = transcript.store_reply(message.reply.body, self._memory.known)
        return await self._end(message, _interrupt(message, reply), NOTHING, contents)

    async def _end(
        self,
        message: Finish | Interrupt,
        command: FinishTurn | InterruptTurn,
        last: RoundOver,
        contents: Contents,
    ) -> Ticket | None:
        decided = decide(command, self._memory.preview(last.events))
        ticket = None
        if last.events or decided:
            groups = ((last.events, type(message).__name__), (decided, type(command).__name__))
            ticket = await self._append_all(groups, message.correlation_id, (*last.contents, *contents))
        if last.turn is not None:
            self.rounds.hold(message.address, last.turn)
        self.rounds.over(message.address)
        await self._deferred.account_at_once(partial(self._append_deferred, may_wait=False))
        return ticket

    async def _record_help(self, done: HelperDone) -> Ticket | None:
        """Record a helper's work and its effect on objects. A command that decides nothing now has come too late. No
        work on content that was forgotten meanwhile is recorded.
        """
        await self._apply_edits()
        if done.generation != self.state.memory.generation:
            return None
        effects, _ = objects.decide_all(done.effect.commands, self.state.memory)
        contents = tuple(each for each in done.effect.contents if each[0] not in self._memory.known)
        decided = (
            (decision_inputs.decide(done.work), RecordWork.__name__),
            (effects, HelperDone.__name__),
        )
        # The worker waits for this while it does the next orders: they become durable in one batch.
        ticket = await self._append_all(decided, done.correlation_id, contents, may_wait=True)
        if self._orders is not None and effects:
            self._orders.note_made(done.effect.commands, ticket)
        return ticket

    async def _close(self, message: End) -> Ticket | None:
        await self._apply_edits()
        ended = decide(EndSession(at=message.at, closed=True), self.state)
        return await self._append(ended, EndSession.__name__, message.correlation_id) if ended else None

    async def _apply_edits(self) -> None:
        """Apply a person's edits, which any process may have appended meanwhile. Otherwise the next append would
        conflict with them, and this actor would stop without its pending work, such as a closed session's summary.
        """
        if self._last is not None and not self._last.settled:
            return
        await self.stop_if_refused()
        with suppress(LogUnavailable):
            new = await self._log.read(self.identity.stream, after=self.state.version)
            if all(actor_of(each) is Actor.USER for each in new):
                await self._memory.note_all([each.envelope.event for each in new])

    # Appending

    async def _append_deferred(
        self, events: Sequence[Event], command: str, contents: Contents, *, may_wait: bool = True
    ) -> None:
        # A message that arrives ends only the wait for a thread.
        with trio.CancelScope(shield=not self._scope.cancel_called):
            await self._append_all(((tuple(events), command),), self._correlation, contents, may_wait=may_wait)

    async def _append(
        self, events: tuple[Event, ...], command: str, correlation_id: str, contents: Contents = ()
    ) -> Ticket:
        return await self._append_all(((events, command),), correlation_id, contents)

    async def _append_all(
        self,
        decided: Sequence[tuple[tuple[Event, ...], str]],
        correlation_id: str,
        contents: Contents,
        *,
        may_wait: bool = False,
    ) -> Ticket:
        """Queue events, grouped by the command that caused them, and evolve the state at once. ``may_wait``: no caller
        waits, so the append may be batched with others.
        """
        await self.stop_if_refused()
        self._correlation = correlation_id
        envelopes = tuple(Envelope(event, correlation_id, command) for events, command in decided for event in events)
        stored = tuple(Content(digest, data) for digest, data in dict(contents).items())
        append = Append(self.identity.stream, self.state.version, envelopes, stored, may_wait=may_wait)
        self._last, self._last_may_wait = self._journal.submit(append), may_wait
        happened = [event for events, _ in decided for event in events]
        await self._memory.note_all(happened)
        for event in happened:
            if isinstance(event, EpochBegan) and self._orders is not None:
                self._orders.note_rewrite(event.branch, self._last)
        return self._last

    async def _stop_if_outdated(self) -> None:
        """Stop and raise VersionConflict if another process has written to the session. An append would detect that
        itself; a passthrough request is not appended before it is sent.
        """
        if self._last is not None:
            await _wait_for_outcome(self._last)
            await self.stop_if_refused()
        if await self._log.read(self.identity.stream, after=self.state.version):
            self.stop()
            raise VersionConflict("another process has written to the session")

    async def stop_if_refused(self) -> None:
        """Stop and raise VersionConflict if the last append failed for any reason: the state includes events that never
        happened, and another writer may have advanced the stream to exactly the version that the next append expects.
        """
        if self._last is not None and self._last.settled:
            try:
                await self._last.durable()
            except LogFailed as error:
                self.stop()
                raise VersionConflict(f"an append before this one failed: {error}") from None


async def _wait_for_outcome(ticket: Ticket) -> None:
    """Wait until an append is settled, and ignore its outcome: its caller gets it, and so does the next message."""
    with suppress(LogFailed):
        await ticket.durable()


def _inputs_of(outgoing: Outgoing, *, waits: bool = False) -> InputsSoFar:
    """The decision inputs of a request that the actor did not plan. ``waits``: its branch could have become managed
    with it.
    """
    match outgoing:
        case Continuation():
            return InputsSoFar(late=(Awaited.ACTOR,))
        case Passthrough(late=True) if waits:
            return InputsSoFar(late=(Awaited.ACTOR,))
        case NothingSent():
            return InputsSoFar(late=(Awaited.LEAVING,))
        case _:
            return InputsSoFar()


def _finish(message: Finish, reply: bytes) -> FinishTurn:
    client_reply = message.reply
    return FinishTurn(
        at=message.at,
        **attrs.asdict(message.address),
        status=message.status,
        reply=reply,
        message_id=sanitize.optional_text(client_reply.message_id),
        model=sanitize.optional_text(client_reply.model),
        stop_reason=sanitize.optional_text(client_reply.stop_reason),
        error_type=sanitize.optional_text(client_reply.error_type),
        usage=sanitize.facts(client_reply.usage),
        limits=message.limits,
        first_byte=message.first_byte,
    )


def _interrupt(message: Interrupt, reply: bytes | None) -> InterruptTurn:
    return InterruptTurn(
        at=message.at,
        **attrs.asdict(message.address),
        status=message.status,
        reply=reply,
        reason=sanitize.text(message.reason),
        usage=sanitize.facts(message.reply.usage) if message.reply else {},
        limits=message.limits,
        first_byte=message.first_byte,
    )
