"""The database's machine is lost, stopped, or runs on after its standby was promoted: all replies that clients got are
in the promoted log, and sessions continue. Two PostgreSQL servers, a real proxy, a stand-in provider, real pauses.
"""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import attrs
import orjson
import pytest
import trio

from campaigns.soak.machines import SYNCHRONOUS, Machine, dsn_of, two_machines
from campaigns.soak.test_deaths import finished_bodies, result_of
from mnemosyne.app.storage import open_storage
from mnemosyne.domain.session.events import GapRecorded, TurnFinished
from mnemosyne.services.verifying import verify_sessions
from mnemosyne_lab.provider import from_data
from tests.app.home import Home, Served, at_home
from tests.http.managing import Client, Json, look, model_says, recall, text, think
from tests.http.raw_client import exchange
from tests.waiting import DEADLINE, IMPATIENT

WINDOW = 16_000
CLIENTS, PROMPTS = 8, 4
"""Clients at once, and the prompts of each of their sessions."""

LOSSES = int(os.environ.get("LOSSES", "3"))
BETWEEN = float(os.environ.get("LOSS_SECONDS", "60"))
"""Seconds of work before each loss, and after the last."""

NOTICED = 1.0
"""Seconds until the standby is promoted."""

RECORDED = 1.0
"""Seconds that an append may wait on a busy machine."""

GOES_ON = 5.0
"""Seconds that the loss may add to the slowest reply of the time before."""

READS = [model_says(think(f"I look, {number}."), look(at=number)) for number in range(2)]
SCRIPTS = {
    "observe": [*READS, model_says(think("Well."), text("It is there."))],
    "manage": [*READS, model_says(think(), recall()), model_says(think("Well."), text("It is there."))],
}


@attrs.define
class Fleet:
    """Clients of one server that work until it is over, session after session, and retry what fails."""

    served: Served
    pause: float = 0.0
    """Seconds between a client's prompts."""
    over: bool = False
    whole: list[tuple[str, bytes]] = attrs.field(factory=list)
    """Session and request of each reply that a client saw to its end."""
    slowest: float = 0.0
    """Seconds from a client's first try to a complete reply."""
    took: list[tuple[str, float]] = attrs.field(factory=list)
    """The session and these seconds of each complete reply."""
    delays: list[float] = attrs.field(factory=list)
    """Seconds that each failover added to the slowest reply of the time before."""
    failed: Counter[object] = attrs.field(factory=Counter)
    """The status of replies that were not whole, each of which was repeated."""

    async def work(self, name: str) -> None:
        number = 0
        while not self.over:
            client = Client(self.served.url, session=f"{name}-{number}")
            number += 1
            for prompt in range(PROMPTS):
                if not self.over:
                    await self.ask(client, f"Prompt {prompt} of {client.session}: where is it?")
                    await trio.sleep(self.pause)

    async def ask(self, client: Client, prompt: str) -> None:
        content = [text(prompt)]
        while content:
            client.history.append({"role": "user", "content": content})
            message = await self._persist(client)
            client.history.append({"role": "assistant", "content": message["content"]})
            content = [result_of(block) for block in message["content"] if block["type"] == "tool_use"]

    async def _persist(self, client: Client) -> Json:
        began = trio.current_time()
        with trio.fail_after(DEADLINE):
            while True:
                message = await client.send()
                reply = client.replies.pop()
                if reply.status == 200 and not reply.cut and b"event: message_stop\n" in reply.body:
                    self.whole.append((client.session, client.bodies.pop()))
                    self.took.append((client.session, trio.current_time() - began))
                    self.slowest = max(self.slowest, self.took[-1][1])
                    return message
                self.failed["cut" if reply.cut else reply.status] += 1
                await trio.sleep(0.05)  # as clients do

    async def until_recorded(self) -> float:
        """Wait until no append has waited for long; return the seconds that took."""
        began = trio.current_time()
        with trio.fail_after(DEADLINE):
            while await self.waiting() > RECORDED:  # noqa: ASYNC110 - the server sends no notification
                await trio.sleep(0.05)
        return trio.current_time() - began

    async def waiting(self) -> float:
        """The seconds that the oldest queued append has waited."""
        reply = await exchange(self.served.url, "/-/ready", method="GET")
        return float(orjson.loads(reply.body)["database"]["seconds"])


