"""An hour of a busy server beside LiteLLM's proxy under the same load: many sessions that begin, work and end, slow
clients, and one long session. Neither memory nor file handles grow with ended sessions, and nothing is lost.
"""

import os
import random
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import attrs
import pytest
import trio

from benchmarks.harness import percentile, processes_below, read_memory_mb
from campaigns.clients.test_litellm import litellm
from campaigns.soak.fleet import OPTIONS, REPLIES, Fleet
from mnemosyne.app.storage import open_storage
from mnemosyne.services.verifying import verify_sessions
from mnemosyne_lab.provider import Script, from_data, open_standin
from tests.app.home import Home, at_home
from tests.http.managing import Client, text
from tests.http.raw_client import RawConnection, RawReply

MINUTES = float(os.environ.get("LOAD_MINUTES", "60"))
SESSIONS, SLOW = 64, 10

PAUSE = 20.0
"""Seconds between two requests of a client, on average: models and tools take their time."""

TURNS, BETWEEN = 5_000, 0.3
"""Turns of the one long session, and seconds between them."""

SAMPLED = 5.0
"""Seconds between two samples."""

GROWS = 1.15
"""Maximum memory in the last quarter of the time, relative to the second quarter."""

HANDLES = 8
"""Maximum growth of the minimum of file handles, in the same quarters: database connections come and go."""

SLOW_BYTES, SLOW_PAUSE = 4_096, 0.1
"""Bytes that a slow client reads at a time, and seconds between its reads."""


def _script(mode: str) -> Script:
    long = {"text": "A word of very many, and another one. " * 4_000}
    rules = [{"when": {"prompt": "At length"}, "replies": [long]}]
    rules += [{"when": {"prompt": "In short"}, "replies": [{"text": "Noted."}]}, {"replies": REPLIES[mode]}]
    return from_data({"rules": rules})


@attrs.define
class Load(Fleet):
    """Clients of one server, also slow and endless ones, and samples of the server's resources."""

    done: Counter[str] = attrs.field(factory=Counter)
    samples: list[tuple[list[float], int]] = attrs.field(factory=list)
    """Every ``SAMPLED`` seconds: MB of memory of each of the server's processes, and file handles of the first."""

    async def run(self, find: Callable[[], Sequence[int]], seconds: float) -> None:
        """Run the clients for this long and let them finish; ``find`` returns the ids of the server's processes."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look, find)
            async with trio.open_nursery() as talking:
                for number in range(SESSIONS):
                    talking.start_soon(self.work, f"client-{number}")
                for number in range(SLOW):
                    talking.start_soon(self._dawdle, f"slow-{number}")
                talking.start_soon(self._keep_talking)
                await trio.sleep(seconds)
                self.over = True
            nursery.cancel_scope.cancel()

    async def _look(self, find: Callable[[], Sequence[int]]) -> None:
        while True:
            await trio.sleep(SAMPLED)
            with suppress(OSError):  # a process has just ended
                pids = find()
                memory = [read_memory_mb(pid, "Rss") for pid in pids]
                self.samples.append((memory, len(os.listdir(f"/proc/{pids[0]}/fd"))))

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
        whole = [seconds for _, seconds in self.durations]
        took = "; ".join(
            f"{name} " + ", ".join(f"p{each} {percentile(values, each):.3f} s" for each in (50, 95, 99))
            for name, values in (("first byte", self.firsts), ("whole turn", whole))
        )
        held = "; ".join(
            " and ".join(f"{median(column):.0f}" for column in zip(*(memory for memory, _ in part), strict=True))
            + f" MB, {min(handles for _, handles in part)} to {max(handles for _, handles in part)} handles"
            for part in self.quarters()
        )
        return f"{len(whole)} requests, {dict(self.done)}, failed {dict(self.failed)}; {took}; by quarter: {held}"

    def quarters(self) -> list[list[tuple[list[float], int]]]:
        """The samples in four parts."""
        quarter = len(self.samples) // 4
        return [self.samples[each * quarter : (each + 1) * quarter] for each in range(4)]


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
    async with (
        at_home(tmp_path, dsn) as home,
        home.served("manage", *OPTIONS) as served,
        open_standin() as standin,
    ):
        home.standin.script, standin.script = _script("manage"), _script("observe")
        with litellm(standin.url, tmp_path / "litellm") as (url, pid):
            ours, theirs = (Load(each, partial(random.Random(1).uniform, 0, 2 * PAUSE)) for each in (served.url, url))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.run, lambda: (served.process.pid, served.worker or 0), 60 * MINUTES)
                nursery.start_soon(theirs.run, lambda: processes_below(pid), 60 * MINUTES)
        print(ours.describe(), f"LiteLLM: {theirs.describe()}", sep="\n")  # noqa: T201
        print(f"{(verified := await _assert_all_verifies(home))} turns verified")  # noqa: T201
        home.assert_lawful()
        assert not ours.failed
        assert verified == len(ours.completed) + ours.done.total()
        assert percentile(ours.firsts, 99) < percentile(theirs.firsts, 99)
        first, second, _, last = ours.quarters()
        assert min(handles for _, handles in last) <= min(handles for _, handles in first) + HANDLES
        for number in range(2):
            before, after = (median(memory[number] for memory, _ in part) for part in (second, last))
            assert after <= GROWS * before
