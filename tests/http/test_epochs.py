"""Rewritten contexts: epochs through a complete managing proxy, judged by the strict provider."""

import json
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.actors.epochs import Epochs
from mnemosyne.domain.history import memory_travel, time_travel
from mnemosyne.domain.history.loading import without_body
from mnemosyne.domain.objects.events import FaultKind, ObjectCreated, ObjectDegraded, ObjectFaulted, ObjectRestored
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import NOTE
from mnemosyne.domain.recall.memory_results import ALL_SHOWN
from mnemosyne.domain.session.round_events import EpochBegan, FallbackSent, RoundBegan
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.window import epochs
from mnemosyne.domain.window.assembly import LONG_GONE
from mnemosyne.domain.window.window_size import WINDOW
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import PATIENT, StoppableLog, assembled
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_nothing_of_ours,
    assert_prefixes,
    model_says,
    open_stage,
    prompt_blocks,
    recall,
    script,
    text,
    think,
)
from tests.profiles import examples

SMALL = 14_000
"""A window that a few large results fill."""

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


def restore(object_id: str) -> Json:
    return {"type": "tool_use", "name": "memory_restore", "input": {"object_id": object_id, "reason": "needed"}}


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
    return Client(stage.url, tools=TOOLS)


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


async def epochs_of(stage: Stage) -> list[EpochBegan]:
    return [event for event in await stage.events() if isinstance(event, EpochBegan)]


def violations(stage: Stage) -> list[str]:
    return [str(each) for each in stage.standin.violations]


async def test_full_window_is_rewritten_and_grows_again_from_there() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 12)
        began = await epochs_of(stage)
        assert len(began) >= 2
        assert violations(stage) == []
        turns = [each.turn for each in began]
        assert all(each.freed > 0 for each in began)
        sizes = [len(each.body) for each in stage.standin.messages]
        assert max(sizes) < len(client.bodies[-1]) / 2
        for start, end in zip([1, *turns], [*turns, len(sizes) + 1], strict=True):
            assert_prefixes(stage.upstream[start - 1 : end - 1])
        first = json.dumps(stage.upstream[turns[0] - 1]["messages"])
        assert '"thinking"' not in first
        gone = next(each for each in await stage.events() if isinstance(each, ObjectDegraded))
        assert f"#{gone.object} Read /src/part_0.py" in first
        assert_nothing_of_ours(client)
        await stage.rounds()


async def test_cold_cache_triggers_a_rewrite_and_the_head_keeps_a_longer_lifetime() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await explore(client, stage, 8, size=LARGE)
        assert await epochs_of(stage) == []
        clock.now += 24 * 60 * MINUTES  # a session that resumes after a day
        await reads(client, stage, message, 3, first=8, size=LARGE)
        (began,) = await epochs_of(stage)
        assert (began.turn, began.price, began.hour) == (9, 0, True)
        assert violations(stage) == []
        for body in stage.upstream[8:]:
            assert body["system"][1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
            assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
        assert_prefixes(stage.upstream[8:])
        await stage.rounds()


async def test_clock_that_jumps_back_begins_no_epoch() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 6)
        clock.now -= 24 * 60 * MINUTES
        await reads(client, stage, message, 3, first=6)
        assert await epochs_of(stage) == []
        assert violations(stage) == []


async def test_restored_object_is_at_its_old_place_in_the_next_epoch() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await explore(client, stage, 18)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 1, first=18)
        gone = next(each.object for each in await stage.events() if isinstance(each, ObjectDegraded))
        answer(stage, [think(), restore(gone)], [read("/x")])
        message = await client.turn(*results_of(message))
        assert [each.object for each in await stage.events() if isinstance(each, ObjectRestored)] == [gone]
        assert "memory_restore" in json.dumps(stage.upstream[-1]["messages"])
        message = await reads(client, stage, message, 1, first=19, beside=CHANGES)
        message = await reads(client, stage, message, 5, first=20)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 1, first=25)
        assert len(await epochs_of(stage)) == 2
        sent = json.dumps(stage.upstream[-1]["messages"])
        assert "memory_restore" not in sent
        assert f"#{gone}" not in sent
        assert violations(stage) == []
        assert_nothing_of_ours(client)
        await stage.rounds()


