"""Play tapes: each step takes the path of a server's request, on a clock set to the time of the recording.

Playing waits for no external event: the log is in memory and commits inline, and time advances only between steps. So
the resulting log depends on the tapes alone, not on speed or the number of processors.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import attrs
import trio

from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session_finder import SessionFinder
from mnemosyne.actors.turn import Turn, TurnOpener
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window.rounds import SETTINGS
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import ReplyHead, UpstreamRequest
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.relay import Relay
from tests.plain.directory import PlainDirectory
from tests.plain.log import PlainLog
from tests.replay.tapes import Arrives, Step, Tape, TapedReply

_NEVER = 86_400.0


class RecordedClock(trio.abc.Clock):
    """The clock of Trio and of the application: it shows ``at`` (µs of UTC) until the player moves it."""

    def __init__(self) -> None:
        self.at = 0

    def start_clock(self) -> None:
        """Do nothing."""

    def current_time(self) -> float:
        return self.at / 1_000_000

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0.0 if deadline <= self.current_time() else _NEVER


@attrs.frozen
class Played:
    """The result of a tape: the number of requests (``turns``), and of those that the log does not hold as sent."""

    tape: str
    turns: int
    unlike: int


async def play(
    log: PlainLog,
    tape: Tape,
    clock: RecordedClock,
    mode: Mode = Mode.OBSERVE,
    settings: ServerSettings = SETTINGS,
) -> Played:
    """Record a tape with the application, as a server in this mode would."""
    before = log.committed.position
    sent: list[bytes] = []
    numbers = count(1)
    async with trio.open_nursery() as actors:
        registry = SessionRegistry(
            actors, event_log=log, contents=log, journal=log, new_salt=lambda: tape.salt, settings=settings
        )
        async with trio.open_nursery() as turns:
            new_id = _ids(tape.name, numbers)
            finder = SessionFinder(registry, PlainDirectory(log), tape.tenant)
            opener = TurnOpener(registry, finder, turns, lambda: clock.at, new_id)
            player = _Player(opener, clock, sent, mode)
            for step in tape.steps():
                await player.take(step)
        actors.cancel_scope.cancel()
    began = [each.envelope.event for each in await log.tail(after=before, limit=log.committed.position)]
    logged = [event.sha256 for event in began if isinstance(event, TurnBegan)]
    return Played(tape.name, len(sent), _unlike(sent, logged))


def _ids(name: str, numbers: "count[int]") -> Callable[[], str]:
    return lambda: f"{name}/{next(numbers)}"


def _unlike(sent: list[bytes], logged: list[bytes]) -> int:
    return sum(a != b for a, b in zip(sent, logged, strict=False)) + abs(len(sent) - len(logged))


@attrs.define
class _Player:
    """Plays the steps of one tape."""

    opener: TurnOpener
    clock: RecordedClock
    sent: list[bytes]
    mode: Mode
    turns: dict[str, tuple[Turn, Dialect]] = attrs.field(factory=dict)

    async def take(self, step: Step) -> None:
        match step:
            case Arrives():
                self.clock.at = step.at
                self.sent.append(hashlib.sha256(step.body).digest())
                self.turns[step.key] = await self._arrives(step), step.dialect
            case TapedReply():
                self.clock.at = step.at
                turn, dialect = self.turns.pop(step.key)
                await play_answer(turn, dialect, step)

    async def _arrives(self, step: Arrives) -> Turn:
        turn = self.opener.open_turn(step.headers, step.body, step.dialect, None, self.mode)
        await turn.prepare()
        await turn.note_begun()
        return turn


async def play_answer(turn: Turn, dialect: Dialect, step: TapedReply) -> None:
    """End the turn with the server's own relay, with the tape as provider and a client that reads everything."""
    relay = Relay(_Provider(step), _REQUEST, turn, RelayProgress(), dialect)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay.run)
        async for _ in relay.client.body():
            pass


_REQUEST = UpstreamRequest("POST", b"/v1/messages", (), b"")
"""A placeholder: the turn was opened with the real request, and this one is never read."""


@attrs.frozen
class _Provider:
    """Returns the recorded reply (exchange.Upstream and exchange.UpstreamReply)."""

    step: TapedReply

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator["_Provider"]:
        sent()
        await trio.lowlevel.checkpoint()
        yield self

    @property
    def head(self) -> ReplyHead:
        return self.step.head

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        await trio.lowlevel.checkpoint()
        yield self.step.payload
