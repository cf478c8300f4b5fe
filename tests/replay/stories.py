"""Random stories of managed sessions: the actions of a user, an agent and its model, by seed.

They are played through a complete managing proxy with a strict provider, an index, summaries and a clock that jumps;
some with an index that hangs, late summaries, or other settings.
"""

import itertools
import json
import random
import re
from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.patience import Patience
from mnemosyne.domain.recall.object_search import SearchResult
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne_lab.provider.script import ScriptedReply
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import PATIENT, StoppableLog
from tests.http.evicting import Index
from tests.http.managing import Client, Json, open_stage, text, think
from tests.http.test_epochs import MINUTES, SMALL, TOOLS, Clock, edit, read, results_of, run

PROMPTS = (
    "Read part {0} of the parser and say what it does.",
    "As we decided earlier, how many retries does the upload queue of part {0} make?",
    "Now for something else: write the release notes of version {0}.",
    "Let's use exponential back-off in part {0}, because support asked for it.",
    "Go on.",
    "Thanks.",
)

MOST = 5
"""Replies of the model in one exchange that ask for something."""


@attrs.define
class Model:
    """A model that does anything that it may."""

    chance: random.Random
    asked: int = 0

    def reply(self, body: Any) -> ScriptedReply:
        self.asked += 1
        offered = {tool["name"] for tool in body["tools"]} & memory_tools.NAMES
        if self.asked > MOST or self.chance.random() < 0.3:
            self.asked = 0
            return ScriptedReply(content=[think(), text(self._words(body))])
        calls = [self._work()] if self.chance.random() < 0.7 or not offered else []
        if offered and (not calls or self.chance.random() < 0.15):
            calls += [self._memory(body) for _ in range(self.chance.choice((1, 1, 2)))]
        return ScriptedReply(content=[think(f"Step {self.chance.random()}."), *calls])

    def _words(self, body: Any) -> str:
        said = f"We decided to make {self.chance.randint(2, 9)} retries in part {self.chance.randint(0, 9)}. " * 3
        if self.chance.random() < 0.3:
            return f"{said}\n{OPENING}\ndrop: #{self._object(body)}\n{CLOSING}\n"
        return said

    def _work(self) -> Json:
        part = f"/src/part_{self.chance.randint(0, 9)}.py"
        return self.chance.choice((read, read, edit, run))(part)

    def _memory(self, body: Any) -> Json:
        name, given = self.chance.choice(
            (
                (memory_tools.QUERY, {"question": f"how many retries in part {self.chance.randint(0, 9)}?"}),
                (memory_tools.SEARCH, {"query": "value parser part"}),
                (memory_tools.RESTORE, {"object_id": self._object(body), "reason": "needed"}),
                (memory_tools.RELEASE, {"object_ids": [self._object(body)], "reason": "done"}),
                (memory_tools.RESTORE, {"object_id": 7}),
            )
        )
        return {"type": "tool_use", "name": name, "input": given}

    def _object(self, body: Any) -> str:
        named = sorted(set(re.findall(r"#([a-z2-9]{7})\b", json.dumps(body["messages"]))))
        return self.chance.choice(named) if named else "abc2345"


@attrs.frozen
class Hanging:
    """An index that answers every other question, and else never."""

    index: Index
    number: Iterator[int] = attrs.field(factory=itertools.count)

    async def search(
        self, stream: UUID, question: str, among: Collection[str], limit: int, least: float = 0.2
    ) -> SearchResult:
        if next(self.number) % 2:
            await trio.sleep_forever()
        return await self.index.search(stream, question, among, limit, least)


HASTY = attrs.evolve(PATIENT, index=0.02)
NO_SUMMARIES = attrs.evolve(PATIENT, summaries=0.0)


async def play(seed: int, turns: int = 40, window: int = SMALL) -> StoppableLog:
    """The log of the story of a seed, of about so many turns."""
    chance, clock, log = random.Random(seed), Clock(), StoppableLog()
    patience: Patience = (PATIENT, HASTY, NO_SUMMARIES, PATIENT)[seed % 4]
    index = Index(log) if seed % 4 != 1 else Hanging(Index(log))
    async with (
        open_standin(clock=lambda: clock.now / 1e6, model=Model(chance).reply) as standin,
        open_stage(
            log=log,
            standin=standin,
            window=window + 500 * (seed % 3),
            clock=clock,
            index=index,
            patience=patience,
            strict=seed % 5 == 0,
            tool_budget=400 if seed % 7 == 0 else None,
            breaks=["R10"],
        ) as stage,
    ):
        client = Client(stage.url, tools=TOOLS)
        while len(client.bodies) < turns:
            clock.now += chance.choice((1, 1, 1, 20, 90)) * MINUTES
            await _exchange(chance, client)
            await _something_else(chance, client, late=len(client.bodies) > 3 * turns // 4)
        await stage.rounds()
        broken = [str(each) for each in standin.violations if each.violation.rule != "R10"]  # a switch changes tools
        assert broken == [], broken
    return log


async def _exchange(chance: random.Random, client: Client) -> None:
    message = await client.turn(text(chance.choice(PROMPTS).format(chance.randint(0, 9))))
    while message.get("stop_reason") == "tool_use":
        message = await client.turn(*results_of(message))
    assert "error" not in message, message


async def _something_else(chance: random.Random, client: Client, *, late: bool) -> None:
    """What happens now and then."""
    dice = chance.random()
    if dice < 0.1:  # the same request once more
        reply = client.history.pop()
        await client.send()
        client.history.append(reply)
    elif dice < 0.2 and len(client.history) > 6:  # back to an earlier prompt
        typed = [number for number, each in enumerate(client.history) if each["content"][0]["type"] == "text"]
        starts = [number for number in typed if client.history[number]["role"] == "user"]
        del client.history[chance.choice(starts[-3:]) :]
    elif dice < 0.3 and late:
        client.headers = {"x-mnemosyne-mode": "off"}