@asynccontextmanager
async def working(mode: str, folder: Path, count: int = CLIENTS) -> AsyncIterator[tuple[Home, Fleet, Machine, Machine]]:
    """A primary, its standby, a server that knows both, and clients at work, which finish at the end."""
    async with two_machines() as (first, second), at_home(folder, dsn_of([first, second])) as home:
        home.standin.script = from_data({"rules": [{"replies": SCRIPTS[mode]}]})
        async with home.served(mode, "--manage-window", str(WINDOW), *IMPATIENT) as served:
            await served.until_worker(state="working")
            fleet = Fleet(served)
            async with trio.open_nursery() as nursery:
                for number in range(count):
                    nursery.start_soon(fleet.work, f"client-{number}")
                yield home, fleet, first, second
                fleet.over = True
            await fleet.until_recorded()
        await check(home, fleet)
        assert max(fleet.delays, default=0) < GOES_ON


async def check(home: Home, fleet: Fleet) -> None:
    """Every complete reply is on record once, none is a gap, and every session verifies."""
    home.assert_lawful()
    turns = gaps = 0
    for session in sorted({each for each, _ in fleet.whole}):
        events = await home.events(session)
        gaps += sum(isinstance(each, GapRecorded) for each in events)
        places = [(each.branch, each.turn, each.attempt) for each in events if isinstance(each, TurnFinished)]
        assert len(places) == len(set(places)), f"a reply of {session} is on record twice"
        turns += len(places)
        seen = Counter(body for owner, body in fleet.whole if owner == session)
        assert not seen - await finished_bodies(home, session), f"a reply that {session} saw whole is not on record"
    async with open_storage(home.config) as storage:
        found = await verify_sessions(storage, None, lambda label: nullcontext(lambda done, total: None))
    assert not [each.differences for each in found if each.differences]
    print(  # noqa: T201
        f"{len(fleet.whole)} replies in {len(found)} sessions, {turns} turns on record, {gaps} gaps; repeated:"
        f" {dict(fleet.failed)}; slowest reply {fleet.slowest:.1f} s"
    )
    assert gaps == 0


async def fail_over(fleet: Fleet, standby: Machine) -> None:
    """Promote the standby after the primary failed. Record how much longer the slowest reply took than before."""
    before, calm, fleet.slowest = len(fleet.whole), fleet.slowest, 0.0
    await trio.sleep(NOTICED)
    await standby.promote()
    seconds = await fleet.until_recorded()
    waited = f"slowest reply {fleet.slowest:.1f} s, before {calm:.1f} s"
    print(f"after {before} replies: all recorded {seconds:.1f} s after the promotion, {waited}")  # noqa: T201
    fleet.delays.append(fleet.slowest - calm)


@pytest.mark.soak
@pytest.mark.parametrize("mode", SCRIPTS)
async def test_no_turn_is_lost_with_the_machine_of_the_database(mode: str, tmp_path: Path) -> None:
    async with working(mode, tmp_path) as (_, fleet, first, second):
        primary, standby = first, second
        for _ in range(LOSSES):
            await trio.sleep(BETWEEN)
            await primary.lose()
            await fail_over(fleet, standby)
            await primary.copy(standby)
            await standby.demand(SYNCHRONOUS)
            primary, standby = standby, primary
        await trio.sleep(BETWEEN)


@pytest.mark.soak
@pytest.mark.parametrize("mode", SCRIPTS)
async def test_machine_that_stands_still_is_replaced_like_a_lost_one(mode: str, tmp_path: Path) -> None:
    async with working(mode, tmp_path) as (_, fleet, primary, standby):
        await trio.sleep(BETWEEN / 2)
        primary.signal(signal.SIGSTOP)
        await fail_over(fleet, standby)
        await primary.lose()  # awake, it would take connections again
        await trio.sleep(BETWEEN / 2)


@pytest.mark.soak
async def test_append_without_an_answer_is_recorded_only_once_the_standby_has_it(tmp_path: Path) -> None:
    async with working("observe", tmp_path, count=0) as (_, fleet, primary, standby):
        client = Client(fleet.served.url, session="s")
        await fleet.ask(client, "Before it lags.")
        await fleet.until_recorded()
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
        client = Client(fleet.served.url, session="s")
        await fleet.ask(client, "Before the split.")
        await fleet.until_recorded()
        await winner.promote()
        await loser.demand("")  # a mistake of the operator: it now records without its standby
        forked = attrs.evolve(client, history=[*client.history])
        await fleet.ask(client, "Beside the winner.")
        await fleet.until_recorded()
        fleet.whole = [each for each in fleet.whole if b"Beside the winner." not in each[1]]
        (tmp_path / "second").mkdir()
        async with attrs.evolve(home, folder=tmp_path / "second", dsn=winner.dsn()).served("observe") as served:
            forked.url = served.url
            await fleet.ask(forked, "By the winner...")
        versions = "select max(originator_version) from mnemosyne.stored_events"
        assert await loser.execute(versions) == await winner.execute(versions)  # numbers alone do not tell them apart
        await loser.lose()
        await fleet.ask(client, "After the split.")
        forked.url = fleet.served.url
        await fleet.ask(forked, "After the split, too.")
