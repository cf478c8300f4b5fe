"""Real agents at long work in a small window: their context is rewritten again and again, and they finish it."""

import re
import tempfile
from hashlib import sha256
from pathlib import Path

import attrs
import pytest
import trio

from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.domain.objects.events import ObjectRestored
from mnemosyne.domain.session.round_events import EpochBegan, RoundBegan
from mnemosyne.lab.provider.reading import Json
from tests.clients.agents import ONE_IN_CI, Agent, Block
from tests.clients.desk import MNEMOSYNE, Desk, bare_environment, desk, finished, serving
from tests.clients.provider import standin_in_a_thread
from tests.clients.test_managed_agents import MANAGE, thinking

pytestmark = pytest.mark.clients

WINDOW = 45_000
"""Tokens: the system prompts and tools of either agent take half of it."""

FIRST, SECOND = 16, 9
"""Rounds before and after the server is started anew."""


def mark(number: int) -> str:
    """What stands in a file and nowhere else."""
    return f"MARK_{number:03}"


def file(project: Path, number: int) -> Path:
    return project / f"part_{number:03}.py"


def fill(project: Path) -> None:
    for number in range(FIRST + SECOND + 2):
        lines = [f"value_{line} = compute({line * 37 + number}, 'file {number}')" for line in range(300)]
        file(project, number).write_text("\n".join([f"# {mark(number)}", "state = 'old'", *lines]))


def step(at: Desk, number: int) -> Block:
    """Look at the next file; now and then change the one before besides."""
    calls = [at.agent.read(file(at.project, number))]
    if number % 5 == 4:
        calls.append(at.agent.edit(file(at.project, number - 1), "state = 'old'", "state = 'new'"))
    return {"content": [thinking(f"Number {number}."), *calls]}


def loop(at: Desk, prompt: str, numbers: range, last: str, begin: list[Block]) -> list[Json]:
    """The work by what was seen last, because a history that was rewritten does not tell how many rounds there were."""
    rules: list[Json] = [
        {"when": {"last": mark(number - 1), "tools": True}, "reply": step(at, number)} for number in numbers[1:]
    ]
    rules.append({"when": {"last": mark(numbers[-1]), "tools": True}, "reply": {"text": last}})
    first = step(at, numbers[0])["content"]
    return [{"when": {"last": prompt, "tools": True}, "reply": {"content": [*begin, *first]}}, *rules]


@pytest.mark.parametrize("agent", ONE_IN_CI)
def test_an_agent_finishes_long_work_in_a_small_window(agent: Agent, programs: Path, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mnemosyne-clients-") as folder, standin_in_a_thread() as standin:
        data_dir, window = Path(folder) / "data", ("--manage-window", str(WINDOW))
        with serving(standin, *window, data_dir=data_dir) as server:
            at = desk(agent, programs, server, tmp_path)
            fill(at.project)
            at.script(*loop(at, "Begin the long work", range(FIRST), "A part is done.", []))
            said = at.run("Begin the long work", options=(*at.server.options, *MANAGE))
            assert said.text == "A part is done."
        gone = [each for body in standin.messages for each in re.findall(r"(?<=\\n)#(\w{7}) ", body.body.decode())]
        assert gone
        with serving(standin, *window, data_dir=data_dir) as server:
            at = attrs.evolve(at, server=server)
            back = {"type": "tool_use", "name": "memory_restore", "input": {"object_id": gone[0], "reason": "needed"}}
            numbers = range(FIRST, FIRST + SECOND)
            at.script(*loop(at, "Go on with it", numbers, "All is done.", [thinking("What was it?"), back]))
            said = at.run("Go on with it", goes_on=True, options=(*at.server.options, *MANAGE))
            assert said.text == "All is done."
            events = recorded(data_dir)
            command = [*MNEMOSYNE, "verify", "--data-dir", str(data_dir)]
            finished(command, bare_environment(tmp_path), tmp_path)
        assert [str(each) for each in standin.violations] == []
        assert {each.status for each in standin.messages} == {200}
        assert len([each for each in events if isinstance(each, EpochBegan)]) >= 2
        assert [each.object for each in events if isinstance(each, ObjectRestored)] == [gone[0]]
        rounds = [each for each in events if isinstance(each, RoundBegan)]
        assert len(rounds) > FIRST + SECOND
        assert {each.sha256 for each in rounds} <= {sha256(each.body).digest() for each in standin.messages}
    for number in range(FIRST + SECOND - 1):
        state = "new" if number % 5 == 3 else "old"
        assert f"state = '{state}'" in file(at.project, number).read_text(), number


def recorded(data_dir: Path) -> list[object]:
    """All events of the log."""

    async def read() -> list[object]:
        async with open_storage(load({"data_dir": str(data_dir)}, {})) as storage:
            streams = await storage.events.streams()
            return [each.envelope.event for stream in streams for each in await storage.events.read(stream)]

    return trio.run(read)
