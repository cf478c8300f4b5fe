"""``mnemosyne nodes`` lists the processes that are connected to the database."""

import trio

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.nodes import SERVER, name_of
from tests.cli.running import run, run_json
from tests.fixtures import UseLog


def test_connected_server_is_listed(dsn: str, use_log: UseLog) -> None:
    use_log(dsn)
    none = run("nodes")
    assert (none.stdout, none.stderr) == ("", "No servers or workers are connected to this database.\n")
    server = Database(dsn, name=name_of(SERVER))
    trio.run(server.prepare)
    (row,) = run_json("nodes")
    assert (row["what"], row["connections"], row["leads"]) == ("server", 1, False)
    assert run("nodes").stdout.splitlines()[1].split()[:3] == ["server", row["host"], str(row["pid"])]
    server.close()
