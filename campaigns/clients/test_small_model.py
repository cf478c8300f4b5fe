"""A real local server with a small model: a managed client of it goes on beyond its window, and as a helper it does
each task, or its answer is rejected with a reason.

The model is too small for useful answers, and most are rejected. What counts is that nothing else depends on them.
"""

import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from campaigns.clients.local_server import LocalServer, find_python, find_small_model, local_server
from mnemosyne.actors.composing import Composer
from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.actors.helper_work import HelperWorker
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.owners import MemoryOwners
from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.actors.registry import QUIET_SECONDS
from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.domain.cost.prices import Price
from mnemosyne.domain.helper import audit
from mnemosyne.domain.helper.answer import ANSWER, HelperPassage, HelperQuestion
from mnemosyne.domain.helper.model import Completion, HelperModel, HelperPrompt, HelperSource, SameModels
from mnemosyne.domain.helper.task import Accepted, HelperTask, Limits, Rejected
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from mnemosyne.domain.session.budget import Budget
from mnemosyne.domain.session.input_events import HelperAsked, HelperWorked
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.replay.deciding import review
from mnemosyne.services.verifying import verify
from mnemosyne_lab.evaluation.judging import JUDGE, JudgedPlace
from mnemosyne_lab.trial.judging import JUDGE_RUNS, RunPair
from mnemosyne_lab.trial.tasks import ARMS, RunResult
from tests.actors.spending import EnoughTurns
from tests.actors.support import StoppableLog, events_of
from tests.actors.test_helper_work import Cache
from tests.app.home import at_home
from tests.http.evicting import RECALL, Index, read_and_evict
from tests.http.managing import Client, Stage, assert_nothing_of_ours, bare_stage, recall, text, think
from tests.http.test_epochs import MINUTES, SMALL, Clock, answer, client_of, read, violations
from tests.http.test_learned_facts import PROMPT, submit
from tests.http.test_managed_dialects import ChatTalk
from tests.http.test_session_knowledge import KEY
from tests.http.test_summarized_epochs import Copying
from tests.http.test_summarized_epochs import played as play_tales
from tests.plain.archive import MemoryArchive

pytestmark = [pytest.mark.clients, pytest.mark.soak]

CONTEXT = 8_192
PRICE = "0.1/0.5"
ENDLESS = USUAL.times(1_000)
EACH = 1
"""Most orders of each task that are done."""

PATIENT_LIMITS = Limits(seconds=300, pauses=())
"""A processor answers in half a minute."""

TASKS = {name: attrs.evolve(each, limits=PATIENT_LIMITS) for name, each in BACKGROUND_TASKS.items()}


@pytest.fixture(scope="module")
def local() -> Iterator[LocalServer]:
    python = find_python()
    with local_server(python, find_small_model(python), CONTEXT) as server:
        yield server


async def recall_notes(stage: Stage, _clock: Clock) -> Client:
    """Evict a file, go on with prompts, and ask about the file."""
    client = client_of(stage)
    await read_and_evict(client, stage, size=160)
    for number in range(3):
        answer(stage, [think(), text("Well.")])
        await client.turn(text(f"Go on, {number}. We decided to keep seven retries of the upload queue."))
    answer(stage, [recall(RECALL)], [text("So.")])
    await client.turn(text("What did we decide about the retries?"))
    return client


async def return_later(stage: Stage, clock: Clock) -> Client:
    """Write long messages, return after a day, look at pictures, and write more."""
    client, _ = await play_tales(stage)
    clock.now += 24 * 60 * MINUTES
    answer(stage, [text("Hello.")])
    await client.turn(text("Go on."))
    answer(stage, [think(), read("/docs/plan.png")], [think(), text("I see.")])
    (call,) = (await client.turn(text("Look at the plan.")))["content"][1:]
    await client.turn({"type": "tool_result", "tool_use_id": call["id"], "content": [PICTURE] * 4})
    await play_tales(stage, client, ["gamma", "delta"])
    await leave(stage)
    return client


async def leave(stage: Stage) -> None:
    """Let the session be idle."""
    stage.process.registry._pause_idle(trio.current_time() + QUIET_SECONDS + 1)


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1_200).to_bytes(4, "big") + (800).to_bytes(4, "big")
PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
}


async def submit_a_prompt(stage: Stage, _clock: Clock) -> Client:
    """Submit a prompt that a hook reports, and leave the session idle."""
    client = submit(stage, "s", PROMPT)
    answer(stage, [text("The login page works again.")])
    await client.work(PROMPT)
    await leave(stage)
    return client


