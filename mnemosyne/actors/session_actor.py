"""One task per session: decide, journal, evolve, answer; one command at a time.

The actor alone knows where its session is. The state evolves as soon as the events are queued, so that several turns
can be under way; should the queued events turn out not to fit the stream (another process wrote to it), the actor is
discarded and the next one reads the log again.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import assert_never

import trio

from mnemosyne.actors.accounting import Accounting
from mnemosyne.actors.appending import Contents
from mnemosyne.actors.changes import Changes
from mnemosyne.actors.mailbox import Asked, Mailbox
from mnemosyne.actors.managed import ManagedBranches
from mnemosyne.actors.messages import (
    Answer,
    Begin,
    Begun,
    Due,
    Finish,
    Identity,
    Interrupt,
    Message,
    Owed,
    Preview,
    Summary,
)
from mnemosyne.actors.patience import USUAL, Patience
from mnemosyne.actors.round_messages import AnswerCalls, Strip, Upstream
from mnemosyne.actors.session_memory import SessionMemory
from mnemosyne.domain.objects import work
from mnemosyne.domain.objects.work import Summarized
from mnemosyne.domain.ports import Append, Content, ContentStore, Envelope, EventLog, Journal, Ticket
from mnemosyne.domain.recall.object_search import ObjectIndex
from mnemosyne.domain.segmentation.ingest import Remember, remember
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decide import Command, FinishTurn, InterruptTurn, decide
from mnemosyne.domain.session.events import Event, TurnBegan
from mnemosyne.domain.session.ledger import AccountTurn, why_to_stop
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Address, Session
from mnemosyne.domain.window.planning import WINDOW
from mnemosyne.domain.wire import stored_reply
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)

WAITING = 64
"""Commands that may wait for one actor. Beyond that, turns go through unrecorded, as a gap."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between attempts to load a session while the database is away."""

LARGE = 1 << 16
"""Bytes of new content from which on they are read in a thread."""

MANY = 200
"""Objects of a branch from which on what a turn changes about them is decided in a thread: at 8,000 that is 10 ms, and
a second where all its episodes are told apart at once.
"""

STOPPED = ActorStopped("the session's actor has stopped.")
OURS = MnemosyneError("an error of ours; see the server's log")


