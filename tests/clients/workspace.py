"""An agent's workspace: a server, a home and a project without the developer's own files, and a deadline."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from mnemosyne_lab.provider import Standin, from_data
from mnemosyne_lab.provider.reading import Json
from tests.clients.agents import Agent, AgentOutput
from tests.clients.record import OPEN, Conversation, conversations
from tests.waiting import DEADLINE, LOOKS, PATIENT

MNEMOSYNE = (sys.executable, "-P", "-m", "mnemosyne")
CLIENT_SECONDS = 5.0 * DEADLINE
"""A client with many rounds, each of which starts programs."""

SERVER_SECONDS = DEADLINE

NOWHERE = "http://127.0.0.1:9"
"""A proxy that is not there: what an agent sends to anybody but this machine fails at once."""

KEPT = ("PATH", "PYTHONPATH", "LANG", "COVERAGE_PROCESS_START", "MNEMOSYNE_SEMANTIC_SEARCH")


def bare_environment(home: Path) -> dict[str, str]:
    """No settings of the developer and no network access."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE)
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    return kept | proxies | folders | PATIENT | {"HOME": str(home), "ANTHROPIC_API_KEY": "a-dummy-key"}


@attrs.frozen
class Server:
    """A `mnemosyne serve` in front of a scripted provider."""

    url: str
    data_dir: Path
    standin: Standin

    @property
    def options(self) -> list[str]:
        """The options that make `mnemosyne run` join this server."""
        port = self.url.rpartition(":")[2]
        return ["--data-dir", str(self.data_dir), "--upstream", self.standin.url, "--port", port]


@contextmanager
def serving(standin: Standin, *options: str, data_dir: Path | None = None) -> Iterator[Server]:
    """A server with a new data directory, or with this one. Its output is shown if it does not start."""
    # Not pytest's own temporary folder, which keeps its content for three runs, 40 MB each.
    with tempfile.TemporaryDirectory(prefix="mnemosyne-clients-") as folder:
        home = Path(folder)
        data_dir, errors = data_dir or home / "data", home / "stderr"
        command = [*MNEMOSYNE, "serve", "--port", "0", "--data-dir", str(data_dir), "--upstream", standin.url]
        command.extend(options)
        with (
            errors.open("wb") as stderr,
            subprocess.Popen(
                command, env=bare_environment(home), stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            ) as process,
        ):
            try:
                assert process.stdout is not None
                ready, _, _ = select.select([process.stdout], [], [], SERVER_SECONDS)
                words = process.stdout.readline().decode().split() if ready else []
                assert words[:3] == ["mnemosyne", "listening", "on"], errors.read_text()
                yield Server(words[3], data_dir, standin)
                process.terminate()
                assert process.wait(SERVER_SECONDS) == 0, errors.read_text()
                assert not list(data_dir.rglob("postmaster.pid")), f"its database runs on. {errors.read_text()}"
            finally:
                process.kill()


@attrs.frozen(kw_only=True)
class Visit:
    """The activity of one test at a server. ``since`` is its start in µs of UTC."""

    server: Server
    since: int

    @property
    def standin(self) -> Standin:
        return self.server.standin

    def script(self, *rules: Json) -> None:
        """The provider's replies from now on."""
        self.standin.script = from_data({"rules": list(rules)})

    def recorded(self, data_dir: Path | None = None) -> Conversation:
        """The only conversation in the log since then, whose requests are those that the provider received. Waits
        for it, because with a slow database a client gets its reply before the turn's end is recorded.
        """
        sent = sorted(each.body for each in self.standin.messages)
        (found,) = self.conversations(data_dir)
        assert sorted(turn.body for turn in found.turns) == sent
        assert found.history.gaps == []
        assert self.standin.violations == []
        return found

    def conversations(self, data_dir: Path | None = None) -> list[Conversation]:
        """The conversations in the log since then, once they contain all requests to the provider and have ended."""
        found: list[Conversation] = []
        for _ in range(LOOKS):
            found = conversations(data_dir or self.server.data_dir, since=self.since)
            turns = [turn for each in found for turn in each.turns]
            if len(turns) >= len(self.standin.messages) and all(turn.outcome != OPEN for turn in turns):
                break
        return found

    def conversation(self, data_dir: Path | None = None) -> Conversation:
        """The only conversation, which must be without errors: each turn was sent once, answered and finished."""
        found = self.recorded(data_dir)
        assert {turn.attempt for turn in found.turns} == {1}
        assert {turn.outcome for turn in found.turns} <= {"200 tool_use", "200 end_turn"}
        return found