SCENES = {recall_notes: SMALL, return_later: None, submit_a_prompt: None}
"""The scenes and their windows. Together they order every background task."""


class Promising(Copying):
    """The same, with a promise that can be checked."""

    async def complete(self, prompt: HelperPrompt) -> Completion:
        found = await super().complete(prompt)
        written = json.loads(found.text) | {"can_answer": ["On which port does the database listen?"]}
        return attrs.evolve(found, text=json.dumps(written))


async def do_orders(source: HelperSource, budget: HelperBudget, log: StoppableLog, clock: Clock, stage: Stage) -> None:
    """Do the orders of the sessions, up to EACH of a task. Another model writes the first summary, to be accepted."""
    sessions, orders = LoadedSessions(stage.process.registry), Counter[str]({"summarize": -1})
    while True:
        with trio.move_on_after(1) as waiting:
            request = await sessions.wait_for_order()
        if waiting.cancelled_caught:
            return
        orders[request.order.task] += 1
        if orders[request.order.task] > EACH:
            continue
        # Each order has its own circuit breaker: the model fails often.
        models = HelperModels(source if orders[request.order.task] else SameModels((Promising([]),)), budget)
        done = await HelperWorker(models, log, Cache(), TASKS, lambda: clock.now, str).work(request)
        if done is not None:
            assert await sessions.tell(request.identity, done)
            budget.release(done.work.nanodollars)


@pytest.fixture(autouse=True)
def audited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ONE_IN", 1)


@attrs.define(eq=False)
class Shown:
    """Prints a model's answers, for pytest -s."""

    model: HelperModel
    name: str
    price: Price

    async def complete(self, prompt: HelperPrompt) -> Completion:
        found = await self.model.complete(prompt)
        print(prompt.system.partition("\n")[0], "→", found.text[:300])  # noqa: T201
        return found

    async def check(self) -> None:
        await self.model.check()


@asynccontextmanager
async def small_helper(local: LocalServer) -> AsyncIterator[HelperSource]:
    settings = {"helper": "openai", "helper_url": f"{local.url}/v1", "helper_model": "small", "helper_price": PRICE}
    async with open_helper(load(settings, {}), {}) as source:
        assert source is not None
        (model,) = source.models_for(None)
        yield SameModels((Shown(model, model.name, model.price),))


PASSAGES = (
    HelperPassage(object="abc1234", start=0, name="#abc1234 Read lib/queue.py", text="RETRY_LIMIT = 7  # tries"),
)
RUN = RunResult(pair="fix", arm=ARMS[0], first=True, passed=True, exit=0, seconds=9.0, dollars=0.1, output="3 passed")
RUNS = [attrs.evolve(RUN, arm=arm, changes=f"+RETRY_LIMIT = {number}") for number, arm in enumerate(ARMS, 7)]
ASKED: Sequence[tuple[HelperTask[Any, Any], Any]] = (
    (ANSWER, HelperQuestion(question="What is RETRY_LIMIT?", passages=PASSAGES)),
    (ANSWER, HelperQuestion(question="Who wrote the parser?", passages=PASSAGES)),
    (ANSWER, HelperQuestion(question="Who wrote the parser?", passages=PASSAGES, look_for="author of the parser")),
    (
        JUDGE,
        JudgedPlace(
            session="s",
            turn=3,
            task="Set the limit of retries.",
            action="Edit lib/queue.py: RETRY_LIMIT = 9",
            full=("RETRY_LIMIT = 7  # tries of the upload queue",),
            instead=("[#abc1234 left] Read lib/queue.py",),
            present="",
        ),
    ),
    (JUDGE_RUNS, RunPair("Set the limit of retries.", *RUNS)),
)
"""The tasks outside the background: an answerable question, an unanswerable one, its second look, and the judges."""


async def test_an_answer_or_a_verdict_is_verified_or_rejected_with_a_reason(local: LocalServer) -> None:
    budget = HelperBudget(EnoughTurns(), Budget(10**12, 1.0), lambda: 1)
    async with small_helper(local) as source:
        for task, inputs in ASKED:
            (calls,) = HelperModels(source, budget).calls_for()
            patient = attrs.evolve(task, limits=PATIENT_LIMITS)
            reply = await calls.ask(patient, inputs, task.write(inputs))
            assert reply is not None
            print(task.name, reply.verdict)  # noqa: T201
            match reply.verdict:
                case Accepted(result=result) as accepted:
                    assert task.read(inputs, accepted.text) == attrs.evolve(accepted, dropped=())
                    assert task is not ANSWER or not (inputs.look_for and result.look_for), (
                        "a second look asks for no third one"
                    )
                case Rejected(reasons=reasons):
                    assert all(reasons)


