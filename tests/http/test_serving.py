"""How the server starts, drains and stops, whatever its clients do."""

import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from mnemosyne.app.storage import open_storage
from mnemosyne.errors import BadConfiguration
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.serving import bind, url_of, watch_drain
from mnemosyne_lab.provider import from_data
from mnemosyne_lab.provider.server import open_standin
from tests.app.home import Home, Served, at_home
from tests.cli.support import mnemosyne
from tests.http.proxying import open_proxy
from tests.http.raw_client import connect, exchange
from tests.http.test_gateway import STREAMED, WHOLE
from tests.waiting import DEADLINE


@asynccontextmanager
async def replying(
    home: Home, text: str, pace: dict[str, float]
) -> AsyncIterator[tuple[Served, trio.SocketStream, bytes]]:
    """A server in the midst of a streamed reply, the client's connection, and the first byte there."""
    home.standin.script = from_data({"rules": [{"reply": {"text": text, "pace": pace}}]})
    async with home.served() as served, connect(served.url) as connection:
        await connection.send("POST", "/v1/messages", STREAMED)
        yield served, connection.stream, await connection.stream.receive_some(1)


async def refuses_connections(served: Served) -> None:
    """Return when the server accepts no more."""
    while await _accepts(served.url):
        pass


async def test_running_reply_finishes_after_sigterm_while_new_connections_are_refused(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home, replying(home, "y" * 240, {"between": 0.1}) as (served, stream, first):
        served.process.send_signal(signal.SIGTERM)
        with trio.fail_after(DEADLINE):
            await refuses_connections(served)
            rest = bytearray(first)
            while b"message_stop" not in rest:
                rest += await stream.receive_some(65536)
            assert await served.process.wait() == 0


@pytest.mark.release
async def test_second_signal_ends_the_server_at_once(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home, replying(home, "x" * 1000, {"between": 3600}) as (served, _, _):
        served.process.terminate()
        await refuses_connections(served)
        served.process.send_signal(signal.SIGINT)
        with trio.fail_after(DEADLINE):
            assert await served.process.wait() == 0


async def test_reply_of_an_hour_is_not_cut(loopback_clock: trio.testing.MockClock) -> None:
    silence = {"kind": "silence", "at": 4, "seconds": 3600}
    script = {"rules": [{"reply": {"text": "at last", "pace": {"first": 1800}, "faults": [silence]}}]}
    async with open_standin(script) as standin, open_proxy(standin.url) as proxy:
        reply = await exchange(proxy.url, body=STREAMED)
    assert trio.current_time() >= 5400
    assert reply.body.endswith(b'data: {"type":"message_stop"}\n\n')
    assert not reply.cut


@attrs.define
class Exits:
    """Records that the process would end."""

    called: trio.Event = attrs.field(factory=trio.Event)

    async def __call__(self) -> None:
        self.called.set()
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (RelayProgress(running=1, waiting_for_client=1), 20),  # a client that does not read
        (RelayProgress(running=0), 20),  # the only connection left has a client that does not read
        (RelayProgress(running=1, waiting_for_client=0), 301),  # the model is still thinking: wait until the limit
    ],
)
async def test_shutdown_waits_for_models_but_not_for_dead_clients(
    autojump_clock: trio.testing.MockClock, progress: RelayProgress, expected: float
) -> None:
    stopping, exits = trio.Event(), Exits()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_drain, stopping, progress, 300, 20, exits)
        await trio.sleep(1000)
        assert not exits.called.is_set()
        started = trio.current_time()
        stopping.set()
        await exits.called.wait()
        assert expected <= trio.current_time() - started <= expected + 1
        nursery.cancel_scope.cancel()


async def test_shutdown_waits_for_a_reply_that_makes_progress(autojump_clock: trio.testing.MockClock) -> None:
    progress, stopping, exits = RelayProgress(running=1, waiting_for_client=1), trio.Event(), Exits()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_drain, stopping, progress, 300, 20, exits)
        stopping.set()
        for _ in range(10):
            await trio.sleep(15)
            progress.delivered += 1
        assert not exits.called.is_set()
        nursery.cancel_scope.cancel()


def test_used_port_is_reported_with_advice() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(BadConfiguration, match="choose another port"):
        bind("127.0.0.1", taken.getsockname()[1])


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_url_of_an_ipv6_listener_has_brackets() -> None:
    try:
        listener = bind("::1", 0)
    except BadConfiguration:
        pytest.skip("this machine has no IPv6 loopback")
    with listener:
        assert url_of(listener).startswith("http://[::1]:")


@pytest.mark.release
async def test_unreachable_database_delays_neither_start_nor_turn_nor_shutdown(tmp_path: Path) -> None:
    """Shutdown waits for the database as long as it may, which is a moment here."""
    hasty = "from mnemosyne.app import server; server.RECORDING_SECONDS = 0.1; from mnemosyne.cli import main; main()"
    program = (sys.executable, "-P", "-c", hasty)
    with trio.fail_after(DEADLINE):
        async with at_home(tmp_path, "postgresql://127.0.0.1:1/x") as home, home.served(program=program) as served:
            assert (await exchange(served.url, body=STREAMED)).body.endswith(b'data: {"type":"message_stop"}\n\n')
            served.process.terminate()
            assert await served.process.wait() == 0


@pytest.mark.release
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux's /proc lists a process's children")
async def test_turn_is_recorded_although_the_database_hung_until_after_sigterm(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home, open_storage(home.config), home.served() as served:
        async with home.database_stopped():
            assert (await exchange(served.url, body=WHOLE)).status == 200
            served.process.terminate()
            await refuses_connections(served)
        with trio.fail_after(DEADLINE):
            assert await served.process.wait() == 0
    listed = await trio.to_thread.run_sync(partial(mnemosyne, "sessions", "--json", environ=home.environ))
    assert [each["turns"] for each in json.loads(listed.stdout)] == [1]


async def _accepts(url: str) -> bool:
    try:
        async with connect(url):
            return True
    except OSError:
        return False
