"""Records one turn: tells the session's actor, waits for durability as long as that is right, and heals what failed.

A turn never waits longer than ``Patience.database`` for it. What was asked stays queued, in order, and becomes durable
when the database is back; only where that is impossible is the turn counted as a gap.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import cached_property

import attrs
import trio

from mnemosyne.actors.messages import Answer, Begin, Begun, Due, Finish, Identity, Interrupt, Message
from mnemosyne.actors.round_messages import Upstream
from mnemosyne.actors.session_registry import SessionRegistry
from mnemosyne.domain.session.decide import Gap
from mnemosyne.domain.session.state import Address
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.errors import ActorStopped, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)

ATTEMPTS = 10
"""How often a command is told, when each time another process has just written to the session."""

FIRST_PAUSE = 0.005
"""Seconds before the third attempt, doubled before each further one: whoever has to read the log again before each
attempt would else always come too late.
"""


class TurnRecorder:
    """The log of one turn (http.relay.TurnLog). Its waiting is bounded; its recording goes on in ``nursery``."""

    def __init__(
        self,
        registry: SessionRegistry,
        nursery: trio.Nursery,
        begin: Begin,
        identify: Callable[[Begin], Identity],
        now: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._nursery = nursery
        self._begin = begin
        self._identify = identify
        self._now = now
        self._started = False
        self._begun = trio.Event()
        self._address: Address | None = None

    @cached_property
    def _identity(self) -> Identity:
        # Looked for in the recording's own task: a long body takes milliseconds, and the request shall not wait for it.
        return self._identify(self._begin)

    # What the relay calls

    def sent(self) -> None:
        if not self._started:
            self._started = True
            self._nursery.start_soon(self._record_begin)

    async def begun(self) -> None:
        self.sent()
        await self._patiently(self._begun.wait)

    async def finished(self, head: ReplyHead, reply: Reply) -> None:
        at = self._now()
        await self._record_end(
            lambda address: Finish(
                at=at, address=address, status=head.status, reply=reply, correlation_id=self._begin.correlation_id
            )
        )

    async def interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None:
        at = self._now()
        await self._record_end(
            lambda address: Interrupt(
                at=at,
                address=address,
                status=head.status if head else None,
                reply=reply,
                reason=reason,
                correlation_id=self._begin.correlation_id,
            )
        )

    # How it is done

    async def _record_begin(self) -> None:
        gap: Gap | None = None
        try:
            gap = self._registry.take_gap(self._identity.stream)
            await self._tell(attrs.evolve(self._begin, gap=gap))
            gap = None
        except MnemosyneError as error:
            self._unrecorded(str(error))
        except Exception:
            log.exception("recording failed")
            self._unrecorded("an error of ours; see the server's log")
        finally:
            if gap is not None:
                self._registry.note_gap(self._identity.stream, gap)
            self._begun.set()

    def _unrecorded(self, reason: str) -> None:
        self._address = None
        log.warning("a turn of session %s is not recorded: %s", self._identity.stream, reason)
        self._registry.note_gap(self._identity.stream, Gap(since=self._begin.at, turns=1, reason=reason))

    async def _record_end(self, message: Callable[[Address], Message]) -> None:
        self.sent()  # a request that could not leave is a turn, too
        done = trio.Event()
        self._nursery.start_soon(self._tell_end, message, done)
        await self._patiently(done.wait)

    async def _tell_end(self, message: Callable[[Address], Message], done: trio.Event) -> None:
        try:
            await self._begun.wait()
            if self._address is not None:
                await self._tell(message(self._address))
        except MnemosyneError as error:
            log.warning("the end of a turn of session %s is not recorded: %s", self._identity.stream, error)
        except Exception:
            log.exception("recording failed")
        finally:
            done.set()

    async def _tell(self, message: Message) -> None:
        """Tell the actor and wait until it is durable; after a conflict, tell the one that has read the log again."""
        for attempt in range(1, ATTEMPTS + 1):
            if attempt > 2:
                await trio.sleep(FIRST_PAUSE * 2 ** (attempt - 3))
            actor, asked = self._registry.ask(self._identity, message)
            try:
                answer = await asked.wait()
                self._heard(answer)
                await self._durable(answer)
                return
            except (VersionConflict, ActorStopped):
                self._registry.discard(self._identity.stream, actor)
                if attempt == ATTEMPTS or not self._may_repeat(message):
                    raise

    def _may_repeat(self, message: Message) -> bool:
        """Whether what could not be recorded may be told to another actor."""
        return True

    def _heard(self, answer: Answer) -> None:
        """The actor has answered; what it says is not durable yet."""
        if isinstance(answer, Begun):
            self._address = answer.address

    async def _durable(self, answer: Answer) -> None:
        match answer:
            case None | Due():
                return
            case Begun():
                await answer.ticket.durable()
            case Upstream():
                if answer.ticket is not None:
                    await answer.ticket.durable()
            case _:
                await answer.durable()

    async def _patiently(self, wait: Callable[[], Awaitable[object]]) -> None:
        seconds = self._registry.patience.database
        with trio.move_on_after(seconds) as scope:
            await wait()
        if scope.cancelled_caught:
            log.warning("the database takes longer than %g s; the turn goes on", seconds)
