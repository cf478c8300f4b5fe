"""`mnemosyne open` prints a link that works: to the running server, or to pages of its own."""

import http.client
import signal
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli.support import environ_for, invoked, line, serving, started
from tests.waiting import DEADLINE


def enter(link: str) -> tuple[int, str]:
    """The status of following a link, and where it leads."""
    parts = urlsplit(link)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=DEADLINE)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Connection": "close"})
        reply = connection.getresponse()
        reply.read()
        return reply.status, str(reply.headers["Location"])


def test_where_a_server_runs_the_link_is_to_its_pages(dsn: str, tmp_path: Path) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=dsn, MNEMOSYNE_UPSTREAM="http://127.0.0.1:9")
    with serving(environ=environ) as url:
        port = str(urlsplit(url).port)
        done = invoked("open", "--print", "--port", port, environ=environ)
        assert (done.exit_code, done.stdout.startswith(f"{url}/-/?token=")) == (0, True)
        assert enter(done.stdout.strip()) == (303, "/-/")
        assert enter(done.stdout.strip())[0] == 403
        one = invoked("open", "319a", "--print", "--port", port, environ=environ)
        assert enter(one.stdout.strip()) == (303, "/-/session/319a")


def test_where_none_runs_the_pages_are_shown_until_it_is_interrupted(dsn: str, tmp_path: Path) -> None:
    with started("open", "--print", environ=environ_for(tmp_path, MNEMOSYNE_DSN=dsn)) as pages:
        assert enter(line(pages.stdout)) == (303, "/-/")
        pages.send_signal(signal.SIGINT)
        assert pages.wait(DEADLINE) == 0
