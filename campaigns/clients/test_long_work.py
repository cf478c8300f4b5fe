"""Real agents at long work in a small window: they read many files and change some, the server restarts in between, and
evicted content is requested again. Their context is rewritten repeatedly, and they finish.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import attrs
import pytest
import trio

from campaigns.clients.agents import CODEX, OPENCODE_COMPATIBLE, OPENCODE_OPENAI, Codex, work
from campaigns.clients.ten_hours import WINDOW as DAY_WINDOW
from campaigns.clients.ten_hours import play
from campaigns.scenarios.spoken import blocks_of
from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.domain.objects.events import ObjectRestored
from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.session.round_events import EpochBegan, RoundBegan
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider import from_data
from mnemosyne_lab.provider.openai_messages import list_tools
from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import CLAUDE_CODE, OPENCODE, Agent, Block
from tests.clients.provider import standin_in_a_thread
from tests.clients.workspace import MNEMOSYNE, Workspace, bare_environment, finished, open_workspace, serving
from tests.http.managing import bare

pytestmark = pytest.mark.clients

WINDOW = 45_000
"""Tokens: the system prompts and tools of an agent take up to half of it."""

BEGIN, GO_ON = "Begin the long work", "Go on with it"
OLD, NEW = "state = 'old'", "state = 'new'"
EPOCHS = 2
"""So often the window is rewritten at least."""

ROOM = 5_000
"""Tokens by which the window is larger after the restart, so that the restored object has room. The prompt before it
may fill the window, and its size depends on the length of the folder's path, which each call names.
"""


@attrs.frozen
class Rounds:
    """The number of rounds before and after the restart and resumption, and the lines of each file."""

    first: int
    second: int
    lines: int

    def __str__(self) -> str:
        return f"{self.first + self.second} rounds"


SHORT, LONG = Rounds(16, 9, lines=300), Rounds(36, 24, lines=150)
"""What shows all of it, and what the promise names."""


AGENTS: dict[str, Agent] = {
    "claude": CLAUDE_CODE,
    "opencode": OPENCODE,
    "codex": CODEX,
    "codex with its default model": Codex(None),
    "opencode with openai": OPENCODE_OPENAI,
    "opencode with openai-compatible": OPENCODE_COMPATIBLE,
}

IN_CI = ("claude", "codex", "codex with its default model")
"""One client of either company's, and either way in which Codex offers its tools: their runs take seconds of processor
time. The others and the long ones are for campaigns.
"""

CASES = [
    pytest.param(agent, rounds, id=f"{name}, {rounds}", marks=() if in_ci else pytest.mark.soak)
    for name, agent in AGENTS.items()
    for rounds, in_ci in ((SHORT, name in IN_CI), (LONG, False))
]


@pytest.mark.parametrize(("agent", "rounds"), CASES)
def test_agent_finishes_long_work_in_a_small_window(
    agent: Agent, rounds: Rounds, programs: Path, tmp_path: Path
) -> None:
    """In a window of so many tokens, then of ROOM more."""
    with tempfile.TemporaryDirectory(prefix="mnemosyne-clients-") as folder, standin_in_a_thread() as standin:
        data_dir = Path(folder) / "data"
        with serving(standin, "--manage", "--manage-window", str(WINDOW), data_dir=data_dir) as server:
            workspace = open_workspace(agent, programs, server, tmp_path)
            _fill(workspace.project, rounds)
            standin.script = from_data({"rules": _loop(workspace, BEGIN, range(rounds.first), "A part is done.", [])})
            assert work(workspace, BEGIN) == "A part is done."
        first = re.compile(r"\\n(?:\d+ objects: )?#(\w{7}) ")
        gone = [each for body in standin.messages for each in first.findall(body.body.decode())]
        assert gone
        with serving(standin, "--manage", "--manage-window", str(WINDOW + ROOM), data_dir=data_dir) as server:
            back = {"type": "tool_use", "name": "memory_restore", "input": {"object_id": gone[0], "target": "L1"}}
            begin: list[Block] = [{"type": "thinking", "thinking": "What was it?"}, back]
            numbers = range(rounds.first, rounds.first + rounds.second)
            standin.script = from_data({"rules": _loop(workspace, GO_ON, numbers, "All is done.", begin)})
            assert work(attrs.evolve(workspace, server=server), GO_ON, goes_on=True) == "All is done."
            verified = [*MNEMOSYNE, "verify", "--data-dir", str(data_dir)]
            finished(verified, bare_environment(workspace.home), workspace.home)
            events = recorded(data_dir)
        assert [str(each) for each in standin.violations] == []
        assert {each.status for each in standin.messages} == {200}
        bodies = [each.body for each in standin.messages]
    back_again = [each.object for each in events if isinstance(each, ObjectRestored)]
    assert back_again == [gone[0]]
    _assert_on_record(events, bodies, rounds)
    _assert_rewritten(events, bodies)
    _assert_right(workspace.project, rounds)
    _assert_nothing_of_ours(workspace.home)


def _fill(project: Path, rounds: Rounds) -> None:
    for number in range(rounds.first + rounds.second):
        lines = [f"value_{line} = compute({line * 37 + number}, 'file {number}')" for line in range(rounds.lines)]
        _file(project, number).write_text("\n".join([f"# {_mark(number)}", OLD, *lines]))


def _mark(number: int) -> str:
    return f"MARK_{number:03}"


def _file(project: Path, number: int) -> Path:
    return project / f"part_{number:03}.py"


def _step(workspace: Workspace, number: int) -> list[Block]:
    """Read the next file; sometimes also change the previous one."""
    calls = [
        {"type": "thinking", "thinking": f"Number {number}."},
        workspace.agent.read(_file(workspace.project, number)),
    ]
    return [*calls, workspace.agent.edit(_file(workspace.project, number - 1), OLD, NEW)] if number % 5 == 4 else calls


def _loop(workspace: Workspace, prompt: str, numbers: range, last: str, begin: list[Block]) -> list[Json]:
    """The next reply, derived from the last visible file, because a rewritten history does not show the number of
    rounds.
    """
    rules: list[Json] = [
        {"when": {"last": _mark(number - 1), "tools": True}, "reply": {"content": _step(workspace, number)}}
        for number in numbers[1:]
    ]
    rules.append({"when": {"last": _mark(numbers[-1]), "tools": True}, "reply": {"text": last}})
    first = _step(workspace, numbers[0])
    return [{"when": {"last": prompt, "tools": True}, "reply": {"content": [*begin, *first]}}, *rules]


def recorded(data_dir: Path) -> list[object]:

    async def read() -> list[object]:
        async with open_storage(load({"data_dir": str(data_dir)}, {})) as storage:
            streams = await storage.events.streams()
            return [each.envelope.event for stream in streams for each in await storage.events.read(stream)]

    return trio.run(read)


def _assert_on_record(events: Sequence[object], bodies: Sequence[bytes], rounds: Rounds) -> None:
    """The recorded and verified requests equal the provider's, one by one."""
    sent = Counter(sha256(body).digest() for body in bodies)
    ours = [each.sha256 for each in events if isinstance(each, RoundBegan)]
    assert len(ours) > rounds.first + rounds.second
    assert not Counter(ours) - sent
    assert sent.keys() <= {*ours, *(each.sha256 for each in events if isinstance(each, TurnBegan))}


