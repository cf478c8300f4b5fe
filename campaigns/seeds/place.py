"""Where the scenarios are played: a server process on a real PostgreSQL, a strict scripted provider, and the scripted
endpoint of a helper model.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
import trio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from mnemosyne.adapters.postgres.sql_views import ask_views
from mnemosyne.app.read_models import open_read_models
from mnemosyne.data_dir import local_token
from mnemosyne.http.inspector.api import ROOT
from mnemosyne.projections.catalog import ALL
from tests.app.home import Home, at_home
from tests.cli.support import MNEMOSYNE, mnemosyne
from tests.cli.test_mcp import call as call_tool
from tests.http.managing import Client, Json, assert_nothing_of_ours, model_says, script, text
from tests.http.test_epochs import TOOLS
from tests.http.test_session_knowledge import Working
from tests.scripted_helper import Endpoint, Label, answer_by_labels, open_endpoint
from tests.waiting import DEADLINE, LOOKS

SMALL = ("--manage-window", "20000")

INSTRUCTIONS = "Work carefully, and ask before you delete anything. " * 1_500

Output = Callable[[Json], Any]
"""A client tool's result for a call."""


def _no_output(call: Json) -> str:
    return f"{call['name']} is done."


@attrs.frozen
class Place:
    """A running server with everything around it. ``project`` is the folder in which the agents work."""

    home: Home
    url: str
    endpoint: Endpoint
    project: Path
    clients: list[Client] = attrs.field(factory=list)

    def client(self, session: str, *, instructions: str = "") -> Client:
        """A new session of an agent in the project. With long ``instructions``, as real agents have, its first request
        has room for notes.
        """
        ask: Json = {"name": "Ask", "description": instructions or "Asks.", "input_schema": {"type": "object"}}
        self.clients.append(Working(self.url, session=session, tools=[*TOOLS, ask], folder=str(self.project)))
        return self.clients[-1]

    @property
    def sent(self) -> list[Json]:
        return [each.json() for each in self.home.standin.messages]

    async def work(self, client: Client, prompt: str, *replies: Sequence[Json], output: Output = _no_output) -> Json:
        """Send a prompt and every result that the model asks for; return the final reply."""
        first = len(self.sent) + 1
        rules = [{"when": {"request": at}, "reply": model_says(*each)} for at, each in enumerate(replies, first)]
        self.home.standin.script = script(*rules)
        message = await client.turn(text(prompt))
        while message.get("stop_reason") == "tool_use":
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": each["id"], "content": output(each)} for each in calls]
            message = await client.turn(*results)
        assert "error" not in message, message
        return message

    async def told(self, *arguments: str) -> str:
        told = await trio.to_thread.run_sync(lambda: mnemosyne(*arguments, environ=self.home.environ))
        assert told.returncode == 0, told.stdout + told.stderr
        return told.stdout

    async def command(self, *arguments: str) -> Any:
        """The JSON output of a command."""
        return json.loads(await self.told(*arguments, "--json"))

    async def api(self, method: str, path: str, given: Json | None = None, /, **query: str) -> Any:
        """The answer of the HTTP API; any error fails."""
        headers = {"authorization": f"Bearer {local_token(self.home.config.data_dir)}"}
        async with httpx2.AsyncClient(base_url=f"{self.url}{ROOT}", headers=headers, timeout=DEADLINE) as http:
            answer = await http.request(method, path, json=given, params=query)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    @asynccontextmanager
    async def tools(self) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
        """The tools that an agent in the project has from `mnemosyne mcp`, through the official client."""
        where = [*MNEMOSYNE[1:], "mcp", "--project", str(self.project)]
        parameters = StdioServerParameters(command=MNEMOSYNE[0], args=where, env=self.home.environ)
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()

            async def call(name: str, **given: Any) -> Any:
                return await call_tool(session, name, **given)

            yield call

    async def until_owned(self) -> None:
        """Wait until the first client counts as the owner of the memory; it does soon after its first reply."""
        for _ in range(LOOKS):
            if await self.command("memory", "admit", "--list"):
                return
        pytest.fail("no client became the owner")

    async def rows(self, query: str) -> list[dict[str, Any]]:
        """The result of `mnemosyne sql`."""
        async with open_read_models(self.home.config, pytest.fail) as models:
            await models.refresh(ALL)
            found = await ask_views(models.database, query, tenant="local", seconds=30)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


@asynccontextmanager
async def opened(tmp_path: Path, dsn: str, *labels: Label, options: Sequence[str] = ()) -> AsyncIterator[Place]:
    """A place whose helper answers each task by these labels. In the end, the provider must have found nothing amiss,
    and no client have seen a memory tool.
    """
    project = tmp_path / "project"
    project.mkdir()
    async with open_endpoint(answer_by_labels(labels)) as endpoint, at_home(tmp_path, dsn) as home:
        helper = ["--helper", "openai", "--helper-url", f"{endpoint.url}/v1", "--helper-model", "scripted"]
        async with home.served("manage", *helper, "--helper-budget-share", "1", *options) as served:
            await served.until_worker(state="working")  # which asks the helper
            place = Place(home, served.url, endpoint, project)
            yield place
        home.assert_lawful()
        for client in place.clients:
            assert_nothing_of_ours(client)
