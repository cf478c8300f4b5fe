"""One task per session: decide, journal, evolve, answer; one command at a time.

The actor alone knows where its session is. The state evolves as soon as the events are queued, so that several turns
can be under way; should the queued events turn out not to fit the stream (another process wrote to it), the actor is
discarded and the next one reads the log again.
"""

import logging
from collections.abc import Callable
from typing import assert_never

import trio

from mnemosyne.actors import storable
from mnemosyne.actors.mailbox import Asked, Mailbox
from mnemosyne.actors.messages import Answer, Begin, Begun, Finish, Identity, Interrupt, Message
from mnemosyne.actors.session_memory import SessionMemory
from mnemosyne.domain import session, stored_reply
from mnemosyne.domain.ports import Append, Content, ContentStore, Envelope, EventLog, Journal, Ticket
from mnemosyne.domain.session import (
    Address,
    Command,
    Event,
    FinishTurn,
    InterruptTurn,
    Session,
    TurnBegan,
)
from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError

log = logging.getLogger(__name__)

WAITING = 64
"""Commands that may wait for one actor. Beyond that, turns go through unrecorded, as a gap."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between attempts to load a session while the database is away."""

STOPPED = ActorStopped("the session's actor has stopped.")
OURS = MnemosyneError("an error of ours; see the server's log")

Contents = tuple[tuple[bytes, bytes], ...]
"""Contents to be stored: (digest, data)."""


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
    ) -> None:
        self.identity = identity
        self.mailbox: Mailbox[Message, Answer] = Mailbox(WAITING)
        self._log = event_log
        self._journal = journal
        self._memory = SessionMemory(identity, contents, new_salt)
        self._last: Ticket | None = None
        self._scope = trio.CancelScope()

    @property
    def state(self) -> Session:
        """The session as its events so far tell it."""
        return self._memory.state

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
                    await self._handle(await self.mailbox.next())
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
            case Finish():
                reply, contents = stored_reply.store(message.reply.body, self._memory.known)
                self._memory.hold_reply(reply, message.reply.body)
                return await self._end(_finish(message, reply), message, contents)
            case Interrupt() if message.reply is None:
                return await self._end(_interrupt(message, None), message, ())
            case Interrupt():
                reply, contents = stored_reply.store(message.reply.body, self._memory.known)
                return await self._end(_interrupt(message, reply), message, contents)
            case _:
                assert_never(message)

    async def _begin(self, message: Begin) -> Begun:
        command, reading = await self._memory.begin_turn(message)
        events = session.decide(command, self.state)
        began = events[-1]
        assert isinstance(began, TurnBegan)
        ticket = await self._submit(events, command, message, reading.contents)
        self._memory.hold(began, reading.transcript)
        return Begun(Address(began.branch, began.turn, began.attempt), ticket)

    async def _end(self, command: FinishTurn | InterruptTurn, message: Message, contents: Contents) -> Ticket | None:
        events = session.decide(command, self.state)
        return await self._submit(events, command, message, contents) if events else None

    async def _submit(
        self, events: tuple[Event, ...], command: Command, message: Message, contents: Contents
    ) -> Ticket:
        """Queue what happened, and let the state evolve at once."""
        if self._last is not None and self._last.settled:
            # If it failed, the state tells of what never happened, and another writer's events may have brought the
            # stream to the very version that this append would expect.
            await self._last.durable()
        envelopes = tuple(Envelope(event, message.correlation_id, type(command).__name__) for event in events)
        stored = tuple(Content(digest, data) for digest, data in contents)
        self._last = self._journal.submit(Append(self.identity.stream, self.state.version, envelopes, stored))
        for event in events:
            self._memory.note(event)
        return self._last


def _finish(message: Finish, reply: bytes) -> FinishTurn:
    said = message.reply
    return FinishTurn(
        at=message.at,
        address=message.address,
        status=message.status,
        reply=reply,
        message_id=storable.optional_text(said.message_id),
        model=storable.optional_text(said.model),
        stop_reason=storable.optional_text(said.stop_reason),
        error_type=storable.optional_text(said.error_type),
        usage=storable.facts(said.usage),
    )


def _interrupt(message: Interrupt, reply: bytes | None) -> InterruptTurn:
    return InterruptTurn(
        at=message.at,
        address=message.address,
        status=message.status,
        reply=reply,
        reason=storable.text(message.reason),
        usage=storable.facts(message.reply.usage) if message.reply else {},
    )
