"""Every complete reply is in the log, however often the server is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.app.storage import Storage, open_storage
from mnemosyne.config import load
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.http.reply_copy import reading_of
from tests.actors.support import events_of, rebuilt, reply_text
from tests.cli.support import MNEMOSYNE, environ_for
from tests.domain.recorded import dumps
from tests.http.raw_client import RawReply, exchange
from tests.lab.provider.building import HEADERS, TOOL
from tests.waiting import DEADLINE, until

CLIENTS = 3
LONGEST_TRAFFIC = 0.4
"""Seconds of traffic before a kill, at most."""


WITH_DATABASE = 4
"""Each so many-th kill takes the database along."""

WITH_REPLY = 2
"""Each so many-th server is killed only after a client saw a reply whole, however slow the machine is."""

MOST_TIMES = 5
"""So many times as many servers are killed where none promised anything."""

GIVEN_UP = "the database takes longer than"
"""A server's log line for a reply that it sent before it was durable; a kill may lose that turn."""

SCRIPT = {
    "default": {
        "text": "A reply of some length, so that a kill may hit the middle of it. " * 12,
        "pace": {"first": 0.005, "between": 0.001},
    }
}


@attrs.define
class Seen:
    """A complete reply: the request, and the text of the reply."""

    session: str
    request: bytes
    text: str
    server: int


@attrs.define
class Campaign:
    """Clients that talk while servers are started and killed."""

    home: Path
    random: random.Random
    provider: str
    url: str = ""
    up: trio.Event = attrs.field(factory=trio.Event)
    server: int = 0
    seen: list[Seen] = attrs.field(factory=list)
    cut: int = 0
    given_up: set[int] = attrs.field(factory=set)

    @property
    def promised(self) -> list[Seen]:
        """The complete replies of servers that waited until the database had recorded them."""
        return [seen for seen in self.seen if seen.server not in self.given_up]

    async def run(self, kills: int) -> None:
        """Start a server and kill it during traffic, repeatedly; finally let one finish normally. On a slow machine
        without any complete reply, kill more.
        """
        async with trio.open_nursery() as clients:
            for number in range(CLIENTS):
                clients.start_soon(self._converse, f"session-{number}")
            for self.server in range(MOST_TIMES * kills):
                if self.server >= kills and self.promised:
                    break
                async with self._serving() as process:
                    if self.server % WITH_REPLY == 0:
                        await until(partial(self._has_seen_more_than, len(self.seen)))
                    await trio.sleep(self.random.uniform(0, LONGEST_TRAFFIC))
                    self.up = trio.Event()
                    if self.server % WITH_DATABASE == WITH_DATABASE - 1:
                        self.kill_database()
                    process.kill()
            clients.cancel_scope.cancel()

    def _has_seen_more_than(self, count: int) -> bool:
        return len(self.seen) > count

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[trio.Process]:
        errors = self.home / f"server-{self.server}.log"
        command = [*MNEMOSYNE, "serve", "--port", "0", "--upstream", self.provider]
        with errors.open("wb") as stderr:
            process = await trio.lowlevel.open_process(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=environ_for(self.home)
            )
        try:
            with trio.fail_after(DEADLINE):
                self.url = await _url_of(process)
            self.up.set()
            yield process
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            await process.stdout.aclose()  # type: ignore[union-attr]  # it is a pipe
            if GIVEN_UP in errors.read_text():
                self.given_up.add(self.server)
            errors.unlink()

    def kill_database(self) -> None:
        """Kill the embedded server, if it runs."""
        for path in (self.home / "data").rglob("postmaster.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(path.read_text().split()[0]), signal.SIGKILL)

    async def _converse(self, session: str) -> None:
        """A client that continues from every complete reply, and repeats every cut request."""
        history = [session]
        while True:
            await self.up.wait()
            server, stream = self.server, len(history) % 4 == 1
            request = _request(history, stream=stream)
            reply = await self._ask(session, request)
            if reply is None or not (text := _whole_text(reply, stream=stream)):
                self.cut += 1
                await trio.sleep(0.01)
                continue
            self.seen.append(Seen(session, request, text, server))
            history = (
                [*history, text, "Go on."] if len(history) < 40 else [f"{session} begins anew at {len(self.seen)}"]
            )

    async def _ask(self, session: str, request: bytes) -> RawReply | None:
        headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        try:
            return await exchange(
                self.url, body=request, headers=[*headers, (b"x-mnemosyne-session", session.encode())]
            )
        except OSError:
            return None


def _request(history: list[str], *, stream: bool) -> bytes:
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(history)]
    return dumps(
        {"model": "claude-opus-5-5", "max_tokens": 100, "messages": messages, "tools": [TOOL], "stream": stream}
    )


