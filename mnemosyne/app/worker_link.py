"""The protocol between a server and its worker over the worker's stdin and stdout: one message per line.

The worker asks and the server answers, even when the worker asks for a turn's question to a helper model. So a worker
that is slow, hangs or dies delays only a turn that waits for its answer, up to the turn's own time limit. For the
worker see ``worker.py``, for its supervision ``supervising.py``.
"""

import logging
from collections.abc import AsyncIterator
from functools import cache
from typing import Protocol

import attrs
import trio

from mnemosyne.actors.composing import WaitingQuestions
from mnemosyne.actors.messages import Identity, SummaryMade
from mnemosyne.actors.summarizing import SummaryRequest, WaitingSummaries
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.recall.composing import HelperQuestion
from mnemosyne.domain.session.decision_inputs import HelperAnswer
from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError, UnknownEvent, VersionConflict

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""Interval of the worker's heartbeats."""


LATER = (LogUnavailable, VersionConflict, ActorStopped)
"""Temporary failures: the request itself is valid."""

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)
"""Errors that mean that the other side has ended."""


@attrs.frozen
class Beat:
    """A heartbeat; ``leads``: this worker is the active one and not standing by."""

    leads: bool


@attrs.frozen
class SummaryWanted:
    """Asks for a summary request of a session. Answered by SummaryFound as soon as there is one."""


@attrs.frozen
class SummaryFound:
    """A summary request whose inputs are all durable."""

    request: SummaryRequest


@attrs.frozen(kw_only=True)
class SummaryOffered:
    """A finished summary (``SummaryMade``). Answered by SummaryTaken."""

    identity: Identity
    command: Summarize
    data: bytes = attrs.field(repr=False)
    correlation_id: str


@attrs.frozen
class SummaryTaken:
    """Whether the summary is recorded now."""

    recorded: bool


@attrs.frozen
class QuestionWanted:
    """Asks for a question to the helper model. Answered by QuestionFound as soon as there is one."""


@attrs.frozen
class QuestionFound:
    """A question to the helper model."""

    number: int
    question: HelperQuestion


@attrs.frozen
class AnswerOffered:
    """The answer to a question, None if no model was asked. Answered by AnswerTaken."""

    number: int
    answer: HelperAnswer | None


@attrs.frozen
class AnswerTaken:
    """Whether the turn still waited, so that the answer's cost will be recorded."""

    recorded: bool


@attrs.frozen
class Failed:
    """A failure; ``later``: a retry may succeed."""

    later: bool
    why: str


_NAMES = {
    "worker.beat.v1": Beat,
    "worker.summary_wanted.v1": SummaryWanted,
    "worker.summary_found.v1": SummaryFound,
    "worker.summary_offered.v1": SummaryOffered,
    "worker.summary_taken.v1": SummaryTaken,
    "worker.question_wanted.v1": QuestionWanted,
    "worker.question_found.v1": QuestionFound,
    "worker.answer_offered.v1": AnswerOffered,
    "worker.answer_taken.v1": AnswerTaken,
    "worker.failed.v1": Failed,
}


@cache
def _codec() -> EventCodec:
    return EventCodec(_NAMES)


class Line:
    """One end of the connection: sends and receives messages, each with the number of its question."""

    def __init__(self, out: trio.abc.SendStream, into: trio.abc.ReceiveStream) -> None:
        self._out = out
        self._into = into
        self._sending = trio.Lock()

    async def send(self, number: str, message: object) -> None:
        """Send a message. Raises trio.BrokenResourceError if the other side has ended, ValueError for an invalid
        message.
        """
        name, state = _codec().encode(Envelope(message, number))
        async with self._sending:
            await self._out.send_all(name.encode() + b" " + state + b"\n")

    async def messages(self) -> AsyncIterator[tuple[str, object]]:
        """Yield messages until the other side ends. Raises UnknownEvent for an unknown message."""
        held = bytearray()
        async for data in self._into:
            held += data
            if b"\n" in data:
                lines = held.split(b"\n")
                held = lines.pop()
                for line in lines:
                    name, _, state = line.partition(b" ")
                    envelope = _codec().decode(name.decode("utf-8", "replace"), bytes(state))
                    yield envelope.correlation_id, envelope.event


