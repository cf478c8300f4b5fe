"""A managed or observed conversation reaches its end, valid and completely recorded, even if the server or its database
dies at any named point of the code.
"""

import random
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from campaigns.soak.dying import DATABASE, PLACES, POINTS, SERVER, died_file, method_at
from campaigns.soak.fleet import OPTIONS, SCRIPTS, Fleet
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from tests.app.home import Home, at_home
from tests.cli.support import MNEMOSYNE
from tests.http.managing import Client
from tests.waiting import IMPATIENT

LONGEST_LIFE, LIFE_WITHOUT_DATABASE = 5, 3
"""Complete replies before a surviving server is replaced, and after a database died."""

LATEST = 4
"""The most passes of a point before a death there."""


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
    fleet: Fleet = attrs.field(init=False)
    url: str = ""
    up: trio.Event = attrs.field(factory=trio.Event)
    died: list[Death] = attrs.field(factory=list)
    sure: int | None = None
    """Number of complete replies before the first server whose database may die: later ones may be shown as a gap."""

    def __attrs_post_init__(self) -> None:
        self.fleet = Fleet(find_server=self._find_server)

    async def run(self, prompts: int) -> None:
        client = Client("", session="s")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve)
            for number in range(prompts):
                await self.fleet.ask(client, f"Number {number}: where is it?")
            nursery.cancel_scope.cancel()

    async def _find_server(self, client: Client) -> None:
        await self.up.wait()
        client.url = self.url

    async def _serve(self) -> None:
        """One server after the other: those with a victim, then one that lives."""
        for death in self.deaths:
            if death.victim == DATABASE and self.sure is None:
                self.sure = len(self.fleet.completed)
            async with self._served(death.program) as process:
                if await self._died(process):
                    self.died.append(death)
        async with self._served(MNEMOSYNE) as process:
            await process.wait()

    @asynccontextmanager
    async def _served(self, program: Sequence[str]) -> AsyncIterator[trio.Process]:
        async with self.home.served(self.mode, *OPTIONS, *IMPATIENT, program=program) as served:
            self.url = served.url
            if not self.fleet.completed:  # the first request must wait for its session, or that is only observed
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
        file, whole = died_file(self.home.environ), self.fleet.completed
        enough = len(whole) + LONGEST_LIFE
        while process.poll() is None and len(whole) < enough:
            if file.exists():
                enough = min(enough, len(whole) + LIFE_WITHOUT_DATABASE)
            await trio.sleep(0.02)  # neither reports its death
        died = file.exists()
        file.unlink(missing_ok=True)
        return died

    async def check(self) -> None:
        """No rule was violated, the conversation kept its mode, and complete replies are recorded and rebuilt."""
        self.home.assert_lawful()
        events = await self.home.events("s")
        modes = [(each.mode, each.why) for each in events if isinstance(each, BranchModeSet)]
        assert {mode for mode, _ in modes} == ({Mode.MANAGE} if self.mode == "manage" else set()), modes
        if self.sure is not None:
            del self.fleet.completed[self.sure :]
        await self.fleet.check(self.home, ["s"])


async def campaign_of(deaths: list[Death], prompts: int, folder: Path, mode: str = "manage") -> Campaign:
    async with at_home(folder) as home:
        home.standin.script = SCRIPTS[mode]
        campaign = Campaign(home, mode, deaths)
        await campaign.run(prompts)
        await campaign.check()
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


IN_A_HIDDEN_ROUND = [
    Death("before hidden calls are answered", 1, SERVER),
    Death("after the next round is recorded", 2, SERVER),
    Death("after events are appended", 5, DATABASE),
]
OBSERVED = [
    Death("before events are appended", 4, SERVER),
    Death("after a batch is committed", 5, SERVER),
    Death("before a part is handed to the client", 3, SERVER),
    Death("after a turn ends", 2, DATABASE),
]


@pytest.mark.parametrize(("mode", "deaths"), [("manage", IN_A_HIDDEN_ROUND), ("observe", OBSERVED)])
async def test_conversation_survives_any_death(mode: str, deaths: list[Death], tmp_path: Path) -> None:
    campaign = await campaign_of(deaths, len(deaths) + 1, tmp_path, mode)
    assert campaign.died == deaths


@pytest.mark.soak
@pytest.mark.parametrize("mode", SCRIPTS)
@pytest.mark.parametrize("seed", range(120))
async def test_a_thousand_deaths_at_named_points_break_and_lose_nothing(seed: int, mode: str, tmp_path: Path) -> None:
    campaign = await campaign_of(deaths_of(seed, 10), 12, tmp_path, mode)
    print(f"seed {seed}: {len(campaign.died)} deaths, {len(campaign.fleet.completed)} replies surely on record")  # noqa: T201
    assert campaign.died
