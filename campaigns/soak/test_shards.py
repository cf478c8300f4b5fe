"""Two databases share the sessions, and the machine of one dies: sessions of the other do not slow down, and nothing
is lost. Two PostgreSQL servers, a real proxy with a process for each, a stand-in provider, real pauses.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import attrs
import pytest
import trio

from campaigns.soak.machines import two_machines
from campaigns.soak.test_deaths import finished_bodies
from campaigns.soak.test_lost_machines import SCRIPTS, WINDOW, Fleet
from mnemosyne.app.storage import open_storage
from mnemosyne.domain.session.events import GapRecorded
from mnemosyne_lab.provider import from_data
from tests.app.home import Home, at_home
from tests.waiting import IMPATIENT

CLIENTS, PAUSE = 4, 1.0
"""Clients, and the seconds between their prompts, in which the processors are idle."""

SECONDS = float(os.environ.get("SHARD_SECONDS", "60"))
"""Seconds of work before the death, and while the machine is gone."""


@attrs.frozen
class Sharing(Home):
    """A home whose servers use several databases."""

    shards: Sequence[str] = ()

    @property
    def environ(self) -> dict[str, str]:
        return super().environ | {"MNEMOSYNE_SHARDS": ";".join(self.shards)}


@pytest.mark.soak
@pytest.mark.parametrize("mode", SCRIPTS)
async def test_one_of_two_databases_dies_and_the_sessions_of_the_other_are_not_slower(
    mode: str, tmp_path: Path
) -> None:
    async with two_machines(apart=True) as (first, second), at_home(tmp_path, first.dsn()) as plain:
        plain.standin.script = from_data({"rules": [{"replies": SCRIPTS[mode]}]})
        home = Sharing(plain.folder, plain.standin, plain.dsn, [second.dsn()])
        async with home.served(mode, "--manage-window", str(WINDOW), *IMPATIENT) as served:
            fleet = Fleet(served, PAUSE)
            async with trio.open_nursery() as nursery:
                for number in range(CLIENTS):
                    nursery.start_soon(fleet.work, f"client-{number}")
                await trio.sleep(SECONDS)
                before = len(fleet.took)
                await second.end()
                await trio.sleep(SECONDS)
                gone = len(fleet.took)
                await second.start()
                await trio.sleep(SECONDS / 4)
                fleet.over = True
            await fleet.until_recorded()
        home.assert_lawful()
        homes = [Home(home.folder, home.standin, dsn) for dsn in (first.dsn(), second.dsn())]
        owned = [await _sessions_of(each, fleet) for each in homes]
        assert not owned[0] & owned[1]
        assert owned[0] | owned[1] == {session for session, _ in fleet.whole}
        gaps = 0
        for each, sessions in zip(homes, owned, strict=True):
            for session in sorted(sessions):
                events = await each.events(session)  # which verify
                gaps += sum(isinstance(event, GapRecorded) for event in events)
                seen = Counter(body for owner, body in fleet.whole if owner == session)
                assert not seen - await finished_bodies(each, session), f"a reply of {session} is not on record"
        calm, alone = (
            [seconds for session, seconds in part if session in owned[0]]
            for part in (fleet.took[:before], fleet.took[before:gone])
        )
        print(  # noqa: T201
            f"{len(fleet.whole)} replies in {len(owned[0])} and {len(owned[1])} sessions, {gaps} gaps; repeated:"
            f" {dict(fleet.failed)}; the first database's replies took {_shown(calm)} before and {_shown(alone)} after"
        )
        assert gaps == 0
        assert median(alone) < 1.2 * median(calm) + 0.05


async def _sessions_of(home: Home, fleet: Fleet) -> set[str]:
    """The clients' sessions that are in a database."""
    async with open_storage(home.config) as storage:
        streams = {*await storage.events.streams()}
    return {session for session, _ in fleet.whole if home.stream(session) in streams}


def _shown(seconds: list[float]) -> str:
    return f"{median(seconds):.2f} s (p95 {sorted(seconds)[len(seconds) * 19 // 20]:.2f}, {len(seconds)} replies)"
