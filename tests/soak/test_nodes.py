"""Several servers share one database behind a balancer that knows nothing: whichever gets a session's request goes on
where another stopped, whoever of them is killed or stands still, and when the database loses its connections.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import psycopg
import pytest
import trio

from mnemosyne.app.storage import open_storage
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import BranchModeSet, EpochBegan
from mnemosyne.lab.provider import from_data
from tests.actors.support import rebuilt
from tests.app.home import Home, Served, at_home
from tests.http.managing import Client, Json, look, recall, said, text, think
from tests.waiting import until

WINDOW = 16_000
PATIENCE = 5
"""Seconds after which a client takes a server that stands still for dead, and asks another."""

BETWEEN = 1
"""Replies that each client sees whole, on average, between one misfortune and the next."""

PAUSE = 20.0
"""Seconds between the turns of one of many clients, on average: models and tools take their time."""

KILLED, PAUSED, CUT_OFF = "killed", "paused", "cut off"
"""What befalls: a server and all that it started is gone, or stands still; the database ends all connections."""

READS = [said(think(f"I look, {number}."), look(at=number)) for number in range(3)]
SCRIPT = {"rules": [{"replies": [*READS, said(think(), recall()), said(think("Well."), text("It is there."))]}]}


@attrs.define
class Cluster:
    """Servers that come back whenever they die, and clients that ask any of them, with a ``pause`` of so many seconds
    between turns, on average.
    """

    home: Home
    random: random.Random
    nodes: int
    sessions: int
    pause: float
    served: dict[int, Served] = attrs.field(factory=dict)
    whole: list[tuple[str, bytes]] = attrs.field(factory=list)
    """Session and request of each reply that a client saw to its end."""
    over: bool = False
    """Whether clients begin no further exchange."""
    cut: int = 0
    """How often a client had to try again."""
    waited: list[float] = attrs.field(factory=list)
    """Seconds from a client's first try to the reply that it saw whole, where it took several."""

    async def run(self, misfortunes: list[str]) -> None:
        """Let clients talk while one thing after another befalls, and come to the ends of their exchanges."""
        async with trio.open_nursery() as nursery:
            for number in range(self.nodes):
                nursery.start_soon(self._keep, number)
            await until(lambda: len(self.served) == self.nodes)
            async with trio.open_nursery() as talking:
                for number in range(self.sessions):
                    talking.start_soon(self._converse, f"session-{number}")
                await self._befall(misfortunes)
                await self._until_more(BETWEEN * self.sessions)
                self.over = True
            nursery.cancel_scope.cancel()

    async def _keep(self, number: int) -> None:
        folder = self.home.folder / f"node-{number}"
        folder.mkdir()
        home = attrs.evolve(self.home, folder=folder)
        while True:
            async with home.served("manage", "--manage-window", str(WINDOW)) as served:
                self.served[number] = served
                try:
                    await served.process.wait()
                finally:
                    del self.served[number]

    async def _befall(self, misfortunes: list[str]) -> None:
        for each in misfortunes:
            await self._until_more(BETWEEN * self.sessions)
            number, served = self.random.choice(sorted(self.served.items()))
            match each:
                case "killed":
                    served.process.kill()
                    await until(partial(self._is_back, number, served))
                case "paused":
                    with _paused(served):
                        await self._until_more(2 * BETWEEN * self.sessions)
                case "cut off":
                    await trio.to_thread.run_sync(self._cut_off)

    async def _until_more(self, count: int) -> None:
        await until(partial(self._has_more_than, len(self.whole) + count))

    def _is_back(self, number: int, gone: Served) -> bool:
        return self.served.get(number, gone) is not gone

    def _has_more_than(self, count: int) -> bool:
        return len(self.whole) > count

    def _cut_off(self) -> None:
        assert self.home.dsn is not None
        with psycopg.connect(self.home.dsn, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )

    async def _converse(self, session: str) -> None:
        client = Client("", session=session)
        while not self.over:
            content = [text(f"{session}, after {len(client.history)} messages: where is it?")]
            while content:
                client.history.append({"role": "user", "content": content})
                await trio.sleep(self.random.uniform(0, 2 * self.pause))
                message = await self._persist(client)
                client.history.append({"role": "assistant", "content": message["content"]})
                content = [_result(block) for block in message["content"] if block["type"] == "tool_use"]

    async def _persist(self, client: Client) -> Json:
        """The message that comes back, from whichever server, once one has come whole."""
        began = trio.current_time()
        for attempt in range(100):
            if attempt:
                self.cut += 1
                await trio.sleep(0.05)  # as clients do
            client.url = await self._choose(but=client.url if attempt else "")
            with suppress(OSError, trio.TooSlowError), trio.fail_after(PATIENCE):
                message = await client.send()
                reply = client.replies[-1]
                assert reply.status in (0, 200, 500, 502, 503, 529), reply.body
                if reply.status == 200 and not reply.cut and b"event: message_stop\n" in reply.body:
                    self.whole.append((client.session, client.bodies[-1]))
                    if attempt:
                        self.waited.append(trio.current_time() - began)
                    return message
        raise AssertionError(f"{client.session} got no reply")

    async def _choose(self, but: str) -> str:
        """A server that takes requests, as a balancer finds it: another than the one that has just failed."""
        await until(lambda: any(each.url != but for each in self.served.values()))
        return self.random.choice(sorted({each.url for each in self.served.values()} - {but}))


