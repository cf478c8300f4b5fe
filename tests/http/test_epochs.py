"""Rewritten contexts: epochs through a complete managing proxy, judged by the strict provider. Operator text (system
messages, client notes, project rules, tool definitions) stays complete and in its place.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import reduce
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.actors.epochs import Epochs
from mnemosyne.domain.history.change_actors import Actor, actor_of
from mnemosyne.domain.objects.events import ObjectCreated, ObjectDegraded, ObjectRestored
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.ids import NOTE
from mnemosyne.domain.recall.memory_results import ALL_SHOWN
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, Mode, RoundBegan
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.window import epochs
from mnemosyne.errors import BadEntry
from mnemosyne.replay.deciding import review
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.pins import pin
from mnemosyne.services.windows import explain
from tests.actors.support import PATIENT
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_prefixes,
    bare_stage,
    model_says,
    open_stage,
    recall,
    restore,
    script,
    text,
    think,
)
from tests.plain.archive import MemoryArchive
from tests.profiles import rarely

SMALL = 20_000
"""A window that a few large results fill: the last three rounds fit, which always stay."""

MINUTES = 60_000_000


@attrs.define
class Clock:
    """A clock that the test advances by seconds."""

    now: int = 1_700_000_000_000_000

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.now += 1_000_000
        return self.now


def read(path: str) -> Json:
    return {"type": "tool_use", "name": "Read", "input": {"file_path": path}}


def edit(path: str) -> Json:
    given = {"file_path": path, "old_string": "old words\n" * 60, "new_string": "new words\n" * 30}
    return {"type": "tool_use", "name": "Edit", "input": given}


WRITTEN = {"type": "tool_use", "name": "Write", "input": {"file_path": "/src/notes.md", "content": "Begun."}}


def run(command: str) -> Json:
    return {"type": "tool_use", "name": "Bash", "input": {"command": command}}


def results_of(message: Json, size: int = 300) -> list[Json]:
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    return [{"type": "tool_result", "tool_use_id": each["id"], "content": _content(each, size)} for each in calls]


def _content(call: Json, size: int) -> str:
    if call["name"] in ("Edit", "Write"):
        return "The file was updated."
    return "".join(f"{number + 1:6}\tvalue_{number} = {call['id']}\n" for number in range(size))


TOOLS = [
    {"name": name, "description": name, "input_schema": {"type": "object"}}
    for name in ("Read", "Edit", "Write", "Bash")
]


def client_of(stage: Stage) -> Client:
    return stage.client(tools=TOOLS)


@asynccontextmanager
async def open_work(**options: Any) -> AsyncIterator[tuple[Stage, Client]]:
    """A managing proxy and a client that works on files."""
    async with open_stage(**options) as stage:
        yield stage, client_of(stage)


LARGE = 900
"""Lines of a file that is old after a few turns without use."""


async def reads(
    client: Client,
    stage: Stage,
    message: Json,
    count: int,
    *,
    first: int = 0,
    size: int = 300,
    folder: str = "/src",
    beside: Sequence[Json] = (),
) -> Json:
    """This many turns, in each of which the agent gets its result and reads another file of this many lines."""
    for number in range(first, first + count):
        # Once the agent has written something, reads no longer count as gathering for an answer.
        first_call = [] if results_of(message) else [WRITTEN]
        answer(stage, [think(), *first_call, read(f"{folder}/part_{number}.py"), *beside])
        message = await client.turn(*(results_of(message, size) or [text("Go on.")]))
        assert "error" not in message, message
    return message


CHANGES = [edit(f"/src/other_{number}.py") for number in range(3)]
"""What was read whole before these waits for no more: some turns later it is as old as it is."""


async def explore(client: Client, stage: Stage, turns: int, *, size: int = 300) -> Json:
    """The same from the start, with three other files changed along with the second read."""
    message = await reads(client, stage, {"content": []}, 1, size=size)
    message = await reads(client, stage, message, 1, first=1, size=size, beside=CHANGES)
    return await reads(client, stage, message, turns - 2, first=2, size=size)


def answer(stage: Stage, *replies: Sequence[Json]) -> None:
    """The model's replies to the next requests in order; the last one also answers all further requests."""
    first = len(stage.standin.messages) + 1
    rules = [{"when": {"request": number}, "reply": model_says(*reply)} for number, reply in enumerate(replies, first)]
    stage.standin.script = script(*rules, {"reply": model_says(*replies[-1])})


