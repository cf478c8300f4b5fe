"""Plans and repetitions are read from a session's log, over successive windows, each call once."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.domain.history.plans import WorkPlan
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.errors import LogDamaged
from mnemosyne.services.checkpoints import name
from mnemosyne.services.forgetting import forget
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.observing import NOTHING, find_open_plan, no_observations, observe
from tests.domain.history.test_plans import todos
from tests.not_none import not_none
from tests.services.talking import Talk, assistant, body, plain, talking, user

GOES_ON = (
    "This session is being continued from a previous conversation that ran out of context. The summary:\nWe worked."
)


def called(tool: str, given: dict[str, Any], said: str, number: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": said}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


async def seen(talk: Talk, branch: str | None = None) -> WorkPlan | None:
    return (await observe(talk.archive, talk.stream, branch, 0, no_observations())).plan


async def test_the_plan_is_the_one_in_the_last_request() -> None:
    async with talking() as talk:
        history = [user("Do it all.")]
        await talk.ask(body(history))
        assert await seen(talk) is None
        history += called("TodoWrite", todos(a="in_progress", b="pending"), "ok", 1)
        await talk.ask(body(history))
        found = not_none(await seen(talk))
        assert (found.progress, found.turn) == ("0 of 2", 2)
        # A sub-agent that sent the last request has a list of its own.
        agent = [user("Look."), *called("TodoWrite", todos(x="completed"), "ok", 2)]
        await talk.ask(body(agent), ("x-claude-code-agent-id", "agent-7"))
        assert await seen(talk) == found


async def test_a_plan_continues_in_the_next_window() -> None:
    """After compaction a client no longer sends the calls that made its tasks, and uses their numbers."""
    async with talking() as talk:
        history = [user("Do it all.")]
        await talk.ask(body(history))
        history += called("TaskCreate", {"subject": "Look"}, "Task #1 created successfully: Look", 1)
        history += called("TaskCreate", {"subject": "Mend"}, "Task #2 created successfully: Mend", 2)
        await talk.ask(body(history))
        succeeded = [user(GOES_ON), *called("TaskUpdate", {"taskId": "1", "status": "completed"}, "ok", 3)]
        await talk.ask(body(succeeded))
        branches = (await talk.history()).lines
        found = not_none(await seen(talk))
        assert len(branches) == 2
        assert [(each.text, each.state.value) for each in found.items] == [("Look", "done"), ("Mend", "open")]


async def test_an_open_plan_is_that_of_the_first_session_that_follows_one() -> None:
    async with talking() as talk:
        history = [user("Do it."), *called("TodoWrite", todos(a="completed", b="pending"), "ok", 1)]
        await talk.ask(body(history))
        found = not_none(await find_open_plan(talk.archive, [UUID(int=1), talk.stream]))
        assert (found["session"], found["progress"]) == (str(talk.stream), "1 of 2")
        await talk.ask(body([*history, assistant("Now."), *called("TodoWrite", todos(b="completed"), "ok", 2)]))
        assert await find_open_plan(talk.archive, [talk.stream]) is None


async def test_a_damaged_session_does_not_hide_the_open_plan_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking() as talk:
        await talk.ask(body([user("Do it."), *called("TodoWrite", todos(a="pending"), "ok", 1)]))
        read = talk.archive.log.read

        async def read_whole(stream: UUID) -> Sequence[Recorded[Event]]:
            if stream != talk.stream:
                raise LogDamaged("a page of its files is torn")
            return await read(stream)

        monkeypatch.setattr(talk.archive.log, "read", read_whole)
        found = await find_open_plan(talk.archive, [UUID(int=1), talk.stream])
    assert found is not None
    assert found["session"] == str(talk.stream)


async def test_cached_observations_are_read_again_after_more_turns() -> None:
    async with talking() as talk:
        known = no_observations()
        history = [user("Do it."), *called("TodoWrite", todos(a="pending"), "ok", 1)]
        await talk.ask(body(history))
        first = await observe(talk.archive, talk.stream, None, 1, known)
        await talk.ask(body([*history, assistant("Now."), *called("TodoWrite", todos(a="completed"), "ok", 2)]))
        assert await observe(talk.archive, talk.stream, None, 1, known) is first
        again = await observe(talk.archive, talk.stream, None, 2, known)
        assert again.plan is not None
        assert not again.plan.is_followed


async def test_cached_observations_include_later_checkpoints_and_end_with_deletion() -> None:
    async with talking() as talk:
        known = no_observations()
        await talk.ask(body([user("Do it."), *called("TodoWrite", todos(a="pending"), "ok", 1)]))
        assert (await observe(talk.archive, talk.stream, None, 1, known)).checkpoints == ()
        for count, checkpoint in enumerate(("begun", "again"), 1):
            await name(talk.archive, str(talk.stream), checkpoint, branch="main", turn=1, stamp=WriteStamp(9, "c"))
            found = await observe(talk.archive, talk.stream, None, 1, known)
            assert [each.name for each in found.checkpoints] == ["begun", "again"][:count]
            assert found.plan is not None
            uncached = await observe(talk.archive, talk.stream, None, 1, no_observations())
            assert found.checkpoints == uncached.checkpoints
        assert await observe(talk.archive, talk.stream, "nobody", 0, no_observations()) == attrs.evolve(
            NOTHING, checkpoints=found.checkpoints
        )
    await forget(talk.archive, talk.stream, lambda: 10, "c")
    for seen in (known, no_observations()):
        assert await observe(talk.archive, talk.stream, None, 1, seen) == NOTHING
    assert await observe(plain(), talk.stream, None, 0, no_observations()) == NOTHING


async def test_a_repetition_is_recent_for_a_few_turns_only() -> None:
    async with talking() as talk:
        history = [user("Make it.")]
        for number in range(3):
            history += called("Bash", {"command": "make"}, "no rule", number)
        await talk.ask(body(history[:3]))
        await talk.ask(body(history[:5]))
        await talk.ask(body(history))
        found = await observe(talk.archive, talk.stream, None, 0, no_observations())
        assert found.lately_repeated is found.repetitions[0]
        assert (found.repetitions[0].times, found.repetitions[0].turns) == (3, (1, 3))
        for number in range(3, 6):
            history += called("Bash", {"command": f"make part{number}"}, "done", number)
            await talk.ask(body(history))
        later = await observe(talk.archive, talk.stream, None, 0, no_observations())
        assert later.repetitions == found.repetitions
        assert later.lately_repeated is None
