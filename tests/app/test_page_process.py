"""Pages of a real server: made by a process of its own, which may end at any time without harm."""

import http.client
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import attrs

from tests.cli.support import children, ended, environ_for, line, started
from tests.waiting import DEADLINE


@attrs.frozen
class Page:
    status: int
    headers: Mapping[str, str]
    body: bytes


@attrs.frozen
class Browser:
    """Somebody in front of a server's pages. ``cookie`` is what they were let in with."""

    address: str
    cookie: str = ""

    @contextmanager
    def following(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        """A reply whose body is still to be read."""
        own = {"Cookie": self.cookie} if self.cookie else {}
        with closing(http.client.HTTPConnection(self.address, timeout=DEADLINE)) as connection:
            connection.request("GET", path, headers={"Accept": "text/html", "Connection": "close", **own, **headers})
            with connection.getresponse() as reply:
                yield reply

    def get(self, path: str, **headers: str) -> Page:
        """A page, whole."""
        with self.following(path, **headers) as reply:
            return Page(reply.status, dict(reply.headers.items()), reply.read())


@contextmanager
def opened(dsn: str, tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", Browser]]:
    """A server on this database, and a browser that followed the link which it printed."""
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    with started("serve", environ=environ) as server:
        stranger = Browser(line(server.stdout).removeprefix("mnemosyne listening on http://"))
        assert server.stderr is not None
        said = next(each for each in server.stderr if "token=" in each)
        link = re.search(r"http://[^/]+(\S+)", said)
        assert link is not None
        entered = stranger.get(link[1])
        assert entered.status == 303
        cookie = entered.headers["set-cookie"].partition(";")[0]
        yield server, attrs.evolve(stranger, cookie=cookie)


def page_makers(server: "subprocess.Popen[str]") -> list[int]:
    return [pid for pid, command in children(server.pid).items() if " open --at-socket" in command]


def test_the_link_that_a_server_prints_leads_to_its_pages_which_a_process_of_their_own_makes(
    dsn: str, tmp_path: Path
) -> None:
    with opened(dsn, tmp_path) as (server, browser):
        assert len(page_makers(server)) == 1
        reply = browser.get("/-/")
        assert (reply.status, b"Nothing was recorded yet" in reply.body) == (200, True)
        assert Browser(browser.address).get("/-/").status == 401
        home = browser.get("/", **{"Sec-Fetch-Mode": "navigate"})
        assert (home.status, home.headers["location"]) == (303, "/-/")
        assert browser.get("/").status == 502  # what is no browser asks the provider, which is not there


def test_pages_are_made_again_after_their_process_was_killed(dsn: str, tmp_path: Path) -> None:
    with opened(dsn, tmp_path) as (server, browser):
        (maker,) = page_makers(server)
        os.kill(maker, signal.SIGKILL)
        assert ended(maker)
        # The request that meets the end of the process may be lost with it; the next one is not.
        assert 200 in {browser.get("/-/").status, browser.get("/-/").status}
        assert page_makers(server) != [maker]


def test_a_server_that_is_told_to_stop_does_not_wait_for_pages_that_follow_the_log(dsn: str, tmp_path: Path) -> None:
    with opened(dsn, tmp_path) as (server, browser):
        (maker,) = page_makers(server)
        with browser.following("/-/events") as followed:
            assert followed.readline().startswith(b"retry:")
            server.terminate()
            assert server.wait(DEADLINE) == 0
        assert ended(maker)


def test_the_process_that_makes_pages_ends_with_its_server_however_that_ends(dsn: str, tmp_path: Path) -> None:
    with opened(dsn, tmp_path) as (server, _):
        (maker,) = page_makers(server)
        server.kill()
        assert ended(maker)