class RemoteSessions:
    """The worker's end: the server's pending summaries (summarizing.WaitingSummaries) and questions
    (composing.WaitingQuestions). ``run`` receives the answers.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._numbers = 0
        self._waiting: dict[str, tuple[trio.Event, list[object]]] = {}

    async def run(self) -> None:
        """Receive answers until the server ends."""
        async for number, message in self._line.messages():
            if number in self._waiting:
                answered, answer = self._waiting[number]
                answer.append(message)
                answered.set()

    async def beat(self, leads: bool) -> None:
        """Send a heartbeat."""
        await self._send("", Beat(leads))

    async def wait_for_summary(self) -> SummaryRequest:
        found = await self._ask(SummaryWanted())
        assert isinstance(found, SummaryFound)
        return found.request

    async def tell(self, identity: Identity, made: SummaryMade) -> bool:
        offered = SummaryOffered(
            identity=identity, command=made.command, data=made.data, correlation_id=made.correlation_id
        )
        taken = await self._ask(offered)
        assert isinstance(taken, SummaryTaken)
        return taken.recorded

    async def wait_for_question(self) -> tuple[int, HelperQuestion]:
        found = await self._ask(QuestionWanted())
        assert isinstance(found, QuestionFound)
        return found.number, found.question

    async def deliver_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        taken = await self._ask(AnswerOffered(number, answer))
        assert isinstance(taken, AnswerTaken)
        return taken.recorded

    async def _send(self, number: str, message: object) -> None:
        try:
            await self._line.send(number, message)
        except _GONE:
            await trio.sleep_forever()  # the server has ended, and this process ends as soon as that is detected

    async def _ask(self, question: object) -> object:
        self._numbers += 1
        number, answered, answer = str(self._numbers), trio.Event(), list[object]()
        self._waiting[number] = answered, answer
        try:
            await self._send(number, question)
            await answered.wait()
        finally:
            del self._waiting[number]
        (reply,) = answer
        if isinstance(reply, Failed):
            raise (LogUnavailable if reply.later else MnemosyneError)(reply.why)
        return reply


class ServedSessions(WaitingSummaries, WaitingQuestions, Protocol):
    """Everything that a worker may ask for."""


async def answer_worker(line: Line, sessions: ServedSessions, status: "WorkerStatus") -> None:
    """Run the server's end: answer the worker's questions until it ends or sends an unknown message."""
    async with trio.open_nursery() as nursery:
        try:
            async for number, message in line.messages():
                status.note(message)
                if not isinstance(message, Beat):
                    nursery.start_soon(_answer, line, sessions, number, message)
        except UnknownEvent as error:
            log.warning("the worker sent an unknown message: %s", error)
        except _GONE:
            log.debug("the worker has ended in the middle of a message")
        nursery.cancel_scope.cancel()


async def _answer(line: Line, sessions: ServedSessions, number: str, message: object) -> None:
    try:
        answer = await _answer_of(sessions, message)
    except MnemosyneError as error:
        answer = Failed(isinstance(error, LATER), str(error))
    except Exception:
        log.exception("a worker's question could not be answered")
        answer = Failed(False, "an internal error; see the server's log")
    try:
        await line.send(number, answer)
    except _GONE:
        log.debug("the worker has ended before its answer")


async def _answer_of(sessions: ServedSessions, message: object) -> object:
    match message:
        case SummaryWanted():
            return SummaryFound(await sessions.wait_for_summary())
        case SummaryOffered():
            made = SummaryMade(command=message.command, data=message.data, correlation_id=message.correlation_id)
            return SummaryTaken(await sessions.tell(message.identity, made))
        case QuestionWanted():
            return QuestionFound(*await sessions.wait_for_question())
        case AnswerOffered():
            return AnswerTaken(await sessions.deliver_answer(message.number, message.answer))
        case _:
            raise UnknownEvent(f"{type(message).__name__} is not a question of a worker")


class WorkerStatus:
    """The time of the worker's last message, in trio's time, and whether it leads."""

    def __init__(self) -> None:
        self.at = trio.current_time()
        self.began = False
        """Whether any message has arrived: a start may take long on a busy machine."""
        self.leads = False

    def note(self, message: object) -> None:
        """Note a message."""
        self.at = trio.current_time()
        self.began = True
        if isinstance(message, Beat):
            self.leads = message.leads
