"""Several servers on one database: how long a session waits where its server is gone, and how many turns go through."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, serve_process, single, spread
from benchmarks.history import QUICK_KIND, SYNTHETIC_KIND, history
from benchmarks.load import Address, Client, history_request
from benchmarks.upstream_server import Played
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.leading import WORKER as LISTED_WORKER
from mnemosyne.adapters.postgres.leading import list_nodes

KILLED, STOPPED = "killed", "stopped"
LOOK_SECONDS = 0.05
"""Interval for polling the list of nodes and for asking a server again that refused."""
PATIENCE = 30.0
"""Seconds after which a client asks the next server."""

CLIENTS = 16
PAUSE = 1.0
"""Seconds between two turns of a client, where servers die."""

EVERY = 5.0
"""Seconds between two deaths."""


@attrs.define
class Cluster:
    """A database, the provider, and servers that are started one by one."""

    dsn: str
    base: Path
    upstream: str
    stack: ExitStack
    started: int = 0

    def serve(self) -> Server:
        """One more server."""
        self.started += 1
        own = self.base / f"node-{self.started}"
        program = (sys.executable, "-m", "mnemosyne", "serve", "--port", "0", "--data-dir", str(own / "data"))
        command = (*program, "--dsn", self.dsn, "--upstream", self.upstream)
        address, pid = self.stack.enter_context(serve_process(command, own))
        return Server(own.name, address, pid, own)


@asynccontextmanager
async def open_cluster() -> AsyncIterator[Cluster]:
    """One without servers."""
    with tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-") as folder, ExitStack() as stack:
        base = Path(folder)
        async with open_embedded(base / "data") as embedded:
            module = [sys.executable, "-m", "benchmarks.upstream_server"]
            address, _ = stack.enter_context(serve_process(module, base / "upstream"))
            try:
                yield Cluster(embedded.dsn, base, f"http://{address.host}:{address.port}", stack)
            finally:
                stack.close()  # servers end before their database


def takeover(_: Sequence[Server], quick: bool) -> list[Row]:
    """Seconds of a session's next turn at another server, and until another worker takes over."""
    return trio.run(_take_over, QUICK_KIND if quick else SYNTHETIC_KIND, 5 if quick else 250, 1 if quick else 10)


async def _take_over(kind: str, turns: int, rounds: int) -> list[Row]:
    found: dict[str, list[float]] = {}
    for number in range(rounds):
        for way in (KILLED, STOPPED):
            async with open_cluster() as cluster:
                for what, seconds in (await _lose(cluster, kind, turns, way, f"session-{number}")).items():
                    found.setdefault(what, []).append(seconds)
    return [spread(what, f"{turns} turns", "s", values) for what, values in found.items()]


async def _lose(cluster: Cluster, kind: str, turns: int, way: str, session: str) -> dict[str, float]:
    first = cluster.serve()
    database = Database(cluster.dsn)
    led = await _until_leads(database, None)
    second = cluster.serve()
    while sum(each.what == LISTED_WORKER for each in await list_nodes(database)) < 2:  # noqa: ASYNC110 - there is no notice
        await trio.sleep(LOOK_SECONDS)
    ask = partial(_ask, kind, session)
    usual = [await ask(first.address, turn) for turn in range(1, turns + 1)][-1]
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL if way == KILLED else signal.SIGTERM)
    gone = time.perf_counter()
    next_turn = await ask(second.address, turns + 1)
    after = await ask(second.address, turns + 2)
    await _until_leads(database, led)
    leads = time.perf_counter() - gone
    database.close()
    return {
        "a turn before": usual,
        f"the next turn at another server, {way}": next_turn,
        f"the turn after that, {way}": after,
        f"until another worker leads, {way}": leads,
    }


async def _until_leads(database: Database, before: int | None) -> int:
    """Wait until a worker leads, other than the one of that process; its process."""
    while True:
        leading = [each.pid for each in await list_nodes(database) if each.what == LISTED_WORKER and each.leads]
        if leading and leading[0] != before:
            return leading[0]
        await trio.sleep(LOOK_SECONDS)


async def _ask(kind: str, session: str, address: Address, turn: int) -> float:
    """Seconds of a turn, to its last byte."""
    request = history_request(history(kind), Played(kind, turn), session)
    began = time.perf_counter()
    client = await Client.connect(address)
    try:
        await client.exchange(request, 1)
    finally:
        await client.aclose()
    return time.perf_counter() - began


def dying(_: Sequence[Server], quick: bool) -> list[Row]:
    """Seconds of a turn from the first try to the last byte, while a server of two dies every five seconds, and not."""
    return trio.run(_die, QUICK_KIND if quick else SYNTHETIC_KIND, 15.0 if quick else 60.0)


async def _die(kind: str, seconds: float) -> list[Row]:
    rows = []
    for deaths in (False, True):
        async with open_cluster() as cluster:
            servers = [cluster.serve(), cluster.serve()]
            took, tries = list[float](), list[int]()
            with trio.move_on_after(seconds):
                async with trio.open_nursery() as nursery:
                    for number in range(CLIENTS):
                        nursery.start_soon(_talk, kind, number, servers, PAUSE, took, tries)
                    while deaths:
                        await trio.sleep(min(EVERY, seconds / 2))
                        await _replace(cluster, servers)
                    await trio.sleep_forever()
        variant = "a server dies every 5 s" if deaths else "nobody dies"
        rows += [spread("a turn", variant, "s", took), single("tries", variant, "per turn", sum(tries) / len(tries))]
    return rows


async def _replace(cluster: Cluster, servers: list[Server]) -> None:
    """Kill the older one; another is there before the next dies."""
    victim = servers[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    fresh = await trio.to_thread.run_sync(cluster.serve)
    servers[:] = [servers[1], fresh]


async def _talk(
    kind: str, number: int, servers: Sequence[Server], pause: float, took: list[float], tries: list[int]
) -> None:
    """A client that asks the other server where one does not answer."""
    turns = history(kind).turns
    for turn in range(1, turns):
        began, tried = time.perf_counter(), 0
        while True:
            tried += 1
            try:
                with trio.fail_after(PATIENCE):
                    await _ask(kind, f"session-{number}", servers[(number + tried) % len(servers)].address, turn)
                break
            except (OSError, ValueError, trio.TooSlowError, trio.BrokenResourceError):
                await trio.sleep(LOOK_SECONDS)
        took.append(time.perf_counter() - began)
        tries.append(tried)
        await trio.sleep(pause)  # a user's reading time


PARTS: Sequence[tuple[str, Callable[[Sequence[Server], bool], list[Row]]]] = (
    ("takeover", takeover),
    ("dying", dying),
)
GROUP = Group(name="nodes", variants=(), parts=tuple(Part(*each) for each in PARTS), by_default=False)
