"""Where the conversation is played: in the test's own process on a log in memory, and through a real server."""

import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from campaigns.northstar.conversation import LONG, Lengths, conversation
from campaigns.northstar.model import model
from campaigns.northstar.playing import WINDOW, Figures, Play, figures
from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.domain.session.directory import stream_of
from mnemosyne_lab.provider.script import Script
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import STREAM
from tests.cli.support import MNEMOSYNE, environ_for, mnemosyne
from tests.http.managing import Client, bare_stage
from tests.waiting import DEADLINE, PATIENT


@attrs.frozen
class Outcome:
    """A finished play, its results, and the violated wire rules."""

    play: Play
    figures: Figures
    violations: Sequence[str]


@attrs.define
class Clock:
    """The common clock of client, proxy and provider, in microseconds; it advances between requests."""

    now: int = 1_700_000_000_000_000

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.now += 1
        return self.now

    def pause(self) -> None:
        """Advance the clock by twenty seconds."""
        self.now += 20_000_000


async def in_memory(lengths: Lengths = LONG) -> Outcome:
    """The whole proxy on a log in memory, without an index. Every round is rebuilt byte for byte, and the provider
    refuses prompts larger than the window.
    """
    clock = Clock()
    script = Script(window=WINDOW)
    async with (
        open_standin(script, clock=lambda: clock.now / 1e6, model=model) as standin,
        bare_stage(standin=standin, window=WINDOW, clock=clock) as stage,
    ):
        play = Play(Client(stage.url), standin, clock.pause)
        await play.run(conversation(lengths))
        await stage.rounds()
        found = await figures(play, await stage.log.read(STREAM), stage.log, STREAM)
        return Outcome(play, found, [str(each.violation) for each in standin.violations])


async def served(home: Path) -> Outcome:
    r"""A server as a user runs it, with its database, index, summaries and limits, at ``home``, on a real clock.

    Every round is rebuilt byte for byte. Raises AssertionError if one is not.
    """
    environ = environ_for(home, MNEMOSYNE_MANAGE_WINDOW=str(WINDOW), MNEMOSYNE_MODE="manage", **PATIENT)
    async with open_standin(model=model) as standin:
        async with _server(standin.url, environ) as url:
            play = Play(Client(url), standin, lambda: None)
            await play.run(conversation())
        verified = await trio.to_thread.run_sync(lambda: mnemosyne("verify", environ=environ))
        assert verified.returncode == 0, verified.stdout + verified.stderr
        config = load({"data_dir": str(home / "data")}, {})
        stream = stream_of(config.tenant, play.client.session)
        async with open_storage(config) as storage:
            found = await figures(play, await storage.events.read(stream), storage.contents, stream)
        return Outcome(play, found, [str(each.violation) for each in standin.violations])


@asynccontextmanager
async def _server(upstream: str, environ: dict[str, str]) -> AsyncIterator[str]:
    command = [*MNEMOSYNE, "serve", "--port", "0", "--upstream", upstream]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environ)
    assert process.stdout is not None
    try:
        said = b""
        with trio.fail_after(DEADLINE):
            while not said.endswith(b"\n"):
                said += await process.stdout.receive_some(1000)
        yield said.decode().split()[-1]
        process.terminate()
        with trio.fail_after(DEADLINE):
            await process.wait()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
