"""The pages of a real server are made by a separate process, which may end at any time."""

import http.client
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import attrs
import pytest
import trio

from mnemosyne.app.on_demand import open_pages
from mnemosyne.app.worker import NICENESS
from tests.cli.support import children, ended, environ_for, invoked, line, started
from tests.waiting import DEADLINE


@attrs.frozen
class Page:
    status: int
    headers: Mapping[str, str]
    body: bytes


@attrs.frozen
class Browser:
    """A browser; ``cookie`` is its sign-in."""

    address: str
    cookie: str = ""

    @contextmanager
    def following(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        """A reply whose body was not read yet."""
        own = {"Cookie": self.cookie} if self.cookie else {}
        with closing(http.client.HTTPConnection(self.address, timeout=DEADLINE)) as connection:
            connection.request("GET", path, headers={"Accept": "text/html", "Connection": "close", **own, **headers})
            with connection.getresponse() as reply:
                yield reply

    def get(self, path: str, **headers: str) -> Page:
        with self.following(path, **headers) as reply:
            return Page(reply.status, dict(reply.headers.items()), reply.read())


@contextmanager
def opened(dsn: str, tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", Browser]]:
    """A server on this database, and a browser that followed a link to it."""
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    with started("serve", environ=environ) as server:
        stranger = Browser(line(server.stdout).removeprefix("mnemosyne listening on http://"))
        port = stranger.address.rpartition(":")[2]
        said = invoked("open", "--print", "--port", port, environ=environ).stdout
        link = re.search(r"http://[^/]+(\S+)", said)
        assert link is not None
        entered = stranger.get(link[1])
        assert entered.status == 303
        cookie = entered.headers["set-cookie"].partition(";")[0]
        yield server, attrs.evolve(stranger, cookie=cookie)


def page_makers(server: "subprocess.Popen[str]") -> list[int]:
    return [pid for pid, command in children(server.pid).items() if " open --at-socket" in command]


@pytest.mark.release
def test_pages_run_in_a_process_that_is_restarted_and_does_not_delay_shutdown(dsn: str, tmp_path: Path) -> None:
    """A single server, because each start is slow."""
    with opened(dsn, tmp_path) as (server, browser):
        (maker,) = page_makers(server)
        priority, ours = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (maker, server.pid))
        assert priority == min(19, ours + NICENESS)  # turns come first
        reply = browser.get("/-/")
        assert (reply.status, b"No sessions yet" in reply.body) == (200, True)
        assert Browser(browser.address).get("/-/").status == 401
        assert browser.get("/-/", Origin=f"http://{browser.address}").status == 200  # as a browser sends with our forms
        assert browser.get("/-/", Origin="http://127.0.0.1:1").status == 403
        home = browser.get("/", **{"Sec-Fetch-Mode": "navigate"})
        assert (home.status, home.headers["location"]) == (303, "/-/")
        assert browser.get("/").status == 502  # other clients reach the provider, which is down

        os.kill(maker, signal.SIGKILL)
        assert ended(maker)
        # The request that meets the end of the process may be lost with it; the next one is not.
        assert 200 in {browser.get("/-/").status, browser.get("/-/").status}
        (another,) = page_makers(server)
        assert another != maker

        with browser.following("/-/events") as followed:
            assert followed.readline().startswith(b"retry:")
            server.terminate()
            assert server.wait(DEADLINE) == 0
        assert ended(another)
        assert server.stderr is not None
        said = server.stderr.read()
    assert "mnemosyne open" in said
    assert "token=" not in said, "the server's log contains no token"


@pytest.mark.release
def test_the_page_process_ends_with_a_killed_server(dsn: str, tmp_path: Path) -> None:
    with opened(dsn, tmp_path) as (server, _):
        (maker,) = page_makers(server)
        server.kill()
        assert ended(maker)


async def test_without_a_socket_there_are_no_pages_and_the_server_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))

    async def dsn() -> str:
        return ""

    async with open_pages({}, dsn, "the-token", nursery) as pages:
        assert pages is None
