"""The connection between a server and its worker over the worker's stdin and stdout.

The worker calls methods of ``helping.ServedSessions`` and the server answers, even when the worker asks for a turn's
question to a helper model. So a worker that is slow, hangs or dies delays only a turn that waits for its answer, up to
the turn's own time limit. For the worker see ``worker.py``, for its supervision ``supervising.py``.

Both processes run the same code as the same user, so messages are pickled: one line of base64 for each.
"""

import logging
import os
import pickle
from binascii import a2b_base64, b2a_base64
from collections.abc import AsyncIterator
from typing import Any

import attrs
import trio

from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""Interval of the worker's heartbeats."""

LATER = (LogUnavailable, VersionConflict, ActorStopped)
"""Temporary failures: the request itself is valid."""

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)
"""Errors that mean that the other side has ended."""

OF_SESSIONS = frozenset({"wait_for_order", "drop_lost_orders", "tell", "wait_for_question", "deliver_answer"})
"""The methods of ``helping.ServedSessions``."""


@attrs.frozen
class Beat:
    """A heartbeat; ``leads``: this worker is the active one and not standing by."""

    leads: bool


@attrs.frozen
class WorkerCall:
    """A call of a method of ``ServedSessions``. Answered by WorkerAnswer."""

    number: int
    method: str
    arguments: tuple[Any, ...]


@attrs.frozen
class WorkerAnswer:
    """The result of a call, or the reason of its failure; ``later``: a retry may succeed."""

    number: int
    value: Any = None
    failure: str | None = None
    later: bool = False


class BrokenMessage(MnemosyneError):
    """The other side sent something else than a message."""


class Line:
    """One end of the connection: sends and receives messages."""

    def __init__(self, out: trio.abc.SendStream, into: trio.abc.ReceiveStream) -> None:
        self._out = out
        self._into = into
        self._sending = trio.Lock()

    async def send(self, message: Beat | WorkerCall | WorkerAnswer) -> None:
        """Send a message. Raises trio.BrokenResourceError if the other side has ended."""
        line = b2a_base64(pickle.dumps(message))
        async with self._sending:
            await self._out.send_all(line)

    async def messages(self) -> AsyncIterator[Beat | WorkerCall | WorkerAnswer]:
        """Yield messages until the other side ends. Raises BrokenMessage."""
        held = bytearray()
        async for data in self._into:
            held += data
            if b"\n" in data:
                *lines, held = held.split(b"\n")
                for line in lines:
                    yield _load(line)


def stdio_line() -> Line:
    """Return a line over the original stdin and stdout; redirect further output to stderr."""
    into, out = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    return Line(trio.lowlevel.FdStream(out), trio.lowlevel.FdStream(into))


def _load(line: bytearray) -> Beat | WorkerCall | WorkerAnswer:
    try:
        message = pickle.loads(a2b_base64(line, strict_mode=True))
    except Exception as error:
        raise BrokenMessage(f"a message cannot be read: {type(error).__name__}") from None
    if not isinstance(message, Beat | WorkerCall | WorkerAnswer):
        raise BrokenMessage(f"{type(message).__name__} is no message")
    return message


class Remote:
    """The calling end of a connection. ``run`` receives the answers, or another reader passes them to ``note``."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._numbers = 0
        self._has_ended = False
        self._waiting: dict[int, tuple[trio.Event, list[WorkerAnswer]]] = {}

    async def run(self) -> None:
        """Receive answers until the other side ends."""
        async for message in self._line.messages():
            self.note(message)

    def note(self, message: object) -> None:
        """Give an answer to the call that waits for it."""
        if isinstance(message, WorkerAnswer) and message.number in self._waiting:
            answered, answer = self._waiting[message.number]
            answer.append(message)
            answered.set()

    def end(self) -> None:
        """Fail all calls from now on, because the other side has ended."""
        self._has_ended = True
        for number in self._waiting:
            self.note(WorkerAnswer(number, failure="the process has ended", later=True))

    async def beat(self, leads: bool) -> None:
        """Send a heartbeat."""
        await self._send(Beat(leads))

    async def _send(self, message: Beat | WorkerCall) -> None:
        try:
            await self._line.send(message)
        except _GONE:
            await trio.sleep_forever()  # this process ends as soon as that is detected, or cancels its calls

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the other side. Raises LogUnavailable if a retry may succeed, else MnemosyneError."""
        if self._has_ended:
            raise LogUnavailable("the process has ended")
        self._numbers += 1
        number, answered, answers = self._numbers, trio.Event(), list[WorkerAnswer]()
        self._waiting[number] = answered, answers
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, WorkerCall(number, method, arguments))
                await answered.wait()
                nursery.cancel_scope.cancel()
        finally:
            del self._waiting[number]
        (answer,) = answers
        if answer.failure is not None:
            raise (LogUnavailable if answer.later else MnemosyneError)(answer.failure)
        return answer.value


async def answer_worker(
    line: Line,
    sessions: object,
    status: "WorkerStatus",
    called: frozenset[str] = OF_SESSIONS,
    remote: Remote | None = None,
) -> None:
    """Run the server's end: answer the calls of the methods ``called`` of ``sessions`` until the other side ends or
    sends something else. ``remote`` gets the answers to calls in the other direction.
    """
    async with trio.open_nursery() as nursery:
        try:
            async for message in line.messages():
                status.note(message)
                if isinstance(message, WorkerCall):
                    nursery.start_soon(_answer, line, sessions, message, called)
                elif remote is not None:
                    remote.note(message)
        except BrokenMessage as error:
            log.warning("the worker sent an unknown message: %s", error)
        except _GONE:
            log.debug("the worker has ended in the middle of a message")
        nursery.cancel_scope.cancel()


async def _answer(line: Line, sessions: object, call: WorkerCall, called: frozenset[str]) -> None:
    try:
        if call.method not in called:
            raise MnemosyneError(f"a worker cannot call {call.method}")
        answer = WorkerAnswer(call.number, await getattr(sessions, call.method)(*call.arguments))
    except MnemosyneError as error:
        answer = WorkerAnswer(call.number, failure=str(error), later=isinstance(error, LATER))
    except Exception:
        log.exception("a worker's call could not be answered")
        answer = WorkerAnswer(call.number, failure="an internal error; see the server's log")
    try:
        await line.send(answer)
    except _GONE:
        log.debug("the worker has ended before its answer")


class WorkerStatus:
    """The time of the worker's last message, in trio's time, and whether it leads."""

    def __init__(self) -> None:
        self.at = trio.current_time()
        self.began = False
        """Whether any message has arrived: a start may take long on a busy machine."""
        self.leads = False

    def note(self, message: object) -> None:
        self.at = trio.current_time()
        self.began = True
        if isinstance(message, Beat):
            self.leads = message.leads