class SessionActor:
    """Owns one session. ``run`` is its task; ``mailbox`` is how others talk to it."""

    def __init__(
        self,
        identity: Identity,
        *,
        event_log: EventLog,
        contents: ContentStore,
        journal: Journal,
        new_salt: Callable[[], bytes],
        changes: Changes | None = None,
        index: ObjectIndex | None = None,
        window: int = WINDOW,
        tool_budget: int | None = None,
        strict: bool = False,
        patience: Patience = USUAL,
    ) -> None:
        find = partial(index.search, identity.stream) if index is not None else None
        self.identity = identity
        self.mailbox: Mailbox[Message, Answer] = Mailbox(WAITING)
        self._log = event_log
        self._journal = journal
        self._memory = SessionMemory(identity, contents, new_salt, window)
        self._managed = ManagedBranches(
            lambda: self.state,
            self._memory.bodies,
            self._append,
            find,
            window,
            tool_budget,
            strict=strict,
            patience=patience,
        )
        self._accounting = Accounting(lambda: self.state)
        self._changes = changes or Changes()
        self._at_work = False
        self._last: Ticket | None = None
        self._begun: tuple[TurnBegan, Transcript, str] | None = None
        self._seen: dict[str, int] = {}
        self._scope = trio.CancelScope()

    @property
    def state(self) -> Session:
        """The session as its events so far tell it."""
        return self._memory.state

    @property
    def busy(self) -> bool:
        """Whether it does something, or has been asked to."""
        return self._at_work or self.mailbox.waiting > 0

    def stop(self) -> None:
        """Take no more commands. Whoever still waits is told to ask the next actor."""
        self._scope.cancel()

    async def run(self) -> None:
        """Load the session, then handle commands until stopped. A bug stops this actor alone."""
        ending: MnemosyneError = OURS
        try:
            with self._scope:
                await self._load()
                ending = STOPPED
                while True:
                    asked = await self.mailbox.next()
                    self._at_work = True
                    await self._handle(asked)
                    await self._remember()
                    await self._managed.obey_tags()
                    await self._account(asked.message)
                    self._at_work = False
        except MnemosyneError as error:
            log.error("session %s cannot be read: %s", self.identity.stream, error)
            ending = error
        except Exception:
            log.exception("the actor of session %s failed; the next request starts another", self.identity.stream)
        finally:
            self.mailbox.close(STOPPED if self._scope.cancel_called else ending)

    # Loading

    async def _load(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                recorded = await self._log.read(self.identity.stream)
                break
            except LogUnavailable:
                await trio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        self._memory.load(recorded)
        for each in recorded:
            self._managed.note(each.envelope.event)  # type: ignore[arg-type]  # the codec of the log knows no others

    # Commands

    async def _handle(self, asked: Asked[Message, Answer]) -> None:
        try:
            asked.answer(await self._do(asked.message))
        except MnemosyneError as error:
            asked.refuse(error)
        except Exception:
            asked.refuse(OURS)  # others who wait may ask the next actor, but this question would stop that, too
            raise

    async def _do(self, message: Message) -> Answer:
        match message:
            case Begin():
                return await self._begin(message)
            case Preview():
                return await self._previewed(message.request)
            case Finish():
                if message.last is not None:
                    await self._managed.finish(message.address, message.last, message.at, message.correlation_id)
                reply, contents = stored_reply.store(message.reply.body, self._memory.known)
                self._memory.hold_reply(reply, message.reply.body)
                return await self._end(_finish(message, reply), message, contents)
            case Interrupt():
                if message.reply is None:
                    return await self._end(_interrupt(message, None), message, ())
                reply, contents = stored_reply.store(message.reply.body, self._memory.known)
                return await self._end(_interrupt(message, reply), message, contents)
            case AnswerCalls():
                return await self._managed.answer(message)
            case Strip():
                return await self._managed.strip(message)
            case Owed():
                return Due(work.due(self.state.memory, message.limit, message.given_up), self._last)
            case Summary():
                return await self._summarized(message)
            case _:
                assert_never(message)

    async def _begin(self, message: Begin) -> Begun:
        command, reading = await self._memory.begin_turn(message)
        events = decide(command, self.state)
        began = events[-1]
        assert isinstance(began, TurnBegan)
        ticket = await self._submit(events, command, message, reading.contents)
        self._memory.hold(began, reading.transcript)
        self._begun = began, reading.transcript, message.correlation_id
        address = Address(began.branch, began.turn, began.attempt)
        if message.offer is None:
            return Begun(address, ticket)
        upstream = await self._upstream(message, events, began, reading.transcript)
        return Begun(address, upstream.ticket or ticket, upstream)

    async def _upstream(
        self, message: Begin, events: tuple[Event, ...], began: TurnBegan, read: Transcript
    ) -> Upstream:
        """What goes upstream. Whatever fails there, the turn is recorded, and the client's own body goes."""
        try:
            return await self._managed.begin(message, events, read)
        except VersionConflict:
            raise  # the turn is not recorded either
        except MnemosyneError as error:
            log.warning("the wire history of session %s cannot be had: %s", self.identity.stream, error)
        except Exception:
            log.exception("turn %d of session %s goes on without its wire history", began.turn, self.identity.stream)
        return Upstream(self.state.branches[began.branch].mode, None)

    async def _previewed(self, request: Begin) -> Upstream:
        """What would go upstream for a request; the client's own body if anything fails here."""
        try:
            command, reading = await self._memory.begin_turn(request)
            events = decide(command, self.state)
            return await self._managed.preview(request, events, reading.transcript)
        except MnemosyneError as error:
            log.warning("the wire history of session %s cannot be had: %s", self.identity.stream, error)
        except Exception:
            log.exception("a request of session %s is counted as its client says it", self.identity.stream)
        return Upstream(Mode.OBSERVE, None)

    async def _remember(self) -> None:
        """Make objects of what the turn brought that has just begun. Nobody waits for that, and no turn fails by it."""
        if self._begun is None:
            return
        (began, read, correlation_id), self._begun = self._begun, None
        try:
            events = await self._remembered(began, read)
            if events:
                await self._append(events, Remember.__name__, correlation_id)
                self._changes.note(self.identity)
        except MnemosyneError as error:
            log.warning("turn %d of session %s is remembered later: %s", began.turn, self.identity.stream, error)
        except Exception:
            log.exception("turn %d of session %s could not be remembered", began.turn, self.identity.stream)

    async def _remembered(self, began: TurnBegan, read: Transcript) -> tuple[Event, ...]:
        def decide() -> tuple[Event, ...]:
            self._accounting.begun(began, read)
            self._lay_out_rounds()
            command = self._memory.remember_turn(began, read)
            return () if command is None else remember(command, self.state)

        new = len(read.raw) - self._seen.get(began.branch, 0)
        self._seen[began.branch] = len(read.raw)
        many = len(self.state.memory.shown(began.branch).objects) >= MANY
        # A long history that is new to us takes seconds, in which other sessions go on.
        return await trio.to_thread.run_sync(decide) if many or new >= LARGE else decide()

    def _lay_out_rounds(self) -> None:
        for address in self._accounting.awaiting:
            self._accounting.sent(address, self._managed.sent(address))

    async def _account(self, message: Message) -> None:
        """Enter what ended into the ledger. Nobody waits for that, and no turn fails by it."""
        try:
            self._lay_out_rounds()
            if not isinstance(message, Finish | Interrupt):
                return
            for event in self._accounting.due():
                deviated = self.state.ledger.deviates
                await self._append((event,), AccountTurn.__name__, message.correlation_id)
                if not deviated and (why := why_to_stop(self.state.ledger)):
                    log.warning("session %s is not to be managed any longer: %s", self.identity.stream, why)
        except MnemosyneError as error:
            log.warning("a turn of session %s is not in its ledger: %s", self.identity.stream, error)
        except Exception:
            log.exception("a turn of session %s could not be accounted", self.identity.stream)

    async def _summarized(self, message: Summary) -> Ticket | None:
        events = work.summarized(message.command, self.state.memory)
        if not events:
            return None
        digest = message.command.text
        contents = () if digest in self._memory.known else ((digest, message.data),)
        return await self._append(events, Summarized.__name__, message.correlation_id, contents)

    async def _end(
        self, command: FinishTurn | InterruptTurn, message: Finish | Interrupt, contents: Contents
    ) -> Ticket | None:
        self._managed.over(command.address)
        events = decide(command, self.state)
        return await self._submit(events, command, message, contents) if events else None

    async def _submit(
        self, events: tuple[Event, ...], command: Command, message: Begin | Finish | Interrupt, contents: Contents
    ) -> Ticket:
        return await self._append(events, type(command).__name__, message.correlation_id, contents)

    async def _append(
        self, events: tuple[Event, ...], command: str, correlation_id: str, contents: Contents = ()
    ) -> Ticket:
        """Queue what happened, and let the state evolve at once."""
        if self._last is not None and self._last.settled:
            # If it failed, the state tells of what never happened, and another writer's events may have brought the
            # stream to the very version that this append would expect.
            await self._last.durable()
        envelopes = tuple(Envelope(event, correlation_id, command) for event in events)
        stored = tuple(Content(digest, data) for digest, data in contents)
        self._last = self._journal.submit(Append(self.identity.stream, self.state.version, envelopes, stored))
        for event in events:
            self._memory.note(event)
            self._managed.note(event)
            self._accounting.note(event)
        return self._last


def _finish(message: Finish, reply: bytes) -> FinishTurn:
    said = message.reply
    return FinishTurn(
        at=message.at,
        address=message.address,
        status=message.status,
        reply=reply,
        message_id=sanitize.optional_text(said.message_id),
        model=sanitize.optional_text(said.model),
        stop_reason=sanitize.optional_text(said.stop_reason),
        error_type=sanitize.optional_text(said.error_type),
        usage=sanitize.facts(said.usage),
    )


def _interrupt(message: Interrupt, reply: bytes | None) -> InterruptTurn:
    return InterruptTurn(
        at=message.at,
        address=message.address,
        status=message.status,
        reply=reply,
        reason=sanitize.text(message.reason),
        usage=sanitize.facts(message.reply.usage) if message.reply else {},
    )