@contextmanager
def _paused(served: Served) -> Iterator[None]:
    worker = served.worker
    pids = [served.process.pid, *([worker] if worker else [])]
    for pid in pids:
        _signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _result(call: Json) -> Json:
    """Two thousand tokens that nothing else says."""
    lines = [f"{call['id']} line {line}: value {line * 37 % 1009}" for line in range(160)]
    return {"type": "tool_result", "tool_use_id": call["id"], "content": "\n".join(lines)}


async def check(cluster: Cluster) -> str:
    """Nothing was unlawful; what clients saw whole is on record, once for each; every session verifies."""
    home = cluster.home
    home.assert_lawful()
    modes: Counter[str] = Counter()
    epochs = 0
    for session in sorted({each for each, _ in cluster.whole}):
        events = await home.events(session)
        modes.update(f"{each.mode.value}: {each.why}" for each in events if isinstance(each, BranchModeSet))
        epochs += sum(isinstance(each, EpochBegan) for each in events)
        async with open_storage(home.config) as storage:
            stream = stream_of(home.config.tenant, session)
            bodies = await rebuilt(storage.events, storage.contents, stream)
        ended = Counter(
            bodies[Address(each.branch, each.turn, each.attempt)]
            for each in events
            if isinstance(each, TurnFinished) and each.status == 200
        )
        seen = Counter(body for owner, body in cluster.whole if owner == session)
        assert not seen - ended, f"a reply that {session} saw whole is not on record"
    slowest = max(cluster.waited, default=0.0)
    return f"{len(cluster.whole)} replies, {cluster.cut} cut, {epochs} epochs, slowest {slowest:.1f} s; {dict(modes)}"


async def campaign_of(
    dsn: str, folder: Path, *, nodes: int, sessions: int, misfortunes: list[str], pause: float = 0, seed: int = 0
) -> None:
    async with at_home(folder, dsn) as home:
        home.standin.script = from_data(SCRIPT)
        cluster = Cluster(home, random.Random(seed), nodes, sessions, pause)
        await cluster.run(misfortunes)
        print(await check(cluster))  # noqa: T201 - for whoever looks into a campaign


@pytest.mark.soak
async def test_two_servers_go_on_for_each_other_whatever_befalls_one(dsn: str, tmp_path: Path) -> None:
    await campaign_of(dsn, tmp_path, nodes=2, sessions=8, misfortunes=[KILLED, PAUSED, CUT_OFF])


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
async def test_four_servers_and_sixty_four_sessions_lose_nothing_whatever_befalls(
    seed: int, dsn: str, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    misfortunes = chance.choices([KILLED, PAUSED, CUT_OFF], [6, 2, 1], k=30)
    await campaign_of(dsn, tmp_path, nodes=4, sessions=64, misfortunes=misfortunes, pause=PAUSE, seed=seed)
