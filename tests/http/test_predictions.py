"""Objects that a goal will need are placed behind the results of tools, within their price, as long as they pay."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.actors.helper_work import HelperWorker
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.helper.model import FREE, Completion, HelperPrompt, SameModels
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from mnemosyne.domain.objects.events import ObjectRestored
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.session.helper_results import Goal
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.domain.session.state import Session, evolve_all
from mnemosyne.domain.window import predictions
from mnemosyne.replay.deciding import review
from tests.actors.spending import EnoughTurns
from tests.actors.summaries import ENOUGH_MONEY
from tests.actors.support import StoppableLog
from tests.actors.test_helper_work import Cache
from tests.http.evicting import DECIDED, read_and_evict
from tests.http.managing import Client, Stage, assert_prefixes, bare, open_stage, text, think
from tests.http.test_epochs import SMALL, answer, client_of, edit, read, results_of
from tests.plain.archive import MemoryArchive
from tests.waiting import DEADLINE


@attrs.define(eq=False)
class Oracle:
    """A helper that predicts the listed records whose description contains a path."""

    path: str = "/docs/notes.md"
    name: str = "oracle"
    price: Price = FREE
    prompts: list[HelperPrompt] = attrs.field(factory=list)

    async def complete(self, prompt: HelperPrompt) -> Completion:
        self.prompts.append(prompt)
        ids = [line.split()[0] for line in prompt.user.splitlines() if line.startswith("#") and self.path in line]
        said = {"goal": "Check the notes.", "needed": [*ids, "#zzzzzzz"], "unneeded": []}
        return Completion(json.dumps(said), Tokens(input=9, output=9))

    async def check(self) -> None:
        return


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "SHARE", 2)  # of a window that is far smaller than a real one


@asynccontextmanager
async def predicting(oracle: Oracle, **options: Any) -> AsyncIterator[tuple[Stage, Client]]:
    """A managing proxy that has evicted the notes, and a helper that expects their use."""
    log = StoppableLog()
    budget = HelperBudget(EnoughTurns(), ENOUGH_MONEY, lambda: 1)
    worker = HelperWorker(HelperModels(SameModels((oracle,)), budget), log, Cache(), BACKGROUND_TASKS, lambda: 1, str)
    async with (
        open_stage(log=log, window=SMALL, questions=HelperQuestions(), **options) as stage,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(worker.run, LoadedSessions(stage.process.registry))
        client = client_of(stage)
        await evict_notes(client, stage)
        yield stage, client
        found = await review(MemoryArchive(log), str(await stage.stream()))
        assert found.differences == []
        assert found.skipped == []
        nursery.cancel_scope.cancel()


async def evict_notes(client: Client, stage: Stage) -> None:
    """Read and evict the notes, and go on until that has saved enough to pay for a prediction."""
    await read_and_evict(client, stage, size=160)
    answer(stage, [think(), text("Well.")])
    for number in range(12):
        await client.turn(text(f"Go on, {number}."))


async def goals_of(stage: Stage) -> list[HelperWorked]:
    return [event for event in await stage.events_of(HelperWorked) if event.task == "goal"]


async def ask(client: Client, stage: Stage, prompt: str, *, uses: bool) -> None:
    """An exchange of two tool calls; the first result arrives once the helper has answered about this prompt."""
    call = edit("/docs/notes.md") if uses else read("/src/other.py")
    before, committed = len(client.bodies), stage.process.journal.committed
    answer(stage, [think(), read("/src/new.py")], [think(), call], [think(), text("Done.")])
    message = await client.turn(text(prompt))
    with trio.fail_after(DEADLINE):
        position = committed.position
        while not any(each.turn is not None and each.turn > before for each in await goals_of(stage)):
            await committed.beyond(position)
            position = committed.position
    while message["stop_reason"] == "tool_use":
        message = await client.turn(*results_of(message, 5))


async def goal_in(stage: Stage) -> Goal:
    goal = evolve_all(Session(), await stage.events()).branches["main"].goal
    assert goal is not None
    return goal


async def test_a_predicted_object_follows_the_next_results_and_counts_if_it_is_used() -> None:
    oracle = Oracle()
    async with predicting(oracle) as (stage, client):
        await ask(client, stage, "What do the notes say?", uses=True)
        (placed,) = await stage.events_of(ObjectRestored)
        assert (placed.after, placed.cause) == (Fidelity.FULL, Cause.GOAL)
        first, second, third = stage.upstream[-3:]
        assert DECIDED not in json.dumps(first)
        results, added = bare(second["messages"][-1]["content"])
        assert results["type"] == "tool_result"
        assert DECIDED in added["text"]
        assert json.dumps(third).count(DECIDED) == 1
        assert_prefixes(stage.upstream[-3:])
        assert all("Check the notes." not in json.dumps(each) for each in stage.upstream), "a goal is only data"
        assert not (await goal_in(stage)).used
        await ask(client, stage, "Thanks.", uses=False)
        goal = await goal_in(stage)
        assert (goal.text, goal.missed, goal.is_paused) == ("Check the notes.", 0, False)
        work = (await goals_of(stage))[-1]
        assert work.dropped == ("an object is not in the list",)


@pytest.mark.release
async def test_referenced_objects_are_restored_and_the_helper_is_not_asked_for_predictions() -> None:
    oracle = Oracle()
    async with predicting(oracle, restores="referenced") as (stage, client):
        await ask(client, stage, "What do the notes say?", uses=False)
        assert not any(isinstance(event, ObjectRestored) for event in await stage.events())
        assert all("#" not in prompt.user for prompt in oracle.prompts)
