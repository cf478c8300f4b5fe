"""Work that goes on through four sessions: a plan and a decision, their continuation, what was learned of it, and its
use. Two server processes after each other over one database, a provider that refuses whatever the real one refuses.
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
"""As large as what agents offer: a session is told of the past in a small part of its first request."""

STEPS = ("read the settings", "change the port", "run the tests")
DECIDED = "Let's use port 8443 for the billing service."
LEARNED = "To move the billing service to another port: change its settings, then run make check"


def list_steps(done: int) -> Json:
    items = [{"content": step, "status": "completed" if at < done else "pending"} for at, step in enumerate(STEPS)]
    return {"type": "tool_use", "name": "TodoWrite", "input": {"todos": items}}


@attrs.define
class Agent(Client):
    """An agent with a list of things to do, which works in a folder and reaches the memory by open tools, too."""

    home: Home = attrs.field(kw_only=True)

    def body(self) -> bytes:
        body = json.loads(super().body())
        folder = {"type": "text", "text": f"Working directory: {self.home.folder}"}
        return json.dumps({**body, "system": [*body["system"], folder]}).encode()

    async def does(self, prompt: str, *replies: Json) -> str:
        """What it is told of the past when it begins with this prompt; the provider answers so."""
        self.home.standin.script = from_data({"rules": [{"replies": [*replies]}]})
        await self.work(prompt)
        events = await self.home.events(self.session)
        told = [each.text for each in events if isinstance(each, KnowledgeTold)]
        assert all(each in self.home.standin.messages[-1].body.decode() for each in map(_as_sent, told))
        return "\n".join(told)

    async def calls(self, tool: str, **given: Any) -> Any:
        """What an open tool of the memory gives."""
        config = load({}, self.home.environ)
        async with open_tools(config, self.home.folder, lambda _: None) as tools:
            return await tools.call(tool, given)

    async def recalls(self, question: str) -> Json:
        """The entry that answers best."""
        return dict((await self.calls("recall", question=question))["entries"][0])


def _as_sent(block: str) -> str:
    return json.dumps(block, ensure_ascii=False)[1:-1]


@asynccontextmanager
async def server_of(home: Home) -> AsyncIterator[Any]:
    """A process that serves; it makes an agent for a session."""
    async with home.serving("manage") as url:
        yield lambda name: Agent(url, session=name, tools=[TODO], home=home)


async def test_what_one_session_plans_and_decides_the_next_goes_on_with_and_two_later_ones_use(
    tmp_path: Path, dsn: str
) -> None:
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
