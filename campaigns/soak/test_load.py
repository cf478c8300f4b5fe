"""An hour of a busy server: many sessions that begin, work and end, slow clients, and one endless session. Neither
memory nor file handles grow with ended sessions.
"""

import os
import random
import socket
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit

import attrs
import pytest
import trio

from campaigns.soak.fleet import OPTIONS, REPLIES, Fleet
from mnemosyne.app.storage import open_storage
from mnemosyne.services.verifying import verify_sessions
from mnemosyne_lab.provider import from_data
from tests.app.home import Home, Served, at_home
from tests.http.managing import Client, text
from tests.http.raw_client import RawConnection, RawReply

MINUTES = float(os.environ.get("LOAD_MINUTES", "60"))
SESSIONS, SLOW = 64, 10

PAUSE = 20.0
"""Seconds between two requests of a client, on average: models and tools take their time."""

TURNS, BETWEEN = 5_000, 0.3
"""Of the one long session, and seconds between them."""

SAMPLED = 5.0
"""Seconds between two looks at the processes."""

GROWS = 1.15
"""Memory in the last quarter of the time, relative to the second quarter."""

HANDLES = 8
"""So many more file handles may be the fewest of the last quarter: connections to the database come and go."""

SLOW_BYTES, SLOW_PAUSE = 4_096, 0.1
"""A slow client takes so much, so many seconds apart."""

SCRIPT = {
    "rules": [
        {"when": {"prompt": "At length"}, "replies": [{"text": "A word of very many, and another one. " * 4_000}]},
        {"when": {"prompt": "In short"}, "replies": [{"text": "Noted."}]},
        {"replies": REPLIES["manage"]},
    ]
}


@attrs.frozen
class Sample:
    """The resources of two processes at a time: memory in MB, file handles."""

    memory: float
    worker: float
    handles: int


@attrs.define
class Load(Fleet):
    """Clients of one server that also read slowly, or talk without an end; and the server's resources."""

    done: Counter[str] = attrs.field(factory=Counter)
    samples: list[Sample] = attrs.field(factory=list)

    async def run(self, served: Served, seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look, served)
            async with trio.open_nursery() as talking:
                for number in range(SESSIONS):
                    talking.start_soon(self.work, f"client-{number}")
                for number in range(SLOW):
                    talking.start_soon(self._dawdle, f"slow-{number}")
                talking.start_soon(self._keep_talking)
                await trio.sleep(seconds)
                self.over = True
            nursery.cancel_scope.cancel()

    async def _look(self, served: Served) -> None:
        while True:
            await trio.sleep(SAMPLED)
            pid, worker = served.process.pid, served.worker
            handles = len(os.listdir(f"/proc/{pid}/fd"))
            self.samples.append(Sample(_memory(pid), _memory(worker) if worker else 0, handles))

    async def _dawdle(self, name: str) -> None:
        while not self.over:
            client = Client(self.url, session=f"{name}-{self.done['slow']}")
            client.history.append({"role": "user", "content": [text(f"At length, for {client.session}.")]})
            reply = await _read_slowly(client)
            assert (reply.status, reply.cut) == (200, False)
            assert b"event: message_stop" in reply.body
            self.done["slow"] += 1

    async def _keep_talking(self) -> None:
        client = Client(self.url, session="the long one")
        while not self.over and self.done["long"] < TURNS:
            number = self.done["long"]
            message = await client.turn(text(f"In short, {number}: line {number} has {number * 37 % 1009}."))
            assert client.replies.pop().status == 200, message
            client.bodies.clear()
            self.done["long"] += 1
            await trio.sleep(BETWEEN)

    def describe(self) -> str:
        """The amount of work, its duration, and the resources in each quarter of the time."""
        percentiles = quantiles([seconds for _, seconds in self.durations], n=100)
        took = ", ".join(f"p{each} {percentiles[each - 1]:.2f} s" for each in (50, 95, 99))
        held = "; ".join(
            f"{median(each.memory for each in part):.0f} and {median(each.worker for each in part):.0f} MB,"
            f" {min(each.handles for each in part)} to {max(each.handles for each in part)} handles"
            for part in self.quarters()
        )
        return f"{len(self.durations)} requests, {dict(self.done)}; {took}; server and worker by quarter: {held}"

    def quarters(self) -> list[list[Sample]]:
        quarter = len(self.samples) // 4
        return [self.samples[each * quarter : (each + 1) * quarter] for each in range(4)]


def _memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0  # it has just ended


async def _read_slowly(client: Client) -> RawReply:
    parts = urlsplit(client.url)
    stream = await trio.open_tcp_stream(parts.hostname or "", parts.port or 0)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BYTES)
    async with stream:
        connection = RawConnection(stream, parts.netloc)
        await connection.send("POST", "/v1/messages", client.body(), client.raw_headers())
        reply = RawReply()
        async for _ in connection.pieces(reply, at_most=SLOW_BYTES):
            await trio.sleep(SLOW_PAUSE)
        return reply


async def _assert_all_verifies(home: Home) -> int:
    async with open_storage(home.config) as storage:
        found = await verify_sessions(storage, None, lambda label: nullcontext(lambda done, total: None))
    assert not [each.differences for each in found if each.differences]
    return sum(each.turns for each in found)


@pytest.mark.soak
async def test_memory_does_not_grow_with_ended_sessions_in_an_hour(dsn: str, tmp_path: Path) -> None:
    chance = random.Random(1)
    async with at_home(tmp_path, dsn) as home, home.served("manage", *OPTIONS) as served:
        home.standin.script = from_data(SCRIPT)
        load = Load(served.url, lambda: chance.uniform(0, 2 * PAUSE))
        await load.run(served, 60 * MINUTES)
        print(load.describe(), f"{await _assert_all_verifies(home)} turns verified", sep="; ")  # noqa: T201
        home.assert_lawful()
        assert not load.failed
        first, second, _, last = load.quarters()
        assert min(each.handles for each in last) <= min(each.handles for each in first) + HANDLES
        assert median(each.memory for each in last) <= GROWS * median(each.memory for each in second)
        assert median(each.worker for each in last) <= GROWS * median(each.worker for each in second)
