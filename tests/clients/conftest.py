"""For all of this folder: the agents, and one server with its database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import desk as desks
from tests.clients.agents import AGENTS, Agent
from tests.clients.desk import Desk, Server, serving
from tests.clients.installing import installed
from tests.clients.provider import standin_in_a_thread


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where `claude`, `codex` and `opencode` are."""
    return installed()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of ours in front of a strict provider, with an embedded database; each test looks at what it did there
    itself.
    """
    with standin_in_a_thread() as standin, serving(standin) as server:
        yield server


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each client in turn."""
    agent: Agent = request.param
    return agent


@pytest.fixture
def desk(agent: Agent, programs: Path, server: Server, tmp_path: Path) -> Desk:
    """That client with a project."""
    return desks.desk(agent, programs, server, tmp_path)
