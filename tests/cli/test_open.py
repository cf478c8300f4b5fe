"""`mnemosyne open` prints a link that works: to the running server, or to pages of its own."""

import http.client
import json
import signal
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

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
        turn = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Where is it?"}]}
        asking = urllib.request.Request(
            f"{url}/v1/messages", json.dumps(turn).encode(), {"content-type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError, match="502"):
            urllib.request.urlopen(asking, timeout=DEADLINE)
        (session,) = json.loads(invoked("sessions", "--json", environ=environ).stdout)
        one = invoked("open", session["id"], "--print", "--port", port, environ=environ)
        assert enter(one.stdout.strip()) == (303, f"/-/session/{session['id']}")
        for name in ("zzzz", "319a", "../status"):
            none = invoked("open", name, "--print", "--port", port, environ=environ)
            assert (none.exit_code, none.stdout) == (1, "")
            assert f"There is no session '{name}'; `mnemosyne sessions` lists all." in none.stderr


def test_where_none_runs_the_pages_are_shown_until_it_is_interrupted(dsn: str, tmp_path: Path) -> None:
    with started("open", "--print", environ=environ_for(tmp_path, MNEMOSYNE_DSN=dsn)) as pages:
        assert enter(line(pages.stdout)) == (303, "/-/")
        pages.send_signal(signal.SIGINT)
        assert pages.wait(DEADLINE) == 0
