"""Work across four sessions: a plan and a decision, their continuation, a lesson learned, and its use. Two server
processes in sequence over one database, and a provider as strict as the real one.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.app.mcp import open_tools
from mnemosyne.config import load
from mnemosyne.domain.session.round_events import KnowledgeTold
from mnemosyne_lab.provider import from_data
from tests.app.home import Home, at_home
from tests.http.managing import Client, Json, model_says, text

TODO = {"name": "TodoWrite", "description": "Writes the list. " * 4_000, "input_schema": {"type": "object"}}
"""As large as agents' real tools: the past gets a small part of a session's first request."""

STEPS = ("read the settings", "change the port", "run the tests")
DECIDED = "Let's use port 8443 for the billing service."
LEARNED = "To move the billing service to another port: change its settings, then run make check"


def list_steps(done: int) -> Json:
    items = [{"content": step, "status": "completed" if at < done else "pending"} for at, step in enumerate(STEPS)]
    return {"type": "tool_use", "name": "TodoWrite", "input": {"todos": items}}


@attrs.define
class Agent(Client):
    """An agent with a to-do list, which works in a folder and also uses the memory's open tools."""

    home: Home = attrs.field(kw_only=True)

    def body(self) -> bytes:
        body = json.loads(super().body())
        folder = {"type": "text", "text": f"Working directory: {self.home.folder}"}
        return json.dumps({**body, "system": [*body["system"], folder]}).encode()

    async def does(self, prompt: str, *replies: Json) -> str:
        """The knowledge that it gets when it begins with this prompt; the provider answers this way."""
        self.home.standin.script = from_data({"rules": [{"replies": [*replies]}]})
        await self.work(prompt)
        events = await self.home.events(self.session)
        told = [each.text for each in events if isinstance(each, KnowledgeTold)]
        assert all(each in self.home.standin.messages[-1].body.decode() for each in map(_as_sent, told))
        return "\n".join(told)

    async def calls(self, tool: str, **given: Any) -> Any:
        """The result of an open memory tool."""
        config = load({}, self.home.environ)
        async with open_tools(config, self.home.folder, lambda _: None) as tools:
            return await tools.call(tool, given)

    async def recalls(self, question: str) -> Json:
        """The entry with the best match."""
        return dict((await self.calls("recall", question=question))["entries"][0])


def _as_sent(block: str) -> str:
    return json.dumps(block, ensure_ascii=False)[1:-1]


@asynccontextmanager
async def server_of(home: Home) -> AsyncIterator[Any]:
    """A server process, which makes an agent for a session."""
    async with home.serving("manage") as url:
        yield lambda name: Agent(url, session=name, tools=[TODO], home=home)


async def test_plans_decisions_and_lessons_of_one_session_reach_the_later_ones(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with server_of(home) as agent_of:
            plans = agent_of("plans")
            assert await plans.does(DECIDED, model_says(list_steps(1)), model_says(text("The plan stands."))) == ""
            await plans.calls("remember", text=DECIDED, kind="decision", session="plans")
            decision = await plans.recalls("Which port does the billing service use?")

        async with server_of(home) as agent_of:
            goes_on = agent_of("goes-on")
            told = await goes_on.does("Go on with the port of the billing service.", model_says(text("I look.")))
            assert decision["id"] in told
            assert DECIDED in told
            plan = (await goes_on.calls("memory_stats", session="plans"))["plan"]
            assert [each["text"] for each in plan["items"] if each["state"] == "open"] == [*STEPS[1:]]
            await goes_on.does("Do it.", model_says(list_steps(3)), model_says(text("All is done.")))
            assert (await goes_on.calls("memory_stats"))["plan"]["progress"] == "3 of 3"
            await goes_on.calls("remember", text=LEARNED, kind="procedure", session="goes-on")

            for name in ("uses", "uses-again"):
                user = agent_of(name)
                told = await user.does(
                    "Move the billing service to port 9443, as before.", model_says(text("As before."))
                )
                assert LEARNED in told
                assert DECIDED in told
            learned = await user.recalls("How is the billing service moved to another port?")
        home.assert_lawful()
        sources = [each["provenance"] for each in (decision, learned)]
        assert [(each["branch"], each["turn"]) for each in sources] == [("main", 2), ("main", 3)]
        sessions = [str(home.stream(name)) for name in ("plans", "goes-on")]
        assert [each["session"] for each in sources] == sessions