async def test_each_task_is_done_or_rejected_with_a_reason(local: LocalServer) -> None:
    budget = HelperBudget(EnoughTurns(), Budget(10**12, 1.0), lambda: 1)
    outcomes: dict[str, Counter[str]] = {}
    async with small_helper(local) as source:
        for play_scene, window in SCENES.items():
            for event in await played(play_scene, window, source, budget):
                task = event.task if isinstance(event, HelperWorked) else "answer"
                outcomes.setdefault(task, Counter())[outcome_of(event)] += 1
    for task, found in outcomes.items():
        print(f"{task}: {dict(found)}")  # noqa: T201  # shown by pytest -s
    assert not {*BACKGROUND_TASKS, "answer"} - outcomes.keys(), "no scene orders these tasks"
    assert budget.reserved == 0


async def played(
    play_scene: Callable[[Stage, Clock], Awaitable[Client]],
    window: int | None,
    source: HelperSource,
    budget: HelperBudget,
) -> list[HelperWorked | HelperAsked]:
    """Play a scene with a helper; return its work, which a replay repeats without it."""
    log, clock, questions = StoppableLog(), Clock(), HelperQuestions()
    options: dict[str, Any] = {"index": Index(log), "questions": questions, "patience": ENDLESS, "clock": clock}
    options |= {"owners": MemoryOwners(KEY), "memory_tokens": 600}
    async with bare_stage(log=log, window=window, **options) as stage, trio.open_nursery() as nursery:
        composer = Composer(HelperModels(source, budget), attrs.evolve(ANSWER, limits=PATIENT_LIMITS))
        nursery.start_soon(composer.run, LoadedSessions(stage.process.registry))
        client = await play_scene(stage, clock)
        await do_orders(source, budget, log, clock, stage)
        assert violations(stage) == []
        assert_nothing_of_ours(client)
        assert not (await review(MemoryArchive(log), str(await stage.stream()))).differences
        nursery.cancel_scope.cancel()
    done = [event for event in await events_of(log) if isinstance(event, HelperWorked | HelperAsked)]
    return [event for event in done if event.helper.startswith("openai:")]


def outcome_of(event: HelperWorked | HelperAsked) -> str:
    """Whether an answer was accepted, or why not. Exactly one of both is recorded."""
    if isinstance(event, HelperAsked):
        assert bool(event.sentences) != bool(event.why)
        return event.why or "accepted"
    assert bool(event.record) != bool(event.rejected)
    return "; ".join(event.rejected) or "accepted"


# As the model of a client

WINDOW = 3_000
TELLS: dict[str, Any] = {"max_tokens": 20, "temperature": 0.0, "logprobs": True, "top_logprobs": 2}
SAYS = TELLS | {"tool_choice": "none"}
LOOKS = TELLS | {"tool_choice": {"type": "function", "function": {"name": "look"}}}


async def ask(url: str, talk: ChatTalk) -> Any:
    """The model runs a call and gives an opinion on the result; return the opinion with its likelihoods."""
    talk.url = url
    talk.history.append({"role": "user", "content": f"What is it, after {len(talk.history)} messages?"})
    for members in (LOOKS, SAYS):
        talk.members = members
        reply = await talk.send()
        assert talk.keep(reply) is (members is LOOKS), reply
    choice = reply["choices"][0]
    return choice["message"]["content"], choice["logprobs"]["content"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_managed_conversation_begins_as_a_direct_one_and_continues_beyond_the_window(
    stream: bool, local: LocalServer, tmp_path: Path, dsn: str
) -> None:
    direct = await ask(local.url, ChatTalk(stream=stream, size=100))
    options = [*local.options, "--manage-window", str(WINDOW)]
    talk = ChatTalk(stream=stream, size=100)
    async with at_home(tmp_path, dsn) as home, home.served("observe", *local.options) as served:
        assert await ask(served.url, ChatTalk(stream=stream, size=100)) == direct
        async with home.served("manage", *options) as managing:
            for _ in range(6):
                await ask(managing.url, talk)
        async with open_storage(home.config) as storage:
            streams = await storage.events.streams()
            events = [each.envelope.event for one in streams for each in await storage.events.read(one)]
            assert {(await verify(storage, one)).verdict for one in streams} == {"ok"}
    assert [each for each in events if isinstance(each, EpochBegan)]
    assert not [name for name in NAMES if any(name.encode() in reply.body for reply in talk.replies)]