WRONG = ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": -5}, {"input_tokens": 5, "output_tokens": 10**9})


@pytest.mark.parametrize("usage", [{"input_tokens": 10**9}, *rarely(WRONG)])
async def test_wrong_count_and_clock_set_back_do_not_change_the_next_turn(usage: dict[str, int]) -> None:
    clock = Clock()
    async with open_work(clock=clock, window=SMALL) as (stage, client):
        message = await reads(client, stage, {"content": []}, 6)
        clock.now -= 24 * 60 * MINUTES
        reply = model_says(think(), read("/src/part_7.py"), usage=usage)
        stage.standin.script = script({"reply": reply})
        message = await client.turn(*results_of(message))
        await reads(client, stage, message, 1, first=8)
        await stage.events_until(TurnAccounted, 8)
        archive, session = MemoryArchive(stage.log), str(await stage.stream())
        for turn in (7, 8):
            found = await explain(archive, session, "main", turn, now=clock.now, settings=ServerSettings(window=SMALL))
            assert found.decision is not None
            assert found.decision.mode is Mode.MANAGE
            assert found.snapshot.assessed.tokens < SMALL


@pytest.mark.release
async def test_client_that_changes_its_tools_each_turn_stays_managed() -> None:
    async with bare_stage(window=SMALL) as stage:
        client = client_of(stage)
        message: dict[str, Any] = {"content": []}
        for number in range(1, 11):
            client.tools = [*TOOLS, {**TOOLS[0], "name": f"mcp__x__{number}"}]
            message = await reads(client, stage, message, 1, first=number)
        assert await stage.events_of(EpochBegan)
        assert {each.mode for each in await stage.modes()} == {Mode.MANAGE}
        assert {each.status for each in client.replies} == {200}  # thinking signed for other tools is left out
        assert {each.violation.rule for each in stage.standin.violations} <= {"R10", "signature"}


def violations(stage: Stage) -> list[str]:
    return [str(each) for each in stage.standin.violations]


async def test_full_window_is_rewritten_and_grows_again_from_there() -> None:
    async with open_work(window=SMALL) as (stage, client):
        await reads(client, stage, {"content": []}, 12)
        began = await stage.events_of(EpochBegan)
        assert len(began) >= 2
        turns = [each.turn for each in began]
        assert all(each.freed > 0 for each in began)
        sizes = [len(each.body) for each in stage.standin.messages]
        assert max(sizes) < len(client.bodies[-1]) / 2
        for start, end in zip([1, *turns], [*turns, len(sizes) + 1], strict=True):
            assert_prefixes(stage.upstream[start - 1 : end - 1])
        first = json.dumps(stage.upstream[turns[0] - 1]["messages"])
        assert '"thinking"' not in first
        gone = next(each for each in await stage.events_of(ObjectDegraded))
        assert f"#{gone.object} Read /src/part_0.py" in first


@pytest.mark.release
async def test_a_session_stays_within_its_window_if_a_person_tries_to_pin_every_object() -> None:
    async with open_stage(window=2 * SMALL) as stage:
        client, refused = client_of(stage), ""
        message: Json = {"content": []}
        for number in range(9):
            message = await reads(client, stage, message, 1, first=number)
            for each in await stage.events_of(ObjectCreated):
                try:
                    await pin(MemoryArchive(stage.log), each.object, reason="r", stamp=WriteStamp(1, "c"))
                except BadEntry as error:
                    refused = str(error)
        assert "pins may take 19,667 tokens, half of its window" in refused
        assert len(await stage.events_of(EpochBegan)) >= 2
        sizes = [len(each.body) for each in stage.standin.messages]
        assert sizes[-1] < max(sizes) < 100_000 < len(client.bodies[-1])