def visit(server: Server) -> Visit:
    """Start a visit. The provider forgets earlier requests."""
    server.standin.exchanges.clear()
    server.standin.violations.clear()
    return Visit(server=server, since=time.time_ns() // 1000)


@attrs.frozen(kw_only=True)
class Workspace(Visit):
    """One agent with one project."""

    agent: Agent
    home: Path
    project: Path
    programs: Path

    def run(
        self, prompt: str, *, goes_on: bool = False, fork_of: str = "", options: Sequence[str] = (), **variables: str
    ) -> AgentOutput:
        """Run the agent with `mnemosyne run` to its end; by default it joins the server. Fails unless the run
        succeeds.
        """
        run = [*MNEMOSYNE, "run", *(options or self.server.options), "--"]
        return self._finished([*run, *self.agent.command(prompt, goes_on=goes_on, fork_of=fork_of)], variables)

    def run_alone(self, prompt: str, **variables: str) -> AgentOutput:
        """Run the agent to its end without Mnemosyne."""
        return self._finished(self.agent.command(prompt), variables)

    @property
    def environment(self) -> dict[str, str]:
        """The agent's environment."""
        environ = bare_environment(self.home) | dict(self.agent.environment)
        return environ | {"PATH": f"{self.programs}:{environ['PATH']}"}

    def _finished(self, command: Sequence[str], variables: Mapping[str, str]) -> AgentOutput:
        return self.agent.parse_output(finished(command, self.environment | dict(variables), self.project))


def open_workspace(agent: Agent, programs: Path, server: Server, folder: Path) -> Workspace:
    """A new home, and a git project with two files."""
    home, project = folder / "home", make_project(folder)
    settings = home / "config/opencode/opencode.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"snapshot": false}')  # else it commits the project to a repository of its own at every step
    began = visit(server)
    return Workspace(server=server, since=began.since, agent=agent, home=home, project=project, programs=programs)


def make_project(folder: Path) -> Path:
    """A git project with two files below a folder."""
    project = folder / "project"
    project.mkdir()
    (project / "notes.txt").write_text("one\ntwo\nthree\n")
    (project / "more.txt").write_text("four\n")
    git = ["git", "-c", "user.name=Tester", "-c", "user.email=tester@example.invalid"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Begin"]):
        subprocess.run([*git, *arguments], cwd=project, env=bare_environment(folder), check=True)
    return project


def files_in(project: Path) -> dict[str, str]:
    """The text of each file of a project, without git's own and logs."""
    files = (file for file in project.rglob("*") if file.is_file() and file.suffix != ".log")
    texts = {str(file.relative_to(project)): file.read_text() for file in files if ".git" not in file.parts}
    assert texts
    return texts


def finished(command: Sequence[str], environ: dict[str, str], directory: Path) -> str:
    """Run a command and return its output. Fails with the output unless it succeeds in time. Ends its processes."""
    with subprocess.Popen(
        command,
        env=environ,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=CLIENT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            pytest.fail(f"{command} did not end within {CLIENT_SECONDS:g} s.\n{output}\n{errors}")
    if process.returncode:
        pytest.fail(f"{command} ended with {process.returncode}.\n{output}\n{errors}")
    return output


def replayed(
    command: Sequence[str], session: str, server: Server, environ: dict[str, str], project: Path, *options: str
) -> Any:
    """Replay a session with a client that has no key, unless it goes live; return the report."""
    if "--until" not in options:
        environ = {name: value for name, value in environ.items() if not name.endswith("API_KEY")}
    replay = [*MNEMOSYNE, "replay", session, *options, "--json", "--data-dir", str(server.data_dir), "--", *command]
    output = finished(replay, environ, project)
    return json.loads(output[output.index('{\n  "session"') :])
