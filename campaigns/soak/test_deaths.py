"""A managed or observed conversation reaches its end, valid and completely recorded, even if the server or its database
dies at any named point of the code.
"""

import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import pytest
import trio

from campaigns.soak.dying import DATABASE, PLACES, POINTS, SERVER, died_file, method_at
from mnemosyne.app.storage import open_storage
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from mnemosyne_lab.provider import from_data
from tests.actors.support import rebuilt
from tests.app.home import Home, at_home
from tests.cli.support import MNEMOSYNE
from tests.http.managing import Client, Json, look, model_says, recall, text, think
from tests.waiting import DEADLINE, IMPATIENT

WINDOW = 16_000
LONGEST_LIFE, LIFE_WITHOUT_DATABASE = 5, 3
"""Complete replies before a surviving server is replaced, and after a database died."""

LATEST = 4
"""The most passes of a point before a death there."""

READS = 3
"""The files read for each prompt, in order."""

LOOKS = [model_says(think(f"I look, {number}."), look(at=number)) for number in range(READS)]
HIDDEN = model_says(think(), recall())
DONE = model_says(think("Well."), text("It is there."))
SCRIPTS = {"manage": [*LOOKS, HIDDEN, DONE], "observe": [*LOOKS, DONE]}
"""The model's replies to each prompt, by the mode of the server."""


@attrs.frozen
class Death:
    """The victim, the point, and the number of passes before its death."""

    point: str
    passes: int
    victim: str

    @property
    def program(self) -> list[str]:
        return [sys.executable, "-m", "campaigns.soak.dying", self.point, str(self.passes), self.victim]


@attrs.define
class Campaign:
    """A conversation with a server that is restarted after each death."""

    home: Home
    mode: str
    deaths: list[Death]
    prompts: int
    client: Client = attrs.field(factory=lambda: Client("", session="s"))
    up: trio.Event = attrs.field(factory=trio.Event)
    died: list[Death] = attrs.field(factory=list)
    whole: list[bytes] = attrs.field(factory=list)
    """The requests whose replies the client saw to their end."""

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve)
            for number in range(self.prompts):
                await self._work(f"Number {number}: where is it?")
            nursery.cancel_scope.cancel()

    async def _serve(self) -> None:
        """One server after the other: those with a victim, then one that lives."""
        for death in self.deaths:
            async with self._served(death.program) as process:
                if await self._died(process):
                    self.died.append(death)
        async with self._served(MNEMOSYNE) as process:
            await process.wait()

    @asynccontextmanager
    async def _served(self, program: Sequence[str]) -> AsyncIterator[trio.Process]:
        options = ("--manage-window", str(WINDOW))
        async with self.home.served(self.mode, *options, *IMPATIENT, program=program) as served:
            self.client.url = served.url
            if not self.whole:  # the first request must wait for its session, otherwise the session is only observed
                await served.until_worker(state="working")
            self.up.set()
            try:
                yield served.process
            finally:
                self.up = trio.Event()

    async def _died(self, process: trio.Process) -> bool:
        """Wait until the victim has died and the survivor has worked on for a while, or until no death is expected
        any more.
        """
        file = died_file(self.home.environ)
        enough = len(self.whole) + LONGEST_LIFE
        while process.poll() is None and len(self.whole) < enough:
            if file.exists() and enough > len(self.whole) + LIFE_WITHOUT_DATABASE:
                enough = len(self.whole) + LIFE_WITHOUT_DATABASE
            await trio.sleep(0.02)  # neither reports its death
        died = file.exists()
        file.unlink(missing_ok=True)
        return died

    async def _work(self, prompt: str) -> None:
        """A prompt and every requested result, each request repeated until its reply is complete."""
        content = [text(prompt)]
        while True:
            self.client.history.append({"role": "user", "content": content})
            message = await self._persist()
            self.client.history.append({"role": "assistant", "content": message["content"]})
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            if not calls:
                return
            content = [result_of(call) for call in calls]

    async def _persist(self) -> Json:
        with trio.fail_after(DEADLINE):
            while True:
                await self.up.wait()
                with suppress(OSError):
                    message = await self.client.send()
                    reply = self.client.replies[-1]
                    assert reply.status in (0, 200, 500, 502, 503, 529), reply.body
                    if reply.status == 200 and not reply.cut and b"event: message_stop\n" in reply.body:
                        self.whole.append(self.client.bodies[-1])
                        return message
                await trio.sleep(0.02)  # as clients do, to avoid a tight loop while a server is down


