"""Real agents at long work in a small window: their context is rewritten repeatedly, and they finish."""

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest

from campaigns.clients.long_work import LONG, NEW, OLD, SHORT, Rounds, Worker, finish_long_work
from campaigns.clients.ten_hours import WINDOW as DAY_WINDOW
from campaigns.clients.ten_hours import play
from tests.clients.agents import CLAUDE_CODE, OPENCODE, Agent, Block
from tests.clients.test_codex import codex, execute
from tests.clients.test_codex import run as run_of_codex
from tests.clients.test_responses_of_opencode import COMPATIBLE, OPENAI, opencode
from tests.clients.test_responses_of_opencode import run as run_of_opencode
from tests.clients.workspace import Server, Workspace, open_workspace

pytestmark = pytest.mark.clients

WINDOW = 45_000
"""Tokens: the system prompts and tools of an agent take up to half of it."""

Make = Callable[[Path, Path, Server], Worker]
"""From the folder of the programs, and one in which it may live."""


@attrs.frozen
class MessagesWorker:
    """A client of the Messages API."""

    workspace: Workspace

    @classmethod
    def make(cls, agent: Agent, programs: Path, folder: Path, server: Server) -> "MessagesWorker":
        return cls(open_workspace(agent, programs, server, folder))

    @property
    def home(self) -> Path:
        return self.workspace.home

    @property
    def project(self) -> Path:
        return self.workspace.project

    def look(self, file: Path) -> Block:
        return self.workspace.agent.read(file)

    def change(self, file: Path) -> Block:
        return self.workspace.agent.edit(file, OLD, NEW)

    def work(self, server: Server, prompt: str, *, goes_on: bool) -> str:
        return attrs.evolve(self.workspace, server=server).run(prompt, goes_on=goes_on).text


@attrs.frozen
class ShellWorker:
    """A client that does everything by commands. ``run`` makes a command call; ``speak`` sends the client a prompt."""

    home: Path
    project: Path
    run: Callable[[str], Block]
    speak: Callable[[Server, str, bool], str]

    def look(self, file: Path) -> Block:
        return self.run(f"cat {file}")

    def change(self, file: Path) -> Block:
        return self.run(f"sed -i {shlex.quote(f's/{OLD}/{NEW}/')} {file}")

    def work(self, server: Server, prompt: str, *, goes_on: bool) -> str:
        return self.speak(server, prompt, goes_on)


def make_codex(model: str | None, call: Callable[[str], Block], programs: Path, folder: Path, _: Server) -> Worker:
    def send_prompt(server: Server, prompt: str, goes_on: bool) -> str:
        return codex(server, programs, home, project, prompt, *(["resume", "--last"] if goes_on else []), model=model)

    home, project = _folders(folder)
    return ShellWorker(home, project, call, send_prompt)


def make_opencode(provider: str, programs: Path, folder: Path, _: Server) -> Worker:
    def send_prompt(server: Server, prompt: str, goes_on: bool) -> str:
        words = [*(["--continue"] if goes_on else []), prompt]
        return opencode(server, programs, home, *words, provider=provider, directory=project).strip().splitlines()[-1]

    home, project = _folders(folder)
    return ShellWorker(home, project, run_of_opencode, send_prompt)


def _folders(folder: Path) -> tuple[Path, Path]:
    home, project = folder / "home", folder / "project"
    for each in (home, project):
        each.mkdir()
    return home, project


WORKERS: dict[str, Make] = {
    "claude": partial(MessagesWorker.make, CLAUDE_CODE),
    "opencode": partial(MessagesWorker.make, OPENCODE),
    "codex": partial(make_codex, "gpt-5.5", run_of_codex),
    "codex with its default model": partial(make_codex, None, execute),
    "opencode with openai": partial(make_opencode, OPENAI),
    "opencode with openai-compatible": partial(make_opencode, COMPATIBLE),
}

IN_CI = ("claude", "codex", "codex with its default model")
"""One client of either company's, and either way in which Codex offers its tools: their runs take seconds of processor
time. The others and the long ones are for campaigns.
"""

CASES = [
    pytest.param(make, rounds, id=f"{name}, {rounds}", marks=() if in_ci else pytest.mark.soak)
    for name, make in WORKERS.items()
    for rounds, in_ci in ((SHORT, name in IN_CI), (LONG, False))
]


@pytest.mark.parametrize(("make", "rounds"), CASES)
def test_agent_finishes_long_work_in_a_small_window(make: Make, rounds: Rounds, programs: Path, tmp_path: Path) -> None:
    finish_long_work(partial(make, programs, tmp_path), rounds, WINDOW)


@pytest.mark.soak
@pytest.mark.parametrize("client", ["codex", "claude"])
def test_client_does_not_compact_in_a_long_managed_session(client: str, tmp_path: Path) -> None:
    played = play(client, tmp_path, 300, manage=True)
    assert [played.counts[each] for each in ("compactions", "refusals", "reads without the text")] == [0, 0, 0]
    assert played.largest <= DAY_WINDOW
