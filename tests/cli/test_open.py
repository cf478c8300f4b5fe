"""`mnemosyne open` prints a link to the running server, or to pages that it serves itself."""

import http.client
import signal
import socket
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.logs import OBSERVED, put_events
from tests.cli.support import environ_for, invoked, line, serving, started
from tests.projections.test_savings import STREAM
from tests.waiting import DEADLINE


def enter(link: str) -> tuple[int, str]:
    """The status and the target of a link."""
    parts = urlsplit(link)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=DEADLINE)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Connection": "close"})
        reply = connection.getresponse()
        reply.read()
        return reply.status, str(reply.headers["Location"])


@pytest.mark.release  # it starts a server, as the test of pages on demand, which follows a link too, does
def test_link_opens_the_pages_of_a_running_server_once(dsn: str, tmp_path: Path) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    with serving(environ=environ) as url:
        port = str(urlsplit(url).port)
        done = invoked("open", "--print", "--port", port, environ=environ)
        assert (done.exit_code, done.stdout.startswith(f"{url}/-/?token=")) == (0, True)
        assert enter(done.stdout.strip()) == (303, "/-/")
        assert enter(done.stdout.strip())[0] == 403
        put_events(dsn, OBSERVED)
        one = invoked("open", str(STREAM), "--print", "--port", port, environ=environ)
        assert enter(one.stdout.strip()) == (303, f"/-/session/{STREAM}")
        for name in ("zzzz", "319a", "../status"):
            none = invoked("open", name, "--print", "--port", port, environ=environ)
            assert (none.exit_code, none.stdout) == (1, "")
            assert f"There is no session '{name}'; `mnemosyne sessions` lists all." in none.stderr


def test_pages_are_served_without_a_server_until_interrupted(dsn: str, tmp_path: Path) -> None:
    with started("open", "--print", environ=environ_for(tmp_path, MNEMOSYNE_DSN=dsn)) as pages:
        assert enter(line(pages.stdout)) == (303, "/-/")
        pages.send_signal(signal.SIGINT)
        assert pages.wait(DEADLINE) == 0


def test_pages_without_a_server_use_the_given_port(dsn: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with started("open", "--print", "--port", port, environ=environ_for(tmp_path, MNEMOSYNE_DSN=dsn)) as pages:
        assert urlsplit(line(pages.stdout)).netloc == f"127.0.0.1:{port}"