async def test_client_that_goes_back_before_an_epoch_begins_another_one() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 9)
        before = await epochs_of(stage)
        del client.history[5:]  # after the second file that was read
        answer(stage, [think(), read("/another.py")])
        message = await client.turn(text("No. Something else."))
        message = await reads(client, stage, message, 2, first=20)
        after = await epochs_of(stage)
        assert after[len(before)].reason == epochs.WENT_BACK
        assert after[len(before)].branch != "main"
        assert violations(stage) == []
        await stage.rounds()


async def test_repeated_earlier_turn_leaves_the_branch_unchanged() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 9)
        whole, before = list(client.history), await epochs_of(stage)
        del client.history[5:]
        await client.send()
        assert await epochs_of(stage) == before
        client.history = whole
        await reads(client, stage, message, 1, first=30)
        assert violations(stage) == []
        await stage.rounds()


async def test_same_request_twice_begins_one_epoch() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message: Json = {"content": []}
        while not message["content"] or not await epochs_of(stage):
            message = await reads(client, stage, message, 1, first=len(client.history))
        del client.history[-1]
        await client.send()
        assert len(await epochs_of(stage)) == 1
        assert prompt_blocks(stage.upstream[-1]) == prompt_blocks(stage.upstream[-2])
        assert violations(stage) == []
        await stage.rounds()


async def test_epoch_waits_for_the_next_prompt_under_manual_thinking() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        client.model = "claude-opus-4-5"
        client.members = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}
        message = await reads(client, stage, {"content": []}, 8, size=LARGE)
        clock.now += 60 * MINUTES
        await reads(client, stage, message, 1, first=8, size=LARGE)
        assert await epochs_of(stage) == []
        answer(stage, [think(), text("Done.")])
        await client.turn(*results_of(client.history[-1]))
        clock.now += 60 * MINUTES
        await client.turn(text("And now?"))
        assert len(await epochs_of(stage)) == 1
        assert violations(stage) == []
        await stage.rounds()


async def test_client_that_clears_an_old_result_in_a_tool_loop_keeps_its_thinking() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        client.model = "claude-opus-4-5"
        client.members = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}
        message = await reads(client, stage, {"content": []}, 8, size=LARGE)
        answer(stage, [think(), text("Done.")])
        await client.turn(*results_of(message))
        clock.now += 60 * MINUTES
        answer(stage, [think("Where was I?"), read("/src/again.py")])
        message = await client.turn(text("And now?"))
        assert len(await epochs_of(stage)) == 1
        client.history[2]["content"][0]["content"] = "[cleared]"
        answer(stage, [think(), read("/src/more.py")])
        message = await client.turn(*results_of(message))
        assert "Where was I?" in json.dumps(stage.upstream[-1]["messages"])
        await reads(client, stage, message, 2, first=20, size=LARGE)
        assert violations(stage) == []
        await stage.rounds()


async def test_hidden_result_is_sent_before_an_epoch_evicts_it() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 8, size=LARGE)
        answer(stage, [think(), restore("abcdefg"), read("/src/more.py")])
        message = await client.turn(*results_of(message))
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 1, first=8, size=LARGE)
        assert await epochs_of(stage) == []
        assert ALL_SHOWN in json.dumps(stage.upstream[-1]["messages"])
        clock.now += 60 * MINUTES
        await reads(client, stage, message, 1, first=9, size=LARGE)
        assert len(await epochs_of(stage)) == 1
        assert violations(stage) == []


async def test_bypassed_session_is_not_rewritten() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await explore(client, stage, 8, size=LARGE)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 1, first=8, size=LARGE)
        client.headers = {"x-mnemosyne-mode": "off"}
        for number in (9, 10):
            clock.now += 60 * MINUTES
            message = await reads(client, stage, message, 1, first=number, size=LARGE)
            assert "1h" not in json.dumps(stage.upstream[-1]["system"])
            assert NOTE not in json.dumps(stage.upstream[-1]["messages"])
        assert len(await epochs_of(stage)) == 1
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # without memory tools
        await stage.rounds()


async def test_bypassed_branch_is_recorded_in_full_and_grows_from_any_earlier_point() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
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
        await stage.rounds()


