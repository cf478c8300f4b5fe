"""Database faults at any point: clients get the same replies as without the proxy, and sent requests are recorded,
or reported as unrecorded, once the database is back.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
import trio

from campaigns.soak.rough_wire import RoughWire, Trouble, rough_wire
from mnemosyne.app.storage import open_storage
from mnemosyne.services.verifying import verify
from tests.actors.support import rebuilt
from tests.app.home import Home, at_home
from tests.http.managing import Client, text
from tests.waiting import IMPATIENT

SESSIONS = 3
CALM = 2
"""Prompts of each session before the first trouble, and after the last."""


async def converse(home: Home, wire: RoughWire, mode: str, troubles: Sequence[Trouble | None]) -> list[Client]:
    """Sessions that continue through one fault after the other, each during one prompt."""
    async with home.served(mode, *IMPATIENT) as served:
        clients = [Client(served.url, session=f"session-{number}") for number in range(SESSIONS)]
        for number, trouble in enumerate([*[None] * CALM, *troubles, *[None] * CALM]):
            wire.befall(trouble)
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(client.work, f"Where is {number}?")
        wire.befall(None)
    return clients


def judge(home: Home, clients: Sequence[Client], *, is_observed: bool) -> None:
    """Every client got complete replies, and in observed sessions the provider's own bytes."""
    home.assert_lawful()
    replies = [reply for client in clients for reply in client.replies]
    assert {(reply.status, reply.cut) for reply in replies} == {(200, False)}
    assert all(client.history[-1]["content"][-1] == text("It is there.") for client in clients)
    if is_observed:
        assert sorted(each.body for each in home.standin.messages) == sorted(
            body for each in clients for body in each.bodies
        )
        assert sorted(bytes(each.payload) for each in home.standin.exchanges) == sorted(each.body for each in replies)


async def check(home: Home, clients: Sequence[Client]) -> int:
    """All sent requests are rebuilt or counted as unrecorded, and the last exchanges are recorded; return the number
    of unrecorded ones.
    """
    lost = 0
    async with open_storage(home.config) as storage:
        for client in clients:
            stream = home.stream(client.session)
            report = await verify(storage, stream)
            assert report.differences == ()
            bodies = set((await rebuilt(storage.events, storage.contents, stream)).values())
            missing = [number for number, body in enumerate(client.bodies) if body not in bodies]
            assert len(missing) == report.unrecorded
            assert not missing or missing[-1] < len(client.bodies) - 2
            lost += len(missing)
    return lost


async def campaign(dsn: str, folder: Path, mode: str, seed: int, troubles: Sequence[Trouble | None]) -> None:
    async with rough_wire(dsn, seed) as (wire, by_wire), at_home(folder, by_wire) as home:
        clients = await converse(home, wire, mode, troubles)
        judge(home, clients, is_observed=mode == "observe")
        lost = await check(home, clients)
        sent = sum(len(client.bodies) for client in clients)
        print(f"seed {seed}: {sent} requests, {wire.befell} words befallen, {lost} turns unrecorded")  # noqa: T201
        assert wire.befell > 0


async def test_restart_or_refusal_of_the_database_in_mid_turn_is_invisible(dsn: str, tmp_path: Path) -> None:
    await campaign(dsn, tmp_path, "observe", 1, [Trouble.CUT, Trouble.REFUSED, Trouble.CUT])


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["observe", "manage"])
@pytest.mark.parametrize("seed", range(20))
async def test_any_fault_of_the_database_is_invisible(dsn: str, tmp_path: Path, mode: str, seed: int) -> None:
    random = Random(seed)
    await campaign(dsn, tmp_path, mode, seed, [random.choice([None, *Trouble]) for _ in range(12)])