def _whole_text(reply: RawReply, *, stream: bool) -> str | None:
    """The text of a reply whose end the client received: by message_stop, or by the end of the body."""
    ended = b"event: message_stop\n" in reply.body and reply.body.endswith(b"\n\n") if stream else not reply.cut
    if reply.status != 200 or not ended:
        return None
    reading = reading_of(ReplyHead(200, ((b"content-type", reply.header(b"content-type") or b""),)), MESSAGES)
    list(reading.feed(reply.body))
    reading.close()
    message: dict[str, Any] = json.loads(reading.reply.result().body)
    text = message["content"][0]["text"]
    assert isinstance(text, str)
    return text


async def _url_of(process: trio.Process) -> str:
    said = b""
    while not said.endswith(b"\n"):
        assert process.stdout is not None
        chunk = await process.stdout.receive_some(1000)
        assert chunk, "the server ended before it took requests"
        said += chunk
    return said.decode().split()[-1]


@contextmanager
def standin(home: Path) -> Iterator[str]:
    """A provider as a process of its own; its URL."""
    script = home / "script.json"
    script.write_text(json.dumps(SCRIPT))
    command = [sys.executable, "-m", "mnemosyne_lab.provider", "--lenient", "--script", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


async def check(campaign: Campaign) -> None:
    """Every complete reply is recorded as finished with the same text, and is rebuilt byte for byte."""
    config = load({"data_dir": str(campaign.home / "data")}, {})
    promised = campaign.promised
    async with open_storage(config) as storage:
        for session in sorted({seen.session for seen in promised}):
            replies = await _finished(storage, stream_of(config.tenant, session))
            for seen in promised:
                if seen.session == session:
                    assert seen.text in replies.get(seen.request, []), f"lost with server {seen.server}"
    print(  # noqa: T201 - for whoever looks into a campaign
        f"{campaign.server + 1} kills: {len(campaign.seen)} replies seen whole, {campaign.cut} cut; "
        f"{len(campaign.given_up)} servers gave up waiting for the database"
    )
    assert campaign.cut > 0
    assert promised


async def _finished(storage: Storage, stream: UUID) -> dict[bytes, list[str]]:
    """The finished replies to each request of a session; every request of it is rebuilt."""
    bodies = await rebuilt(storage.events, storage.contents, stream)
    found: dict[bytes, list[str]] = {}
    for event in await events_of(storage.events, stream):
        if isinstance(event, TurnFinished) and event.status == 200:
            body = bodies[Address(event.branch, event.turn, event.attempt)]
            found.setdefault(body, []).append(await reply_text(storage.contents, event.reply, stream))
    return found


async def campaign_of(kills: int, seed: int) -> None:
    print(f"seed {seed}")  # noqa: T201
    # Not pytest's own temporary folder, which is kept, and another user may have to read below it.
    with tempfile.TemporaryDirectory(prefix="mnemosyne-kills-") as folder, standin(Path(folder)) as provider:
        campaign = Campaign(Path(folder), random.Random(seed), provider)
        try:
            await campaign.run(kills)
            await check(campaign)
        finally:
            campaign.kill_database()  # if the check fails, nothing else would stop it


async def test_four_kills_lose_no_complete_reply() -> None:
    await campaign_of(4, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
async def test_a_thousand_kills_lose_no_complete_reply(seed: int) -> None:
    await campaign_of(25, seed)