async def test_cold_cache_triggers_a_rewrite_and_the_head_keeps_a_longer_lifetime() -> None:
    clock = Clock()
    async with open_work(clock=clock) as (stage, client):
        message = await explore(client, stage, 8, size=LARGE)
        assert await stage.events_of(EpochBegan) == []
        clock.now += 24 * 60 * MINUTES  # a session that resumes after a day
        await reads(client, stage, message, 3, first=8, size=LARGE)
        (began,) = await stage.events_of(EpochBegan)
        assert (began.turn, began.price, began.hour) == (9, 0, True)
        for body in stage.upstream[8:]:
            assert body["system"][1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
            assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
        assert_prefixes(stage.upstream[8:])


@pytest.mark.release
async def test_restored_object_is_at_its_old_place_in_the_next_epoch() -> None:
    clock = Clock()
    async with open_work(clock=clock) as (stage, client):
        message = await explore(client, stage, 18)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 1, first=18)
        gone = next(each.object for each in await stage.events_of(ObjectDegraded))
        answer(stage, [think(), restore(gone)], [read("/x")])
        message = await client.turn(*results_of(message))
        assert [each.object for each in await stage.events_of(ObjectRestored)] == [gone]
        assert "memory_restore" in json.dumps(stage.upstream[-1]["messages"])
        message = await reads(client, stage, message, 1, first=19, beside=CHANGES)
        message = await reads(client, stage, message, 5, first=20)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 1, first=25)
        assert len(await stage.events_of(EpochBegan)) == 2
        sent = json.dumps(stage.upstream[-1]["messages"])
        assert "memory_restore" not in sent
        assert f"#{gone}" not in sent


async def test_client_that_goes_back_before_an_epoch_begins_another_one() -> None:
    async with open_work(window=SMALL) as (stage, client):
        await reads(client, stage, {"content": []}, 6)
        assert (before := await stage.events_of(EpochBegan))
        del client.history[5:]  # after the second file that was read
        answer(stage, [think(), read("/another.py")])
        message = await client.turn(text("No. Something else."))
        message = await reads(client, stage, message, 2, first=20)
        after = await stage.events_of(EpochBegan)
        assert after[len(before)].reason == epochs.WENT_BACK
        assert after[len(before)].branch != "main"


@pytest.mark.release
async def test_bypassed_branch_is_recorded_in_full_and_grows_from_any_earlier_point() -> None:
    async with open_work(window=3 * SMALL, breaks=["R10"]) as (stage, client):
        message = await reads(client, stage, {"content": []}, 9, size=LARGE)
        assert await below_full(stage)
        client.headers = {"x-mnemosyne-mode": "off"}
        message = await reads(client, stage, message, 1, first=9, size=LARGE)
        assert NOTE not in json.dumps(stage.upstream[-1]["messages"])
        assert await below_full(stage) == []
        del client.history[9:]  # to before the last rewrite
        asked = len(stage.upstream)
        answer(stage, [think(), read("/src/other.py")])
        message = await client.turn(text("No. Something else."))
        await reads(client, stage, message, 3, first=20, size=LARGE)
        assert_prefixes(stage.upstream[asked:])
        assert await below_full(stage) == []
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # without memory tools


async def below_full(stage: Stage) -> list[str]:
    """The objects that the session's last branch shows at less than full size."""
    state = reduce(evolve, await stage.events(), Session())
    branch = max(state.branches.values(), key=lambda each: each.body_version)
    return [each.id for each, fidelity in state.memory.standings(branch.name) if fidelity is not Fidelity.FULL]


async def test_history_that_cannot_be_rendered_is_sent_once_in_full_and_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def failing(*given: Any) -> None:
        return None

    async def nothing(*given: Any) -> tuple[None, None]:
        return None, None

    async with open_work(window=SMALL) as (stage, client):
        await reads(client, stage, {"content": []}, 6)
        assert (before := await stage.events_of(EpochBegan))
        del client.history[9:]
        asked = len(stage.upstream)
        monkeypatch.setattr(Epochs, "begin_again", failing)
        monkeypatch.setattr(Epochs, "begin_epoch", nothing)
        answer(stage, [think(), read("/src/other.py")])
        message = await client.turn(text("No. Something else."))
        await reads(client, stage, message, 2, first=20)
        assert_prefixes(stage.upstream[asked:])
        assert '"thinking"' in json.dumps(stage.upstream[-1]["messages"])  # thinking after the eviction stays
        assert await below_full(stage) == []
        assert await stage.events_of(EpochBegan) == before


async def test_content_from_before_a_client_compaction_can_be_restored() -> None:
    async with open_work(window=SMALL) as (stage, client):
        await reads(client, stage, {"content": []}, 6)
        answer(stage, [think(), text("<summary>Files were read.</summary>")])
        message = await client.turn(
            *results_of(client.history[-1]), text("CRITICAL: Respond with TEXT ONLY. Summarize.")
        )
        assert message["content"][-1] == text("<summary>Files were read.</summary>")
        whole = next(each.object for each in await stage.events_of(ObjectCreated) if each.places)
        begin = "This session is being continued from a previous conversation that ran out of context. Summary: …"
        client.history = []
        answer(stage, [think(), restore(whole)], [text("I see.")])
        await client.turn(text(begin))
        sent = json.dumps(stage.upstream[-1]["messages"])
        assert "There is no object" not in sent
        assert [each.object for each in await stage.events_of(ObjectRestored)] == [whole]


