"""The database's machine is lost, stopped, or runs on after its standby was promoted: all replies that clients got are
in the promoted log, and sessions continue. Or two databases share the sessions, and the machine of one dies: sessions
of the other do not slow down. Two PostgreSQL servers, a real proxy, a stand-in provider, real pauses.
"""

import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import attrs
import orjson
import pytest
import trio

from campaigns.soak.fleet import OPTIONS, SCRIPTS, Fleet
from campaigns.soak.machines import SYNCHRONOUS, Machine, dsn_of, two_machines
from mnemosyne.app.storage import open_storage
from tests.app.home import Home, at_home
from tests.http.managing import Client
from tests.http.raw_client import exchange
from tests.waiting import DEADLINE, IMPATIENT

CLIENTS = 8
LOSSES = int(os.environ.get("LOSSES", "3"))
SECONDS = float(os.environ.get("LOSS_SECONDS", "60"))
"""Seconds of work before each loss, and after the last."""

NOTICED = 1.0
"""Seconds until the standby is promoted."""

RECORDED = 1.0
"""Seconds that an append may wait on a busy machine."""

GOES_ON = 5.0
"""Seconds that the loss may add to the slowest reply of the time before."""

PAUSE = 0.3
"""Seconds between the requests of a client of two databases, in which the processors are idle."""


@asynccontextmanager
async def run_clients(fleet: Fleet, count: int) -> AsyncIterator[None]:
    """Run this many clients; at the end they finish, and all is recorded."""
    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(fleet.work, f"client-{number}")
        yield
        fleet.over = True
    await trio.sleep(RECORDED)  # a server of several processes answers for one of them
    await until_recorded(fleet)


async def until_recorded(fleet: Fleet) -> float:
    """Wait until no append has waited for long; return the seconds that took."""
    began = trio.current_time()
    with trio.fail_after(DEADLINE):
        while True:
            reply = await exchange(fleet.url, "/-/ready", method="GET")
            if orjson.loads(reply.body)["database"]["seconds"] <= RECORDED:
                return trio.current_time() - began
            await trio.sleep(0.05)  # the server sends no notification


@asynccontextmanager
async def working(mode: str, folder: Path, count: int = CLIENTS) -> AsyncIterator[tuple[Home, Fleet, Machine, Machine]]:
    """A primary, its standby, a server that knows both, and clients at work. Every complete reply is on record once."""
    async with two_machines() as (first, second), at_home(folder, dsn_of([first, second])) as home:
        home.standin.script = SCRIPTS[mode]
        async with home.served(mode, *OPTIONS, *IMPATIENT) as served:
            await served.until_worker(state="working")
            fleet = Fleet(served.url)
            async with run_clients(fleet, count):
                yield home, fleet, first, second
        home.assert_lawful()
        assert await fleet.check(home, fleet.sessions) == 0
        print(f"{len(fleet.completed)} replies; repeated: {dict(fleet.failed)}")  # noqa: T201


async def fail_over(fleet: Fleet, standby: Machine) -> None:
    """Promote the standby after the primary failed. The slowest reply takes little longer than before."""
    before = len(fleet.durations)
    await trio.sleep(NOTICED)
    await standby.promote()
    seconds = await until_recorded(fleet)
    calm, slowest = (
        max((each for _, each in part), default=0.0) for part in (fleet.durations[:before], fleet.durations[before:])
    )
    waited = f"slowest reply {slowest:.1f} s, before {calm:.1f} s"
    print(f"after {before} replies: all recorded {seconds:.1f} s after the promotion, {waited}")  # noqa: T201
    assert slowest - calm < GOES_ON


@pytest.mark.soak
@pytest.mark.parametrize("mode", SCRIPTS)
async def test_no_turn_is_lost_with_the_machine_of_the_database(mode: str, tmp_path: Path) -> None:
    async with working(mode, tmp_path) as (_, fleet, first, second):
        primary, standby = first, second
        for _ in range(LOSSES):
            await trio.sleep(SECONDS)
            await primary.lose()
            await fail_over(fleet, standby)
            await primary.copy(standby)
            await standby.demand(SYNCHRONOUS)
            primary, standby = standby, primary
        await trio.sleep(SECONDS)


