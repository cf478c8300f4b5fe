"""``mnemosyne nodes`` shows who is connected to the database."""

import json
from pathlib import Path

import pytest
import trio

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.nodes import SERVER, name_of
from tests.cli.support import environ_for, invoked


@pytest.fixture
def environ(dsn: str, tmp_path: Path) -> dict[str, str]:
    return environ_for(tmp_path, MNEMOSYNE_DSN=dsn)


def test_a_server_is_shown_while_it_is_connected(dsn: str, environ: dict[str, str]) -> None:
    server = Database(dsn, name=name_of(SERVER))
    trio.run(server.prepare)
    (told,) = json.loads(invoked("nodes", "--json", environ=environ).stdout)
    assert (told["what"], told["connections"], told["leads"]) == ("server", 1, False)
    assert invoked("nodes", environ=environ).stdout.splitlines()[1].split()[:3] == [
        "server",
        told["host"],
        str(told["pid"]),
    ]
    server.close()


def test_where_nobody_is_connected_that_is_said(environ: dict[str, str]) -> None:
    done = invoked("nodes", environ=environ)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "No servers or workers are connected to this database.\n"
