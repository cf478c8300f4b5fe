"""For all of this folder: the agents, and one server with its database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import workspace as workspaces
from tests.clients.agents import AGENTS, Agent
from tests.clients.installing import installed
from tests.clients.provider import standin_in_a_thread
from tests.clients.workspace import Server, Workspace, serving


@pytest.fixture(scope="session")
def programs() -> Path:
    """The paths of `claude`, `codex` and `opencode`."""
    return installed()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server in front of a strict provider, with an embedded database; each test reads its own part of the log."""
    with standin_in_a_thread() as standin, serving(standin) as server:
        yield server


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each client in turn."""
    agent: Agent = request.param
    return agent


@pytest.fixture
def workspace(agent: Agent, programs: Path, server: Server, tmp_path: Path) -> Workspace:
    """That client with a project."""
    return workspaces.open_workspace(agent, programs, server, tmp_path)