async def test_epoch_without_a_rewrite_shows_everything_in_full_and_later_rounds_keep_it() -> None:
    async with open_stage(window=SMALL) as stage:
        await reads(client_of(stage), stage, {"content": []}, 9)
        events = await stage.events()
    before = reduce(evolve, events, Session())
    last = without_body(next(each for each in reversed(events) if isinstance(each, RoundBegan)))
    assert isinstance(last, RoundBegan)
    gone = {each.id for each, fidelity in before.memory.standings(last.branch) if fidelity is not Fidelity.FULL}
    assert gone
    begun = {number: evolve(before, attrs.evolve(last, epoch=last.epoch + 1, round=number)) for number in (1, 2)}
    assert begun[2].memory == before.memory  # without the thinking that the provider refused
    assert begun[2].eviction_turns == before.eviction_turns
    assert all(fidelity is Fidelity.FULL for _, fidelity in begun[1].memory.standings(last.branch))
    assert all(before.eviction_turns.find_turn(last.branch, each) is not None for each in gone)
    assert all(begun[1].eviction_turns.find_turn(last.branch, each) is None for each in gone)
    assert evolve(before, attrs.evolve(last, turn=1, epoch=last.epoch + 1, round=1)).memory == before.memory


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

    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 9)
        before = await epochs_of(stage)
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
        assert await epochs_of(stage) == before
        assert violations(stage) == []


async def test_fork_from_before_a_restore_does_not_show_the_restored_object() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        message = await explore(client, stage, 18)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 2, first=18)
        gone = next(each.object for each in await stage.events() if isinstance(each, ObjectDegraded))
        shared = list(client.history)
        answer(stage, [think(), restore(gone)], [think(), read("/x")])
        await client.turn(*results_of(message))
        assert gone not in await below_full(stage)
        client.history = shared
        answer(stage, [think(), read("/y")])
        await client.turn(*results_of(message), text("No. Something else."))
        assert "memory_restore" not in json.dumps(stage.upstream[-1]["messages"])
        assert gone in await below_full(stage)
        assert violations(stage) == []


async def test_content_from_before_a_client_compaction_can_be_restored() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 9)
        answer(stage, [think(), text("<summary>Files were read.</summary>")])
        message = await client.turn(
            *results_of(client.history[-1]), text("CRITICAL: Respond with TEXT ONLY. Summarize.")
        )
        assert message["content"][-1] == text("<summary>Files were read.</summary>")
        whole = next(each.object for each in await stage.events() if isinstance(each, ObjectCreated) and each.places)
        begin = "This session is being continued from a previous conversation that ran out of context. Summary: …"
        client.history = []
        answer(stage, [think(), restore(whole)], [text("I see.")])
        await client.turn(text(begin))
        sent = json.dumps(stage.upstream[-1]["messages"])
        assert "There is no object" not in sent
        assert [each.object for each in await stage.events() if isinstance(each, ObjectRestored)] == [whole]
        assert violations(stage) == []
        await stage.rounds()


async def test_rereading_an_evicted_file_counts_as_a_silent_fault() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 8)
        answer(stage, [think(), read("/src/part_0.py")])
        message = await client.turn(*results_of(message))
        await reads(client, stage, message, 2, first=9)
        (fault,) = [each for each in await stage.events() if isinstance(each, ObjectFaulted)]
        assert fault.kind is FaultKind.IMPLICIT
        gone = [each.object for each in await stage.events() if isinstance(each, ObjectDegraded)]
        assert fault.object == gone[0]


async def test_turn_is_explained_by_its_epoch() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 8)
        (stream,) = await stage.log.streams()
        recorded = await stage.log.read(stream)
        for began in await epochs_of(stage):
            assert memory_travel.snapshot(recorded, "main", began.turn).epoch == began
        assert memory_travel.snapshot(recorded, "main", 1).epoch is None


async def test_failing_planner_costs_nothing_but_its_epoch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(epochs, "decide_epoch", broken)
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 6)
        assert await epochs_of(stage) == []
        assert violations(stage) == []
        assert_prefixes(stage.upstream)
        assert "beginning an epoch failed" in caplog.text


async def test_notes_count_old_evictions_instead_of_listing_them() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        await reads(client, stage, {"content": []}, 30, folder="/src" + "/a/folder/in/a/folder" * 4)  # long lines
        blocks = [block for message in stage.upstream[-1]["messages"] for block in message["content"]]
        notes = [block["text"] for block in blocks if block.get("text", "").startswith(NOTE)]
        lines = [line for words in notes for line in words.splitlines() if line.startswith("#")]
        assert 5 < len(lines) < 25
        assert any(LONG_GONE.partition("{}")[2] in words for words in notes)
        assert sum(map(len, lines)) * 0.366 < SMALL / 8
        assert violations(stage) == []
        await stage.rounds()


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
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 4)
        assert await epochs_of(stage) == []
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
        (epoch,) = await epochs_of(stage)
        assert epoch.turn == 6
        assert violations(stage) == []
        assert_nothing_of_ours(client)
        assert len(await stage.rounds()) == 6, "each is on record as it left"


