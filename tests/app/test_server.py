"""What a server promises a conversation through restarts and a database that stands still: real processes, a real
database, and a provider that signs thinking against what it was sent.
"""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import attrs
import pytest
import trio

from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import BranchModeSet, FallbackSent, Mode
from mnemosyne.lab.provider.server import Standin, open_standin
from mnemosyne.services import verifying
from tests.cli.support import MNEMOSYNE, environ_for
from tests.http.managing import Client, look, said, text, think
from tests.waiting import DEADLINE

LOOP = {"rules": [{"replies": [said(think("I look."), look(at="it")), said(think("Well."), text("It is there."))]}]}
AT_ONCE = 20
"""Conversations that begin at the same moment."""


@attrs.frozen
class Home:
    """A user's data directory, and the provider that its servers forward to."""

    folder: Path
    standin: Standin

    @property
    def environ(self) -> dict[str, str]:
        return environ_for(self.folder)

    @asynccontextmanager
    async def serving(self, mode: str | None = None) -> AsyncIterator[str]:
        """A server process of its own; its URL."""
        asked = [*MNEMOSYNE, "serve", "--port", "0", "--upstream", self.standin.url]
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
                    line += await process.stdout.receive_some(1)
            yield line.decode().split()[-1]
        finally:
            process.terminate()
            with trio.CancelScope(shield=True):
                await process.wait()
                await process.stdout.aclose()  # type: ignore[union-attr]  # it is a pipe

    @contextmanager
    def database_stopped(self) -> Iterator[None]:
        """While in the block no process of the database runs."""
        (file,) = (self.folder / "data").rglob("postmaster.pid")
        postmaster = int(file.read_text().split()[0])
        _signal_all(postmaster, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal_all(postmaster, signal.SIGCONT)

    async def events(self, session: str) -> list[Event]:
        """What is on record of a session, which must verify."""
        config = load({"data_dir": str(self.folder / "data")}, {})
        async with open_storage(config) as storage:
            stream = stream_of(config.tenant, session)
            report = await verifying.verify(storage, stream)
            assert not report.differences
            return [each.envelope.event for each in await storage.events.read(stream)]

    def assert_lawful(self) -> None:
        """No client was refused anything, because the provider had nothing to refuse."""
        assert [each.violation for each in self.standin.violations if each.violation.rule != "R10"] == []
        assert {each.status for each in self.standin.messages} == {200}


def _signal_all(postmaster: int, signal_: signal.Signals) -> None:
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    for pid in (postmaster, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal_)


@asynccontextmanager
async def at_home(tmp_path: Path) -> AsyncIterator[Home]:
    async with open_standin(LOOP) as standin:
        yield Home(tmp_path, standin)


async def test_a_managed_conversation_stays_so_through_a_server_that_was_not_asked_to_manage(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        client = Client("", session="s")
        for mode in ("manage", None, "manage"):
            async with home.serving(mode) as client.url:
                for _ in range(2):
                    message = await client.work("Where is it?")
                    assert message.get("content", [message])[-1] == text("It is there.")
        home.assert_lawful()
        modes = [event.mode for event in await home.events("s") if isinstance(event, BranchModeSet)]
        assert modes == [Mode.MANAGE]
        assert all("memory_query" in str(each.json()["tools"]) for each in home.standin.messages)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are stopped by way of /proc")
@pytest.mark.parametrize("mode", ["manage", "observe"])
async def test_a_database_that_stands_still_while_a_conversation_begins_breaks_nothing_and_what_left_is_shown(
    mode: str, tmp_path: Path
) -> None:
    async with at_home(tmp_path) as home:
        async with home.serving(mode) as url:
            client = Client(url, session="s")
            with home.database_stopped():
                client.history.append({"role": "user", "content": [text("Where is it?")]})
                await answered(client)
                client.history.append({"role": "user", "content": seen(client)})
                await answered(client)
            for _ in range(3):
                assert (await client.work("And now?"))["content"][-1] == text("It is there.")
        home.assert_lawful()
        events = await home.events("s")
        decided = [event for event in events if isinstance(event, BranchModeSet)]
        assert [each.mode for each in decided] == ([Mode.OBSERVE] if mode == "manage" else [])
        assert not any(isinstance(event, FallbackSent) for event in events)
        for turn, exchange in enumerate(home.standin.messages, 1):
            command = [*MNEMOSYNE, "context", "s", "--turn", str(turn), "--raw"]
            shown = await trio.run_process(command, env=home.environ, capture_stdout=True, capture_stderr=True)
            assert shown.stdout == exchange.body, shown.stderr


async def answered(client: Client) -> None:
    message = await client.send()
    assert "content" in message, message
    client.history.append({"role": "assistant", "content": message["content"]})


def seen(client: Client) -> list[dict[str, object]]:
    calls = [block["id"] for block in client.history[-1]["content"] if block["type"] == "tool_use"]
    return [{"type": "tool_result", "tool_use_id": call, "content": "seen"} for call in calls]


@pytest.mark.parametrize("mode", ["manage", "observe"])
async def test_many_conversations_that_begin_at_once_on_a_busy_machine_are_each_served_and_each_one_thing(
    mode: str, tmp_path: Path
) -> None:
    async with at_home(tmp_path) as home, home.serving(mode) as url:
        clients = [Client(url, session=f"s{number}") for number in range(AT_ONCE)]
        with busy():
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(converse, client)
        home.assert_lawful()
        for client in clients:
            decided = [event for event in await home.events(client.session) if isinstance(event, BranchModeSet)]
            assert len(decided) == (1 if mode == "manage" else 0)


async def converse(client: Client) -> None:
    for prompt in ("Where is it?", "And the other?", "And now?"):
        assert (await client.work(prompt))["content"][-1] == text("It is there.")


@contextmanager
def busy() -> Iterator[None]:
    """While in the block every core has something else to do."""
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
