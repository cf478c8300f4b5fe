"""``mnemosyne projections`` and ``rebuild``: how read models stand, and made anew, on a real database."""

import json
from pathlib import Path
from uuid import UUID

import pytest
import trio

from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append
from mnemosyne.projections.catalog import ALL
from tests.adapters.log_support import query, until
from tests.cli.running import run, words
from tests.cli.support import environ_for, line, started
from tests.golden.sessions import LOGS, appends
from tests.projections.support import POSTGRES, open_world
from tests.waiting import DEADLINE

GOLDEN = LOGS / "one-of-everything"


def test_projections_tell_how_they_stand(golden: str) -> None:
    assert words(run("projections").stdout)[1] == ["timeline", "5", "0", "38", "none"]
    run("usage")
    assert words(run("projections").stdout)[1:3] == [
        ["timeline", "5", "38", "0", "current"],
        ["usage", "4", "38", "0", "current"],
    ]
    query(golden, "drop table mnemosyne.usage_turns")
    assert json.loads(run("projections", "--json").stdout)[1] == {
        "name": "usage",
        "version": 4,
        "position": 38,
        "lag": 0,
        "state": "stale",
        "error": "its table usage_turns is missing",
        "set_aside": 0,
    }
    assert run("usage").stderr == "The projection usage is rebuilt: its table usage_turns is missing.\n"


def test_what_was_set_aside_is_told_with_the_read_models_that_go_on(golden: str) -> None:
    before = run("usage", "--json").stdout
    query(
        golden,
        "insert into mnemosyne.stored_events (originator_id, originator_version, topic, state)"
        " values (%s, 1, 'session.dreamt.v7', '{}')",
        "00000000-0000-0000-0000-000000000001",
    )
    result = run("usage", "--json")
    assert result.stdout == before
    result = run("projections")
    assert words(result.stdout)[2] == ["usage", "4", "39", "0", "current"]
    assert "usage: 1 event was set aside; `mnemosyne sessions` names the sessions" in result.stderr
    run("rebuild", "usage")
    assert run("usage", "--json").stdout == before


@pytest.mark.usefixtures("golden")
def test_a_rebuild_changes_no_row() -> None:
    before = [run("projections", "dump", name).stdout for name in ("timeline", "usage")]
    assert before[0] == (GOLDEN / "timeline.jsonl").read_text(encoding="utf-8")
    names = [row[0] for row in words(run("projections").stdout)[1:]]
    assert names[:2] == ["timeline", "usage"]
    assert run("rebuild").stdout == "".join(f"{name} is rebuilt, up to position 38.\n" for name in names)
    assert run("rebuild", "usage").stdout == "usage is rebuilt, up to position 38.\n"
    assert [run("projections", "dump", name).stdout for name in ("timeline", "usage")] == before


def test_a_running_server_keeps_them_up_to_date(golden: str, tmp_path: Path) -> None:
    environ = environ_for(tmp_path, MNEMOSYNE_DSN=golden)
    with started("serve", "--port", "0", environ=environ) as process:
        line(process.stdout)

        async def append_and_wait() -> None:
            async with open_world(POSTGRES, golden, event_codec()) as world:
                log = PlainLog(event_codec())
                for append in appends(GOLDEN):
                    log.submit(append)
                for each in await log.tail(after=0, limit=4):  # the same session under another id
                    await world.journal.append(Append(UUID(int=7), each.version - 1, (each.envelope,)))
                standing = "select min(position), count(*) from mnemosyne.projections"
                await until(lambda: query(golden, standing) == [(42, len(ALL))])

        trio.run(append_and_wait)
        process.terminate()
        process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
