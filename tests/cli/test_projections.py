"""``mnemosyne projections``, ``rebuild`` and ``nodes`` on a real database."""

import trio

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.leading import SERVER, name_of
from mnemosyne.projections.catalog import ALL
from tests.adapters.log_support import query
from tests.cli.logs import GOLDEN, dump_all, put_golden
from tests.cli.running import run, run_json, words
from tests.fixtures import UseLog

UNKNOWN_EVENT = """insert into mnemosyne.stored_events (originator_id, originator_version, topic, state)
    values ('00000000-0000-0000-0000-000000000001', 1, 'session.dreamt.v7', '{}')"""


def test_state_of_the_read_models_is_shown_and_repaired(empty_dsn: str, use_log: UseLog) -> None:
    put_golden(empty_dsn, GOLDEN)
    use_log(empty_dsn)
    assert words(run("projections").stdout)[1] == ["timeline", "11", "0", "38", "none"]
    before = run("usage", "--json").stdout
    assert words(run("projections").stdout)[1:3] == [
        ["timeline", "11", "38", "0", "current"],
        ["usage", "7", "38", "0", "current"],
    ]
    query(empty_dsn, "drop table mnemosyne.usage_turns")
    assert run_json("projections")[1] == {
        "name": "usage",
        "version": 7,
        "position": 38,
        "lag": 0,
        "state": "stale",
        "error": "its table usage_turns is missing",
        "set_aside": 0,
    }
    assert run("usage").stderr == "The projection usage is rebuilt: its table usage_turns is missing.\n"
    query(empty_dsn, UNKNOWN_EVENT)
    assert run("usage", "--json").stdout == before
    result = run("projections")
    assert words(result.stdout)[2] == ["usage", "7", "39", "0", "current"]
    assert "usage: 1 event was set aside; `mnemosyne sessions` names the sessions" in result.stderr
    assert run("rebuild", "usage").stdout == "usage is rebuilt, up to position 39.\n"
    assert run("usage", "--json").stdout == before


def test_rebuild_changes_no_row(dsn: str, use_log: UseLog) -> None:
    put_golden(dsn, GOLDEN)
    use_log(dsn)
    before = dump_all(dsn)
    assert before["timeline"] == (GOLDEN / "timeline.jsonl").read_text(encoding="utf-8")
    output = run("rebuild").stdout
    assert output == "".join(f"{projection.name} is rebuilt, up to position 38.\n" for projection in ALL)
    assert dump_all(dsn) == before
    sentence = "Error: There is no read model 'nothing'; valid are timeline, usage, "
    assert run("rebuild", "nothing", code=1).stderr.startswith(sentence)


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