async def test_requests_during_a_long_planner_outage_continue_the_sent_history_and_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 2)
        stage.process.registry.patience = HURRIED
        fed = await starved(monkeypatch)
        message = await reads(client, stage, message, 3, first=2)
        assert_prefixes([bare_of_thinking(body) for body in stage.upstream])
        fed.set()
        stage.process.registry.patience = PATIENT
        await reads(client, stage, message, 2, first=5)
        assert violations(stage) == []
        stream = await stage.stream()
        recorded = await stage.log.read(stream)
        history = time_travel.history_of("s", recorded)
        left = [
            await assembled(stage.log, time_travel.body_of(history, each.version), stream)
            for each in recorded
            if isinstance(each.envelope.event, RoundBegan | FallbackSent)
        ]
        assert left == [each.body for each in stage.standin.messages]


def bare_of_thinking(body: Json) -> Json:
    messages = [
        {**message, "content": [block for block in message["content"] if block["type"] != "thinking"]}
        for message in body["messages"]
    ]
    return {**body, "messages": messages}


async def test_hidden_calls_of_an_unplanned_turn_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
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
        assert_prefixes(stage.upstream)
        assert violations(stage) == []
        await stage.rounds()


STEPS = st.lists(
    st.sampled_from(("read", "again", "run", "edit", "say", "restore", "mixed", "pause", "back", "retry", "restart")),
    min_size=15,
    max_size=30,
)


@examples(8)
@given(steps=STEPS, window=st.sampled_from((5_000, SMALL, WINDOW)))
def test_random_stories_never_violate_provider_rules_and_every_round_is_rebuilt(steps: list[str], window: int) -> None:
    async def story() -> None:
        async with open_standin({"rules": []}) as standin:
            log, clock, client = StoppableLog(), Clock(), Client("", tools=TOOLS)
            left = list(enumerate(steps))
            while left:
                async with open_stage(standin=standin, log=log, window=window, clock=clock) as stage:
                    client.url = stage.url
                    while left and left[0][1] != "restart":
                        await play_step(stage, client, clock, *left.pop(0))
                        assert violations(stage) == []
                    left = left[1:]
            if standin.messages:
                await stage.rounds()
            assert_nothing_of_ours(client)

    trio.run(story)


async def play_step(stage: Stage, client: Client, clock: Clock, number: int, step: str) -> None:
    """One step of a story."""
    if step == "pause":
        clock.now += 10 * MINUTES
        return
    if step == "back" and len(client.history) > 4:
        del client.history[2 + number * 2 % (len(client.history) - 2) :]
    if step == "retry" and client.history and client.history[-1]["role"] == "assistant":
        del client.history[-1]
        message = await client.send()
        client.history.append({"role": "assistant", "content": message["content"]})
        return
    known = [each for each in await log_of(stage) if isinstance(each, ObjectDegraded)]
    path = f"/src/part_{number if step == 'read' else number % 3}.py"
    asked = restore(known[number % len(known)].object) if known else restore("abcdefg")
    asks: dict[str, list[Sequence[Json]]] = {
        "run": [[think(), run(f"make part_{number % 2}")]],
        "edit": [[think(), text("I change it."), edit(path)]],
        "say": [[think(), text(f"Step {number} is done.")]],
        "restore": [[think(), asked], [think("Ah."), read(path)]],
        "mixed": [[think(), asked, read(path)]],
    }
    rounds = asks.get(step, [[think(), read(path)]])
    answer(stage, *rounds, [text("And so on.")])
    content = results_of(client.history[-1]) if client.history and calls_of(client) else [text(f"Do step {number}.")]
    if client.history and client.history[-1]["role"] == "user":
        content = [*client.history.pop()["content"], text(f"And step {number}.")]
    message = await client.turn(*content)
    assert "error" not in message, message


def calls_of(client: Client) -> bool:
    return any(block["type"] == "tool_use" for block in client.history[-1]["content"])


async def log_of(stage: Stage) -> list[Any]:
    return list(await stage.events()) if await stage.log.streams() else []