async def test_failing_planner_costs_nothing_but_its_epoch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(epochs, "decide_epoch", broken)
    async with open_work(window=SMALL) as (stage, client):
        await reads(client, stage, {"content": []}, 6)
        assert await stage.events_of(EpochBegan) == []
        assert_prefixes(stage.upstream)
        assert "the compaction failed" in caplog.text


async def starved(monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """The planner gives no answer until the event is set."""
    plans, fed = Epochs.begin_epoch, trio.Event()

    async def slowly(*given: Any) -> Any:
        await fed.wait()
        return await plans(*given)

    monkeypatch.setattr(Epochs, "begin_epoch", slowly)
    return fed


HURRIED = attrs.evolve(PATIENT, actor=0.01, database=0.01)


async def test_without_a_planner_answer_the_sent_history_continues_and_the_next_request_is_planned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_work(window=SMALL) as (stage, client):
        message = await reads(client, stage, {"content": []}, 4)
        assert await stage.events_of(EpochBegan) == []
        stage.process.registry.patience = HURRIED
        fed = await starved(monkeypatch)
        message = await reads(client, stage, message, 1, first=4)
        assert "continues its last request without a plan" in caplog.text
        assert_prefixes(stage.upstream)
        assert "thinking" in json.dumps(stage.upstream[-1]["messages"])
        fed.set()
        await stage.events_until(RoundBegan, 5)
        stage.process.registry.patience = PATIENT
        await reads(client, stage, message, 1, first=5)
        (epoch,) = await stage.events_of(EpochBegan)
        assert epoch.turn == 6
        assert len(await stage.rounds()) == 6, "each is on record as it left"


async def test_hidden_calls_of_an_unplanned_turn_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_work(window=SMALL) as (stage, client):
        message = await reads(client, stage, {"content": []}, 2)
        stage.process.registry.patience = attrs.evolve(HURRIED, answers=60.0)
        fed = await starved(monkeypatch)
        answer(stage, [think(), recall("what?")], [text("So.")])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.turn, *results_of(message))
            while len(stage.standin.messages) < 3:
                await trio.lowlevel.checkpoint()
            fed.set()
        assert client.history[-1]["content"][-1] == text("So.")
        assert ALL_SHOWN in json.dumps(stage.upstream[-1]["messages"])
        await stage.check(grows=True)


COMES_BACK = "is restored here"
STANDS = "is in your context in full"


class Twice:
    """A managed conversation with an evicted object, whose last request is sent twice: the model asks for the object
    in the first attempt and reads a file in the second.
    """

    def __init__(self, stage: Stage, client: Client, gone: str) -> None:
        self.stage = stage
        self.client = client
        self.gone = gone

    @classmethod
    async def begin(cls, stage: Stage, clock: Clock) -> tuple["Twice", list[Json]]:
        """The conversation, with the replies of the first and of the second attempt."""
        client = client_of(stage)
        message = await explore(client, stage, 18)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 2, first=18)
        gone = next(each.object for each in await stage.events_of(ObjectDegraded))
        client.history.append({"role": "user", "content": results_of(message)})
        answer(stage, [think(), restore(gone)], [think(), read("/first.py")])
        first = await client.send()
        answer(stage, [think(), read("/second.py")])
        second = await client.send()
        return cls(stage, client, gone), [first, second]

    async def continue_from(self, reply: Json) -> str:
        """The memory result that the model gets if the client continues from this reply and the model then asks for
        the object.
        """
        self.client.history.append({"role": "assistant", "content": reply["content"]})
        answer(self.stage, [think(), restore(self.gone)], [think(), read("/third.py")])
        await self.client.turn(*results_of(reply))
        return json.dumps(self.stage.upstream[-1]["messages"][-1])

    async def is_evicted(self) -> bool:
        """Whether the memory holds that the branch shows the object at less than full size."""
        return self.gone in await below_full(self.stage)


