"""Scenes for golden logs, each with another part of a server's events."""

from collections.abc import Sequence

import attrs

from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne_lab.provider.server import open_standin
from tests.actors.summaries import long_text
from tests.actors.support import StoppableLog
from tests.http.evicting import DECIDED, RECALL, Index, result
from tests.http.managing import Client, Json, Stage, bare_stage, model_says, recall, script, text, think
from tests.http.test_epochs import MINUTES, SMALL, TOOLS, Clock, answer, read, violations
from tests.http.test_stated_windows import read_files

DONE = [think("So that was it."), text("There it is.")]


async def filled(client: Client, stage: Stage) -> None:
    """Files are read until a rewrite evicts the first one."""
    await ask(client, stage, "Read the notes.", [think(), read("/docs/notes.md")], DONE)
    await ask(client, stage, "Read the parts.", [think(), read("/src/part_0.py"), read("/src/part_1.py")], DONE)
    assert await stage.events_of(EpochBegan)


async def ask(client: Client, stage: Stage, prompt: str, *replies: Sequence[Json]) -> None:
    """Send the prompt and every requested result, of files that contain a decision."""
    answer(stage, *replies)
    message = await client.turn(text(prompt))
    while message.get("stop_reason") == "tool_use":
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        message = await client.turn(*(result(each, DECIDED) for each in calls))
    assert "error" not in message, message


async def waited(log: StoppableLog) -> None:
    """A small conversation waits for its memory tools, which are added after a break."""
    clock = Clock()
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        bare_stage(standin=standin, log=log, clock=clock, index=Index(log), manages_small=False) as stage,
    ):
        standin.script = script({"replies": [model_says(think(), text(f"Answer {number}.")) for number in range(3)]})
        client = Client(stage.url)
        await client.turn(text("Look."))
        clock.now += 10 * MINUTES
        await client.turn(text(long_text("parser", 80_000)))
        await client.turn(text("Thanks."))
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # memory tools added
        assert [len(each.json()["tools"]) > len(client.tools) for each in standin.messages] == [False, True, True]


async def joined(log: StoppableLog) -> None:
    """A conversation is observed until a compaction, with which the memory tools join behind the cached head."""
    clock = Clock()
    async with (
        open_standin({"rules": []}, clock=lambda: clock.now / 1e6) as standin,
        bare_stage(standin=standin, log=log, window=SMALL, clock=clock, index=Index(log)) as stage,
    ):
        registry = stage.process.opener.registry
        registry.settings = attrs.evolve(registry.settings, host="api.anthropic.com")
        client = Client(stage.url, tools=TOOLS)
        await filled(client, stage)
        await ask(client, stage, RECALL, [think(), recall(RECALL)], [think(), text("Seven.")])
        assert violations(stage) == []
        assert {len(each.json()["tools"]) for each in standin.messages} == {len(TOOLS)}


async def stated_window(log: StoppableLog) -> None:
    """The provider refuses a prompt and states a window that is smaller than the table's."""
    clock = Clock()
    async with (
        open_standin({"rules": []}, clock=lambda: clock.now / 1e6) as standin,
        bare_stage(standin=standin, log=log, clock=clock, index=Index(log)) as stage,
    ):
        client = Client(stage.url, tools=TOOLS)
        await read_files(client, standin, 14)
        assert [message.status for message in standin.messages].count(400) == 1


SCENES = {
    "stated-window": stated_window,
    "joined": joined,
    "waited": waited,
    "betas": waited,  # by a server that records the betas of its clients
    "measured": waited,  # by a ledger that measures the parts of a prompt separately
    "by-model": waited,  # by a server that leaves the window to the model
}
"""The scenes that were played more than once or last, as examples for the next log. The logs in
``tests/golden`` document the others.
"""