def result_of(call: Json) -> Json:
    """Two thousand unique tokens."""
    lines = [f"{call['id']} line {line}: value {line * 37 % 1009}" for line in range(160)]
    return {"type": "tool_result", "tool_use_id": call["id"], "content": "\n".join(lines)}


async def check(campaign: Campaign) -> None:
    """No rule was violated, the conversation kept its mode, and complete replies are recorded and rebuilt."""
    home = campaign.home
    home.assert_lawful()
    events = await home.events("s")
    modes = [(each.mode, each.why) for each in events if isinstance(each, BranchModeSet)]
    assert {mode for mode, _ in modes} == ({Mode.MANAGE} if campaign.mode == "manage" else set()), modes
    if any(each.victim == DATABASE for each in campaign.died):
        return  # turns during the outage are shown as a gap, and home.events has verified the rest
    missing = Counter(campaign.whole) - await finished_bodies(home, "s")
    assert not missing, "a reply that the client saw whole is not on record"


async def finished_bodies(home: Home, session: str) -> Counter[bytes]:
    """The rebuilt requests of a session whose replies are recorded as complete."""
    async with open_storage(home.config) as storage:
        bodies = await rebuilt(storage.events, storage.contents, home.stream(session))
    return Counter(
        bodies[Address(each.branch, each.turn, each.attempt)]
        for each in await home.events(session)
        if isinstance(each, TurnFinished) and each.status == 200
    )


async def campaign_of(deaths: list[Death], prompts: int, folder: Path, mode: str = "manage") -> Campaign:
    async with at_home(folder) as home:
        home.standin.script = from_data({"rules": [{"replies": SCRIPTS[mode]}]})
        campaign = Campaign(home, mode, deaths, prompts)
        await campaign.run()
        await check(campaign)
        return campaign


def deaths_of(seed: int, count: int) -> list[Death]:
    chance = random.Random(seed)
    return [
        Death(chance.choice(POINTS), chance.randint(1, LATEST), DATABASE if chance.random() < 0.2 else SERVER)
        for _ in range(count)
    ]


@pytest.mark.parametrize("place", PLACES)
def test_each_point_of_death_is_in_the_code(place: str) -> None:
    assert method_at(place)


async def test_conversation_survives_any_death_in_the_middle_of_a_hidden_round(tmp_path: Path) -> None:
    deaths = [
        Death("before hidden calls are answered", 1, SERVER),
        Death("after the next round is recorded", 2, SERVER),
        Death("after events are appended", 5, DATABASE),
    ]
    campaign = await campaign_of(deaths, 4, tmp_path)
    assert campaign.died == deaths


async def test_observed_conversation_survives_any_death(tmp_path: Path) -> None:
    deaths = [
        Death("before events are appended", 4, SERVER),
        Death("after a batch is committed", 5, SERVER),
        Death("before a part is handed to the client", 3, SERVER),
        Death("after a turn ends", 2, DATABASE),
    ]
    campaign = await campaign_of(deaths, 5, tmp_path, "observe")
    assert campaign.died == deaths


@pytest.mark.soak
@pytest.mark.parametrize("mode", SCRIPTS)
@pytest.mark.parametrize("seed", range(120))
async def test_a_thousand_deaths_at_named_points_break_and_lose_nothing(seed: int, mode: str, tmp_path: Path) -> None:
    campaign = await campaign_of(deaths_of(seed, 10), 12, tmp_path, mode)
    print(f"seed {seed}: {len(campaign.died)} deaths, {len(campaign.whole)} replies whole")  # noqa: T201
    assert campaign.died
