"""The memory across sessions learns facts that a helper model finds in submitted prompts and in idle sessions."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.actors.helper_work import HelperWorker
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.owners import MemoryOwners
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.actors.registry import QUIET_SECONDS
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.helper.model import FREE, Completion, HelperModel, HelperPrompt, SameModels
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.redaction import redact
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.submitted import hash_prompt
from mnemosyne.errors import ContentForgotten
from mnemosyne.replay.deciding import review
from mnemosyne.services import overviews
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.memories import fold
from mnemosyne.services.session_edits import edit
from tests.actors.spending import EnoughTurns
from tests.actors.summaries import ENOUGH_MONEY
from tests.actors.support import StoppableLog
from tests.actors.test_helper_work import Cache
from tests.http.managing import Client, Stage, bare_stage, model_says, text
from tests.http.test_session_knowledge import KEY, PROJECT, client, until_written
from tests.plain.archive import MemoryArchive
from tests.services.answers import Answers
from tests.waiting import DEADLINE

FACT = "The billing service runs on PostgreSQL 16."
PROMPT = f"Fix the login page. {FACT}"
REPLY = "The login page works again."


@attrs.define(eq=False)
class Reader:
    """A helper that finds the fact in any text that it is sent, and summarizes sessions with it."""

    name: str = "reader"
    price: Price = FREE
    prompts: list[HelperPrompt] = attrs.field(factory=list)
    was_asked_for_facts: trio.Event = attrs.field(factory=trio.Event)
    held: trio.Event | None = None
    """If given, it answers only after this event."""

    async def complete(self, prompt: HelperPrompt) -> Completion:
        self.prompts.append(prompt)
        if self.asked("facts"):
            self.was_asked_for_facts.set()
        if self.held is not None:
            await self.held.wait()
        quotes = [FACT] if FACT in prompt.user else []
        answers: dict[str, Any] = {
            "facts": {"facts": [{"kind": "fact", "quote": each, "corrects": ""} for each in quotes]},
            "session_summary": {"title": "Login page", "done": [REPLY], "decided": quotes, "open": []},
            "goal": {"goal": "", "needed": [], "unneeded": []},
        }
        task = prompt.system.removeprefix("Task: ").partition("/")[0]
        return Completion(json.dumps(answers[task]), Tokens(input=9, output=9))

    async def check(self) -> None:
        return

    def asked(self, task: str) -> list[str]:
        """The texts that it was sent for a task."""
        return [each.user for each in self.prompts if each.system.startswith(f"Task: {task}/")]


@asynccontextmanager
async def reading(*models: HelperModel, mode: Mode = Mode.OBSERVE, reply: str = REPLY) -> AsyncIterator[Stage]:
    log, rules = StoppableLog(), {"reply": model_says(text(reply))}
    budget = HelperBudget(EnoughTurns(), ENOUGH_MONEY, lambda: 1)
    worker = HelperWorker(HelperModels(SameModels(models), budget), log, Cache(), BACKGROUND_TASKS, lambda: 1, str)
    options: dict[str, Any] = {"memory_tokens": 600, "owners": MemoryOwners(KEY), "questions": HelperQuestions()}
    async with bare_stage(rules, log=log, mode=mode, **options) as stage, trio.open_nursery() as nursery:
        nursery.start_soon(worker.run, LoadedSessions(stage.process.registry))
        yield stage
        nursery.cancel_scope.cancel()


def submit(stage: Stage, session: str, prompt: str) -> Client:
    owners = stage.process.opener.owners
    assert owners is not None
    owners.present(session, hash_prompt(prompt), interactive=True)
    return client(stage, session)


async def worked_in(stage: Stage, task: str) -> list[HelperWorked]:
    """The recorded work on a task, once there is some."""
    with trio.fail_after(DEADLINE):
        position = 0
        while True:
            found = [each for each in await stage.events_until(HelperWorked) if each.task == task]
            if found:
                return found
            position = await stage.process.journal.committed.beyond(position)


async def listing(stage: Stage) -> Answers:
    """Read models that list the session and its summary."""
    stream = await stage.stream()
    recorded = await stage.log.read(stream)
    (work,) = await worked_in(stage, "session_summary")
    version = next(each.version for each in recorded if each.envelope.event == work)
    names = "client client_version imported_at before behind forgotten_at settings state ending titled_in closed_at"
    row = dict.fromkeys([*names.split(), "archived"])
    listed = {**row, "stream": stream, "external_id": "s", "sessions": 1, "started_at": 1, "last_active_at": 2}
    latest = {"stream": stream, "task": "session_summary", "version": version}
    return Answers({("timeline", "listed"): [listed], ("budget", "latest_work"): [latest]})


async def test_a_fact_of_a_submitted_prompt_becomes_an_unconfirmed_entry() -> None:
    """The model also gets the reply before the prompt."""
    reader = Reader()
    async with reading(reader) as stage:
        one = submit(stage, "s", PROMPT)
        await one.work(PROMPT)
        (entry,) = await until_written(stage, 1)
        assert (entry.content, entry.is_confirmed) == (FACT, False)
        assert entry.provenance is not None
        assert entry.provenance.span == (PROMPT.index(FACT), len(PROMPT))
        submit(stage, "s", "Yes, keep it.")
        await one.work("Yes, keep it.")
        await stage.events_until(HelperWorked, 2)
        assert [REPLY in each for each in reader.asked("facts")] == [False, True]
        assert [PROMPT in each for each in reader.asked("facts")] == [True, False], "each prompt is read once"
        assert (await review(MemoryArchive(stage.log), str(await stage.stream()))).differences == []


async def test_waiting_prompt_of_a_forgotten_session_is_never_sent() -> None:
    reader, log = Reader(), StoppableLog()
    options: dict[str, Any] = {"memory_tokens": 600, "owners": MemoryOwners(KEY), "questions": HelperQuestions()}
    models = HelperModels(SameModels((reader,)), HelperBudget(EnoughTurns(), ENOUGH_MONEY, lambda: 1))
    worker = HelperWorker(models, log, Cache(), BACKGROUND_TASKS, lambda: 1, str)
    async with bare_stage({"reply": model_says(text(REPLY))}, log=log, mode=Mode.OBSERVE, **options) as stage:
        await submit(stage, "s", PROMPT).work(PROMPT)
        with trio.fail_after(DEADLINE):
            request = await LoadedSessions(stage.process.registry).wait_for_order()
        assert request.order.task == "facts"
        await log.forget(await stage.stream(), redact)
        with pytest.raises(ContentForgotten):
            await worker.work(request)
    assert reader.prompts == []


async def test_prompt_without_the_report_of_a_hook_is_never_sent() -> None:
    reader = Reader()
    async with reading(reader, mode=Mode.MANAGE) as stage:
        await client(stage, "typed").work(PROMPT)
        await submit(stage, "agent", PROMPT).turn(text("Look."))
        one = submit(stage, "s", "Read the mail.")
        await one.work("Read the mail.")
        call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        one.history.append({"role": "assistant", "content": [call]})
        await one.turn({"type": "tool_result", "tool_use_id": "toolu_1", "content": FACT})
        with trio.fail_after(DEADLINE):
            await reader.was_asked_for_facts.wait()
        assert [FACT in each for each in reader.asked("facts")] == [False]


async def test_a_stopping_server_waits_for_the_summaries_of_its_sessions() -> None:
    reader = Reader()
    async with reading(reader) as stage:
        await submit(stage, "s", PROMPT).work(PROMPT)
        await until_written(stage, 1)
        for _ in range(2):
            with trio.fail_after(DEADLINE):
                await stage.process.registry.finish()
            kept = (await KnowledgeStore(stage.log, stage.log).read(PROJECT)).entries.values()
            kinds = [each.kind for each in kept]
            assert kinds.count(EntryKind.SESSION_SUMMARY) == len(reader.asked("session_summary")) == 1


async def test_a_stopping_server_does_not_wait_without_a_usable_model() -> None:
    """For example, of a client without a key; the worker reports that no model was asked."""
    async with reading() as stage:
        await submit(stage, "s", PROMPT).work(PROMPT)
        with trio.fail_after(DEADLINE):
            await stage.process.registry.finish()
        assert [each for each in await stage.events_of(HelperWorked) if each.task == "session_summary"] == []


async def test_closing_orders_one_summary_with_its_sources_and_reopening_orders_none() -> None:
    reader = Reader()
    async with reading(reader) as stage:
        await submit(stage, "s", PROMPT).work(PROMPT)
        await until_written(stage, 1)
        archive, stream = MemoryArchive(stage.log), str(await stage.stream())
        for closed in (True, False, True, True):
            await edit(archive, stream, closed=closed, stamp=WriteStamp(1, "w"))
            await stage.process.registry._pause_on_close(trio.current_time())
            assert len(await worked_in(stage, "session_summary")) == len(reader.asked("session_summary")) == 1
        (summary,) = [each for each in await until_written(stage, 2) if each.kind is EntryKind.SESSION_SUMMARY]
        assert summary.provenance == Provenance(session=UUID(stream), branch="main", turn=1)
        assert summary.confirmed_at is None
        opened = await edit(archive, stream, closed=False, stamp=WriteStamp(1, "w"))
        assert opened[1]
        await submit(stage, "s", PROMPT).work(PROMPT)
        await stage.process.registry._pause_on_close(trio.current_time())
        assert len(await worked_in(stage, "session_summary")) == 1


@pytest.mark.parametrize("change", [{"closed": True}, {"title": "The login"}, None])
async def test_helper_result_after_an_edit_or_the_clients_end_keeps_the_pending_summary(
    change: dict[str, Any] | None,
) -> None:
    reader = Reader(held=(held := trio.Event()))
    async with reading(reader) as stage:
        await submit(stage, "s", PROMPT).work(PROMPT)
        await reader.was_asked_for_facts.wait()
        await stage.events_until(TurnAccounted)
        archive, stream = MemoryArchive(stage.log), str(await stage.stream())
        if change is None:
            await stage.process.opener.finder.end("s", 1, "w")
        else:
            await edit(archive, stream, **change, stamp=WriteStamp(1, "w"))
        held.set()
        await until_written(stage, 1)
        registry, now = stage.process.registry, trio.current_time()
        await registry._pause_on_close(now)
        registry._pause_idle(now + QUIET_SECONDS + 1)
        kinds = {each.kind for each in await until_written(stage, 2)}
        assert kinds == {EntryKind.FACT, EntryKind.SESSION_SUMMARY}
        assert len(reader.asked("session_summary")) == 1


async def test_a_compaction_by_the_client_orders_one_summary_of_its_window_with_its_sources() -> None:
    reader, reply = (
        Reader(),
        f"{REPLY} Its form sends the name and the password, and a session lasts for a day, not more.",
    )
    opening = "This session is being continued from a previous conversation that ran out of context."
    async with reading(reader, reply=reply) as stage:
        talk = submit(stage, "s", PROMPT)
        await talk.work(PROMPT)
        await talk.work("And the other page?")
        await talk.work("CRITICAL: Respond with TEXT ONLY. Summarize.")
        assert reader.asked("session_summary") == []
        talk.history = []
        await talk.work(f"{opening}\n{reply}")
        await talk.work("Go on.")
        (work,) = await worked_in(stage, "session_summary")
        assert (work.branch, work.turn) == ("main", 2)
        (entry,) = [each for each in await until_written(stage, 2) if each.kind is EntryKind.SESSION_SUMMARY]
        assert entry.content == f"Done: {REPLY}"
        session = fold(await stage.log.read(await stage.stream()))
        assert session.branches["successor-1"].parent == "main"
        assert session.summary is not None
        source = session.memory.objects[session.summary.sources[f"Done: {REPLY}"]]
        assert (source.branch, source.first_turn) == ("main", 1)


async def test_an_idle_session_is_summarized_once_for_the_next_one() -> None:
    reader = Reader()
    async with reading(reader) as stage:
        await submit(stage, "s", PROMPT).work(PROMPT)
        for _ in range(2):
            stage.process.registry._pause_idle(trio.current_time() + QUIET_SECONDS + 1)
            (work,) = await worked_in(stage, "session_summary")
        assert (work.branch, work.turn) == ("main", 1)
        (sent,) = reader.asked("session_summary")
        assert f"agent: {REPLY}" in sent
        (found,) = await overviews.list_overviews(MemoryArchive(stage.log), await listing(stage), openings={})
        assert (found.title, found.texts.lines) == ("Login page", (f"Done: {REPLY}", f"Decided: {FACT}"))
        entries = await until_written(stage, 2)
        assert [each.content for each in entries if each.kind is EntryKind.SESSION_SUMMARY] == [f"Done: {REPLY}"]
