"""The protocol between a worker and its server."""

import pickle
from binascii import b2a_base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import attrs
import pytest
import trio
import trio.testing

from mnemosyne.actors.helper_work import HelperRequest
from mnemosyne.actors.messages import HelperDone, Identity
from mnemosyne.app.helping import RemoteSessions
from mnemosyne.app.worker_link import Line, WorkerStatus, answer_worker
from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.helper.answer import HelperPassage, HelperQuestion
from mnemosyne.domain.helper.background import Effect
from mnemosyne.domain.helper.model import ClientKey
from mnemosyne.domain.helper.summarize import SUMMARIZE, order_form
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.objects.work import DeferredSummary
from mnemosyne.domain.session.input_events import GroundedSentence, HelperAnswer
from mnemosyne.errors import LogUnavailable, MnemosyneError, NotFound, VersionConflict
from tests.actors.summaries import worked

WHO = Identity(stream=UUID(int=1), tenant="local", external_id="s\u2028\n1")
PENDING = DeferredSummary(
    object="o1",
    fidelity=Fidelity.COMPACT,
    kind=next(iter(KINDS)),
    source_tool=None,
    source_key="src/\u00e4.py",
    content=bytes(range(256)),
    by_user=(0, 2),
    detailed=b"\0" * 32,
    lost=Losses(dropped=("a",), lost={"path": 2}),
    size=12_345,
    estimator=Estimator.of("claude-opus-5-5"),
)
COMMAND = Summarize(
    at=7,
    object="o1",
    fidelity=Fidelity.DETAILED,
    text=b"\1" * 32,
    size=5,
    tokens=2,
    helper="h",
    losses=Losses(dropped=("a",), lost={"path": 2}),
    nanodollars=3,
)
TEXT = "l\u00e4nger\n".encode() * 10_000
DONE = HelperDone(
    work=worked("o1"), effect=Effect(commands=(COMMAND,), contents=((COMMAND.text, TEXT),)), correlation_id="c"
)
REQUEST = HelperRequest(WHO, order_form(PENDING, SUMMARIZE))

KEY = ClientKey(key="sk-of-a-client", dialect="messages", model="m")
QUESTION = HelperQuestion(
    question="wie viele\n?",
    passages=(HelperPassage(object="o1", start=12, name="#o1 file_context, turn 3", text="größer\u2028\n"),),
)
ANSWER = HelperAnswer(
    helper="openai:small",
    sentences=(GroundedSentence(text="Zwanzig.", object="o1", start=12, end=15),),
    dropped=2,
    nanodollars=3,
)


def framed(message: object) -> bytes:
    return b2a_base64(pickle.dumps(message))


@attrs.define
class Sessions:
    """Sessions that record the calls of a worker."""

    asked: list[object] = attrs.field(factory=list)
    failure: Exception | None = None
    change: trio.Event = attrs.field(factory=trio.Event)

    async def wait_for_order(self) -> HelperRequest:
        await self.change.wait()
        return REQUEST

    async def tell(self, identity: Identity, done: HelperDone | None) -> bool:
        self.asked.append((identity, done))
        if self.failure is not None:
            raise self.failure
        return True

    async def wait_for_question(self) -> tuple[int, HelperQuestion, ClientKey | None]:
        return 7, QUESTION, KEY

    async def deliver_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        self.asked.append((number, answer))
        return answer is not None


@attrs.frozen
class Linked:
    sessions: Sessions
    remote: RemoteSessions
    status: WorkerStatus
    out: trio.abc.SendStream
    """The worker's end, for raw bytes."""
    ended: trio.Event


@asynccontextmanager
async def linked() -> AsyncIterator[Linked]:
    server, worker = trio.testing.memory_stream_pair()
    sessions, ended = Sessions(), trio.Event()
    remote, status = RemoteSessions(Line(worker, worker)), WorkerStatus()

    async def answer() -> None:
        await answer_worker(Line(server, server), sessions, status)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(remote.run)
        nursery.start_soon(answer)
        yield Linked(sessions, remote, status, worker.send_stream, ended)
        nursery.cancel_scope.cancel()


async def test_questions_and_answers_arrive_unchanged() -> None:
    async with linked() as link:
        assert await link.remote.wait_for_question() == (7, QUESTION, KEY)
        assert await link.remote.deliver_answer(7, ANSWER)
        assert not await link.remote.deliver_answer(8, None)
        assert link.sessions.asked == [(7, ANSWER), (8, None)]


async def test_waiting_for_an_order_does_not_block_other_messages() -> None:
    async with linked() as link, trio.open_nursery() as nursery:
        received: list[HelperRequest] = []

        async def wait() -> None:
            received.append(await link.remote.wait_for_order())

        nursery.start_soon(wait)
        assert await link.remote.tell(WHO, DONE)
        assert link.sessions.asked == [(WHO, DONE)]
        assert received == []
        link.sessions.change.set()
    assert received == [REQUEST]


@pytest.mark.parametrize(
    ("failure", "seen"), [(VersionConflict("v"), LogUnavailable), (LogUnavailable("l"), LogUnavailable)]
)
async def test_temporary_failures_are_distinguished(failure: MnemosyneError, seen: type[MnemosyneError]) -> None:
    async with linked() as link:
        link.sessions.failure = failure
        with pytest.raises(seen, match=str(failure)):
            await link.remote.tell(WHO, DONE)
        link.sessions.failure = NotFound("no such session")
        with pytest.raises(MnemosyneError, match="no such session") as caught:
            await link.remote.tell(WHO, DONE)
        assert not isinstance(caught.value, LogUnavailable)


async def test_an_internal_error_does_not_end_the_link(caplog: pytest.LogCaptureFixture) -> None:
    async with linked() as link:
        link.sessions.failure = ZeroDivisionError("a bug")
        with pytest.raises(MnemosyneError, match="an internal error"):
            await link.remote.tell(WHO, DONE)
        link.sessions.failure = None
        assert await link.remote.tell(WHO, DONE)
    assert "a bug" in caplog.text


async def test_a_heartbeat_reports_that_the_worker_began_and_leads() -> None:
    async with linked() as link:
        assert not link.status.began
        await link.remote.beat(True)
        await trio.testing.wait_all_tasks_blocked()
        assert (link.status.began, link.status.leads) == (True, True)


@pytest.mark.parametrize("data", [b"nothing\n", b"\xff\xfe\n", b"\n", framed({"no": "message"})])
async def test_an_unknown_message_ends_the_link(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with linked() as link:
        await link.out.send_all(data)
        await link.ended.wait()
    assert "sent an unknown message" in caplog.text


async def test_only_the_methods_for_workers_can_be_called() -> None:
    async with linked() as link:
        with pytest.raises(MnemosyneError, match="cannot call __init__"):
            await link.remote.call("__init__")
