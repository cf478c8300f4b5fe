"""A user's data directory and its servers: real processes, a real database, and a provider that signs thinking for the
request it received.
"""

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import trio

from mnemosyne.app.storage import open_storage
from mnemosyne.config import Config, load
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import Event
from mnemosyne.services import verifying
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.cli.support import MNEMOSYNE, environ_for
from tests.http.managing import look, model_says, text, think
from tests.http.raw_client import exchange
from tests.waiting import DEADLINE, PATIENT

LOOP = {
    "rules": [
        {"replies": [model_says(think("I look."), look(at="it")), model_says(think("Well."), text("It is there."))]}
    ]
}


@attrs.frozen
class Served:
    """A server process that takes requests."""

    url: str
    process: trio.Process

    @property
    def worker(self) -> int | None:
        """The process id of its worker, or None."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")  # any thread may have started it
        pids = [pid for thread in threads for pid in thread.read_text().split()]
        found = [int(pid) for pid in pids if b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return found[0] if found else None

    async def worker_status(self) -> dict[str, Any]:
        """The worker's part of the readiness report."""
        found: dict[str, Any] = json.loads((await exchange(self.url, "/-/ready", method="GET")).body)
        assert found["status"] == "ready"
        worker: dict[str, Any] = found["worker"]
        return worker

    async def until_worker(self, **wanted: object) -> dict[str, Any]:
        """Wait until the worker's status contains these values."""
        with trio.fail_after(DEADLINE):
            while True:
                status = await self.worker_status()
                if wanted.items() <= status.items():
                    return status
                await trio.sleep(0.05)  # the server sends no notification


@attrs.frozen
class Home:
    """A user's data directory, and the provider that its servers forward to."""

    folder: Path
    standin: Standin
    dsn: str | None = None

    @property
    def environ(self) -> dict[str, str]:
        return environ_for(self.folder, **PATIENT) | ({"MNEMOSYNE_DSN": self.dsn} if self.dsn else {})

    @property
    def config(self) -> Config:
        """The settings of the servers."""
        return load({}, self.environ)

    @asynccontextmanager
    async def serving(self, mode: str | None = None) -> AsyncIterator[str]:
        """Run a server process; yield its URL."""
        async with self.served(mode) as served:
            yield served.url

    @asynccontextmanager
    async def served(
        self, mode: str | None = None, *options: str, program: Sequence[str] = MNEMOSYNE
    ) -> AsyncIterator[Served]:
        """Run a server process, which is terminated at the end."""
        asked = [*program, "serve", "--port", "0", "--upstream", self.standin.url, *options]
        asked += ["--mode", mode] if mode else []
        with (self.folder / "errors").open("ab") as errors:
            process = await trio.lowlevel.open_process(
                asked, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=self.environ
            )
        try:
            assert process.stdout is not None
            with trio.fail_after(DEADLINE):
                line = b""
                while not line.endswith(b"\n"):
                    piece = await process.stdout.receive_some(1)
                    assert piece, "the server ended before it took requests"
                    line += piece
            yield Served(line.decode().split()[-1], process)
        finally:
            if process.poll() is None:
                process.terminate()
            with trio.CancelScope(shield=True):
                await process.wait()
                await process.stdout.aclose()  # type: ignore[union-attr]  # it is a pipe

    @asynccontextmanager
    async def database_stopped(self) -> AsyncIterator[None]:
        """Stop all processes of the database within the block. The database is started first if necessary."""
        async with open_storage(self.config):
            (file,) = (self.folder / "data").rglob("postmaster.pid")
            postmaster = int(file.read_text().split()[0])
            _signal_all(postmaster, signal.SIGSTOP)
            try:
                yield
            finally:
                _signal_all(postmaster, signal.SIGCONT)

    def stream(self, session: str) -> UUID:
        """The stream of a session, by the client's name for it."""
        return stream_of(self.config.tenant, session)

    async def until_recorded(self, session: str, kind: type[Event]) -> None:
        """Wait until an event of that kind is recorded; a turn does not wait long for a busy database."""
        async with open_storage(self.config) as storage:
            with trio.fail_after(DEADLINE):
                while True:
                    recorded = await storage.events.read(self.stream(session))
                    if any(isinstance(each.envelope.event, kind) for each in recorded):
                        return
                    await trio.sleep(0.05)  # another process writes

    async def events(self, session: str) -> list[Event]:
        """The events of a session, which must verify."""
        async with open_storage(self.config) as storage:
            stream = self.stream(session)
            report = await verifying.verify(storage, stream)
            assert not report.differences
            return [each.envelope.event for each in await storage.events.read(stream)]

    def assert_lawful(self) -> None:
        """The provider found no rule violated and refused nothing."""
        unlawful = [str(each.violation) for each in self.standin.violations if each.violation.rule != "R10"]
        assert not unlawful, unlawful
        assert {each.status for each in self.standin.messages} == {200}


def _signal_all(postmaster: int, signal_: signal.Signals) -> None:
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    for pid in (postmaster, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal_)


@asynccontextmanager
async def at_home(tmp_path: Path, dsn: str | None = None) -> AsyncIterator[Home]:
    async with open_standin(LOOP) as standin:
        yield Home(tmp_path, standin, dsn)