def _assert_rewritten(events: Sequence[object], bodies: Sequence[bytes]) -> None:
    """The history was rewritten, and exactly where the log says so."""
    histories = [_history(body) for body in map(json.loads, bodies) if list(list_tools(body))]
    epochs = [each for each in events if isinstance(each, EpochBegan)]
    assert len(epochs) >= EPOCHS
    assert sum(after[: len(before)] != before for before, after in pairwise(histories)) == len(epochs)


def _history(body: Json) -> list[Json]:
    """The messages without cache markers."""
    items = body["input" if "input" in body else "messages"]
    own: list[Json] = bare(
        [{**each, "content": blocks_of(each["content"])} if each.get("content") else each for each in items]
    )
    return own


def _assert_right(project: Path, rounds: Rounds) -> None:
    for number in range(rounds.first + rounds.second - 1):
        assert (NEW if number % 5 == 3 else OLD) in _file(project, number).read_text(), number


def _assert_nothing_of_ours(home: Path) -> None:
    """No memory content in anything that a client keeps of a conversation."""
    stored = [each for each in home.rglob("*") if each.is_file() and each.stat().st_size < 10_000_000]
    assert stored
    assert not [each for each in stored if any(name.encode() in each.read_bytes() for name in NAMES)]


@pytest.mark.soak
@pytest.mark.parametrize("client", ["codex", "claude"])
def test_client_does_not_compact_in_a_long_managed_session(client: str, tmp_path: Path) -> None:
    played = play(client, tmp_path, 300, manage=True)
    assert [played.counts[each] for each in ("compactions", "refusals", "reads without the text")] == [0, 0, 0]
    assert played.largest <= DAY_WINDOW