@pytest.mark.soak
@pytest.mark.parametrize("mode", SCRIPTS)
async def test_machine_that_stands_still_is_replaced_like_a_lost_one(mode: str, tmp_path: Path) -> None:
    async with working(mode, tmp_path) as (_, fleet, primary, standby):
        await trio.sleep(SECONDS / 2)
        primary.signal(signal.SIGSTOP)
        await fail_over(fleet, standby)
        await primary.lose()  # awake, it would take connections again
        await trio.sleep(SECONDS / 2)


@pytest.mark.soak
async def test_append_without_an_answer_is_recorded_only_once_the_standby_has_it(tmp_path: Path) -> None:
    async with working("observe", tmp_path, count=0) as (_, fleet, primary, standby):
        client = Client(fleet.url, session="s")
        await fleet.ask(client, "Before it lags.")
        await until_recorded(fleet)
        await standby.end()
        await fleet.ask(client, "While it lags.")
        await primary.until("select exists (select from pg_stat_activity where wait_event = 'SyncRep')")
        # The append is committed on the primary only, and its writer gets no answer.
        await primary.execute("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
        await trio.sleep(5)  # the server retries, and must not count the append as recorded
        await primary.lose()
        await standby.start()
        await standby.promote()
        await fleet.ask(client, "After the loss.")


@pytest.mark.soak
async def test_server_of_an_old_primary_adds_nothing_to_the_log_of_the_promoted_standby(tmp_path: Path) -> None:
    async with working("observe", tmp_path, count=0) as (home, fleet, loser, winner):
        client = Client(fleet.url, session="s")
        await fleet.ask(client, "Before the split.")
        await until_recorded(fleet)
        await winner.promote()
        await loser.demand("")  # a mistake of the operator: it now records without its standby
        forked, kept = attrs.evolve(client, history=[*client.history]), len(fleet.completed)
        await fleet.ask(client, "Beside the winner.")
        await until_recorded(fleet)
        del fleet.completed[kept:]
        (tmp_path / "second").mkdir()
        async with attrs.evolve(home, folder=tmp_path / "second", dsn=winner.dsn()).served("observe") as served:
            forked.url = served.url
            await fleet.ask(forked, "By the winner...")
        versions = "select max(originator_version) from mnemosyne.stored_events"
        assert await loser.execute(versions) == await winner.execute(versions)  # numbers alone do not tell them apart
        await loser.lose()
        await fleet.ask(client, "After the split.")
        forked.url = fleet.url
        await fleet.ask(forked, "After the split, too.")


# Two databases that share the sessions


@attrs.frozen
class Sharing(Home):
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
        plain.standin.script = SCRIPTS[mode]
        home = Sharing(plain.folder, plain.standin, plain.dsn, [second.dsn()])
        async with home.served(mode, *OPTIONS, *IMPATIENT) as served:
            fleet = Fleet(served.url, lambda: PAUSE)
            async with run_clients(fleet, CLIENTS // 2):
                await trio.sleep(SECONDS)
                before = len(fleet.durations)
                await second.end()
                await trio.sleep(SECONDS)
                gone = len(fleet.durations)
                await second.start()
                await trio.sleep(SECONDS / 4)
        home.assert_lawful()
        homes = [Home(home.folder, home.standin, dsn) for dsn in (first.dsn(), second.dsn())]
        owned = [await _sessions_of(each, fleet) for each in homes]
        assert not owned[0] & owned[1]
        assert owned[0] | owned[1] == fleet.sessions
        assert [await fleet.check(each, sessions) for each, sessions in zip(homes, owned, strict=True)] == [0, 0]
        calm, alone = (
            median(seconds for session, seconds in part if session in owned[0])
            for part in (fleet.durations[:before], fleet.durations[before:gone])
        )
        took = f"the first database's took {calm:.2f} s, then {alone:.2f} s"
        print(f"{len(fleet.completed)} replies in {list(map(len, owned))} sessions; {took}")  # noqa: T201
        assert alone < 1.2 * calm + 0.05


async def _sessions_of(home: Home, fleet: Fleet) -> set[str]:
    """The clients' sessions that are in a database."""
    async with open_storage(home.config) as storage:
        streams = {*await storage.events.streams()}
    return {session for session in fleet.sessions if home.stream(session) in streams}
