"""What a server and its worker say to each other, over the worker's stdin and stdout: a message a line.

The worker asks and the server answers, also where it asks what a turn has for a helper model. So a worker that is slow,
hangs or dies holds up nobody, but that turn, for as long as it chose. What it does is in ``worker.py``, who starts and
watches it in ``supervising.py``.
"""

import logging
from collections.abc import AsyncIterator
from functools import cache
from typing import Protocol

import attrs
import trio

from mnemosyne.actors.composing import WaitingQuestions
from mnemosyne.actors.messages import Identity, SummaryMade
from mnemosyne.actors.summarizing import WaitingSummaries
from mnemosyne.actors.summary_queue import SummaryRequest
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.recall.composing import HelperQuestion
from mnemosyne.domain.session.decision_inputs import HelperAnswer
from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError, UnknownEvent, VersionConflict

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""How often the worker says that it is there."""


LATER = (LogUnavailable, VersionConflict, ActorStopped)
"""Failures that may not repeat: the request itself is fine."""

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)
"""The other side has ended."""


@attrs.frozen
class Beat:
    """The worker is there; ``leads``: it keeps what is derived, and waits for no other worker."""

    leads: bool


@attrs.frozen
class SummaryWanted:
    """Which summary does a session want? Answered by SummaryFound as soon as one does."""


@attrs.frozen
class SummaryFound:
    """This one, and all that it is made of is durable."""

    request: SummaryRequest


@attrs.frozen(kw_only=True)
class SummaryOffered:
    """A summary was made (``SummaryMade``). Answered by SummaryTaken."""

    identity: Identity
    command: Summarize
    data: bytes = attrs.field(repr=False)
    correlation_id: str


@attrs.frozen
class SummaryTaken:
    """Whether it is on record now."""

    recorded: bool


@attrs.frozen
class QuestionWanted:
    """What is asked of a helper model? Answered by QuestionFound as soon as something is."""


@attrs.frozen
class QuestionFound:
    """This is."""

    number: int
    question: HelperQuestion


@attrs.frozen
class AnswerOffered:
    """What became of a question; None where nobody was asked. Answered by AnswerTaken."""

    number: int
    answer: HelperAnswer | None


@attrs.frozen
class AnswerTaken:
    """Whether its turn still waited, and what it cost will be on record."""

    recorded: bool


@attrs.frozen
class Failed:
    """It could not be done; ``later``: it may be done later."""

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
    """One end: whole messages, each with the number of the question that it belongs to."""

    def __init__(self, out: trio.abc.SendStream, into: trio.abc.ReceiveStream) -> None:
        self._out = out
        self._into = into
        self._sending = trio.Lock()

    async def send(self, number: str, message: object) -> None:
        """Raises trio.BrokenResourceError where nobody is there any more, ValueError for what cannot be sent."""
        name, state = _codec().encode(Envelope(message, number))
        async with self._sending:
            await self._out.send_all(name.encode() + b" " + state + b"\n")

    async def messages(self) -> AsyncIterator[tuple[str, object]]:
        """Until the other side has ended. Raises UnknownEvent for what this version does not know."""
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
    """The worker's end: the sessions of its server (summarizing.WaitingSummaries), and what their turns ask a helper
    (composing.WaitingQuestions). ``run`` hears the answers.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._numbers = 0
        self._waiting: dict[str, tuple[trio.Event, list[object]]] = {}

    async def run(self) -> None:
        """Hear answers until the server has ended."""
        async for number, message in self._line.messages():
            if number in self._waiting:
                answered, answer = self._waiting[number]
                answer.append(message)
                answered.set()

    async def beat(self, leads: bool) -> None:
        """Say that the worker is there."""
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
            await trio.sleep_forever()  # our server is gone, and so are we as soon as that is seen

    async def _ask(self, question: object) -> object:
        self._numbers += 1
        number, answered, answer = str(self._numbers), trio.Event(), list[object]()
        self._waiting[number] = answered, answer
        try:
            await self._send(number, question)
            await answered.wait()
        finally:
            del self._waiting[number]
        (found,) = answer
        if isinstance(found, Failed):
            raise (LogUnavailable if found.later else MnemosyneError)(found.why)
        return found


class ServedSessions(WaitingSummaries, WaitingQuestions, Protocol):
    """All that a worker may ask for."""


async def answer_worker(line: Line, sessions: ServedSessions, heard: "WorkerStatus") -> None:
    """The server's end: answer what the worker asks, until it has ended or cannot be understood."""
    async with trio.open_nursery() as nursery:
        try:
            async for number, message in line.messages():
                heard.note(message)
                if not isinstance(message, Beat):
                    nursery.start_soon(_answer, line, sessions, number, message)
        except UnknownEvent as error:
            log.warning("what the worker says cannot be understood: %s", error)
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
        answer = Failed(False, "an error of ours; see the server's log")
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
            raise UnknownEvent(f"a worker does not ask for {type(message).__name__}")


class WorkerStatus:
    """When the worker was heard of last, in trio's time, and whether it leads."""

    def __init__(self) -> None:
        self.at = trio.current_time()
        self.began = False
        """Whether it was heard of at all: a start may take long on a busy machine."""
        self.leads = False

    def note(self, message: object) -> None:
        """It said something."""
        self.at = trio.current_time()
        self.began = True
        if isinstance(message, Beat):
            self.leads = message.leads