@pytest.mark.release
@pytest.mark.parametrize(("number", "outcome"), [(1, COMES_BACK), *rarely([(0, STANDS)])])
async def test_memory_knows_what_the_attempt_that_the_client_continues_has_restored(number: int, outcome: str) -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        twice, replies = await Twice.begin(stage, clock)
        assert await twice.is_evicted()  # the second attempt did not show the object that the first one restored
        first, again = [event for event in await stage.events_of(ObjectDegraded) if event.object == twice.gone]
        assert (again.cause, again.after) == (Cause.ATTEMPT, first.after)
        assert outcome in await twice.continue_from(replies[number])
        assert not await twice.is_evicted()


RULES = "# claudeMd\n" + "".join(
    f"Rule {number}: never touch file_{number}.py without a test.\n" for number in range(60)
)
PROJECT = f"<system-reminder>\nAs you answer, you can use this context:\n{RULES}</system-reminder>"
DEFERRED = "<system-reminder>\nThese tools are deferred:\n" + "WebFetch\nNotebookEdit\n" * 80 + "</system-reminder>"
ENVIRONMENT = "Working directory: /src. " + "Agents, skills and what you must never do. " * 200
LATER = "<system-reminder>\n" + "The mode is plan: you MUST NOT edit. " * 60 + "</system-reminder>"


def as_claude_code(stage_url: str) -> Client:
    """A client that begins as Claude Code does: notes and the prompt, then a system message."""
    client = Client(stage_url, tools=TOOLS)
    client.history = [
        {"role": "user", "content": [text(PROJECT), text(DEFERRED), text("Review all of these files.")]},
        {"role": "system", "content": [text(ENVIRONMENT)]},
    ]
    return client


async def first_turn(client: Client) -> Json:
    message = await client.send()
    client.history.append({"role": "assistant", "content": message["content"]})
    return message


def texts(message: Json) -> list[str]:
    content = message["content"]
    return [block["text"] for block in content if block["type"] == "text"] if isinstance(content, list) else [content]


@pytest.mark.release
async def test_operator_text_stays_complete_and_in_its_place_in_every_epoch() -> None:
    clock = Clock()
    async with open_stage(window=30_000, clock=clock) as stage:
        client = as_claude_code(stage.url)
        answer(stage, [text("I look."), {"type": "tool_use", "name": "Read", "input": {"file_path": "/src/a.py"}}])
        message = await first_turn(client)
        message = await reads(client, stage, message, 4)
        note = await client.turn(*results_of(message), text(LATER))
        await reads(client, stage, note, 22, first=5)
        clock.now += 60 * MINUTES
        message = client.history[-1]
        await reads(client, stage, message, 1, first=50)
        assert len(await stage.events_of(EpochBegan)) >= 3
        for body in stage.upstream:
            messages = body["messages"]
            assert texts(messages[0])[:3] == [PROJECT, DEFERRED, "Review all of these files."]
            assert (messages[1]["role"], texts(messages[1])) == ("system", [ENVIRONMENT])
            assert [each["role"] for each in messages].count("system") == 1
        said_later = [LATER in texts(each) for each in stage.upstream[-1]["messages"]]
        assert said_later.count(True) == 1
        assert stage.upstream[-1]["messages"][said_later.index(True)]["role"] == "user"


async def test_object_whose_restore_was_withdrawn_for_lack_of_room_is_restored_when_asked_again() -> None:
    async with open_stage(window=3 * SMALL) as stage:
        client, message = client_of(stage), Json(content=[])
        while not message["content"] or not await stage.events_of(EpochBegan):
            message = await reads(client, stage, message, 1, first=len(client.history), size=150)
        gone = next(each.object for each in await stage.events_of(ObjectDegraded))
        too_long = {"status": 400, "message": "prompt is too long: 200005 tokens > 200000 maximum"}
        for refusals in ([{"reply": {"failure": too_long}, "times": 1}], []):
            stage.standin.script = script(
                {"reply": model_says(think(), restore(gone)), "times": 1},
                *refusals,
                {"reply": model_says(think(), read("/another.py"))},
            )
            message = await client.turn(*results_of(message, size=5))
        recorded = await stage.log.read(await stage.stream())
        last = [each for each in recorded if isinstance(each.envelope.event, ObjectDegraded)][-1]
        assert (last.envelope.event.cause, actor_of(last)) == (Cause.ATTEMPT, Actor.PROVIDER)  # type: ignore[union-attr]
        assert "value_149" in json.dumps(stage.upstream[-1]["messages"][-1])
        replayed = await review(MemoryArchive(stage.log), str(await stage.stream()))
        assert (replayed.differences, replayed.skipped) == ([], [])
