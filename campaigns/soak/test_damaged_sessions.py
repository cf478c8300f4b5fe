"""A damaged event or content affects only its own session, until it is restored or the session is forgotten."""

import json
from collections.abc import Callable
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.adapters.postgres.content_store import ARCHIVED
from mnemosyne.app.storage import event_codec
from tests.adapters.log_support import query
from tests.cli.logs import dump_all
from tests.cli.running import run
from tests.fixtures import UseLog
from tests.golden.sessions import LOGS, append_all, appends, stored
from tests.projections.support import POSTGRES, open_world

LOG = LOGS / "observed"
"""Its only session is copied."""

SOUND = "sound"

Row = tuple[str | None, bytes | None]

DAMAGES: dict[str, tuple[int, Callable[[bytes], Row]]] = {
    "cut off": (3, lambda state: ("session.turn_began.v2", state[: len(state) // 2])),
    "another name": (2, lambda state: ("session.dreamt.v1", state)),
    "of a version to come": (3, lambda state: ("session.turn_began.v99", state)),
    "garbage": (1, lambda state: ("session.started.v1", b"\xff\x00garbage")),
    "nothing": (4, lambda _: (None, None)),
    "a NUL": (2, lambda _: ("session.branch_opened.v1", b'{"data":{"at":1,"branch":"m\\u0000"},"correlation":"c"')),
    "another shape": (3, lambda _: ("session.turn_began.v2", b'{"data":[],"correlation":"c","causation":null}')),
}
"""For each session: the version of an event, and the change of its row."""


@pytest.fixture
def logs(dsn: str, use_log: UseLog) -> dict[str, UUID]:
    """A database with a session for each kind of damage."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for stream in found.values():
                await append_all(world.journal, [attrs.evolve(each, stream=stream) for each in taken])

    taken = [each for each in appends(LOG) if each.stream == stored(LOG)[0].stream]
    found = {name: UUID(int=number << 96) for number, name in enumerate((SOUND, *DAMAGES), 1)}
    trio.run(fill)
    use_log(dsn, stored(LOG)[0].state["data"]["tenant"])
    return found


def _write(dsn: str, stream: UUID, version: int, row: Row) -> None:
    query(
        dsn,
        "update mnemosyne.stored_events set topic = %s, state = %s"
        " where originator_id = %s and originator_version = %s",
        *row,
        stream,
        version,
    )


def _read(dsn: str, stream: UUID, version: int) -> Row:
    ((topic, state),) = query(
        dsn,
        "select topic, state from mnemosyne.stored_events where originator_id = %s and originator_version = %s",
        stream,
        version,
    )
    return topic, bytes(state)


def _damage(dsn: str, logs: dict[str, UUID]) -> dict[str, Row]:
    """Damage the sessions; returns the original rows."""
    before = {name: _read(dsn, logs[name], version) for name, (version, _) in DAMAGES.items()}
    for name, (version, change) in DAMAGES.items():
        _write(dsn, logs[name], version, change(before[name][1] or b""))
    return before


def _listed() -> dict[str, str | None]:
    return {each["id"]: each["damage"] for each in json.loads(run("sessions", "--json").stdout)}


@pytest.mark.parametrize("when", ["before the session was read", "after it was"])
def test_damage_affects_only_its_session_and_forgetting_ends_it(dsn: str, logs: dict[str, UUID], when: str) -> None:
    if when == "after it was":
        run("sessions")
    _damage(dsn, logs)
    if when == "after it was":
        run("rebuild")
    damaged = {str(logs[name]) for name in DAMAGES}
    listed = _listed()
    assert {session for session, damage in listed.items() if damage is not None} == damaged
    assert listed[str(logs[SOUND])] is None
    warnings = run("sessions").stderr
    assert all(f"Session {session} is damaged: event " in warnings for session in damaged)
    verdicts = {each["id"]: each["verdict"] for each in json.loads(run("verify", "--json", code=1).stdout)}
    assert verdicts == {str(stream): "ok" if name == SOUND else "unreadable" for name, stream in logs.items()}
    live = dump_all(dsn)
    run("rebuild")
    assert dump_all(dsn) == live
    for session in damaged:
        run("forget", session, "--yes", "--quick")
    assert set(_listed().values()) == {None}
    found = json.loads(run("verify", "--json").stdout)
    assert {each["verdict"] for each in found} <= {"ok", "forgotten"}
    live = dump_all(dsn)
    run("rebuild")
    assert dump_all(dsn) == live


def test_session_is_unchanged_once_its_row_is_restored(dsn: str, logs: dict[str, UUID]) -> None:
    run("sessions")
    expected, listed = dump_all(dsn), run("sessions", "--json").stdout
    before = _damage(dsn, logs)
    run("rebuild")
    assert dump_all(dsn) != expected
    for name, row in before.items():
        _write(dsn, logs[name], DAMAGES[name][0], row)
    assert run("sessions", "--json").stdout == listed
    assert dump_all(dsn) == expected


def test_event_with_an_unknown_branch_is_reported_as_damage_of_its_session(dsn: str, logs: dict[str, UUID]) -> None:
    stream = logs[SOUND]
    topic, state = _read(dsn, stream, 3)
    _write(dsn, stream, 3, (topic, (state or b"").replace(b'"branch":"main"', b'"branch":"mbin"')))
    damages = _listed()
    assert damages.pop(str(stream)) is not None
    assert set(damages.values()) == {None}
    live = dump_all(dsn)
    run("rebuild")
    assert dump_all(dsn) == live
    run("verify", code=1)
    run("forget", str(stream), "--yes", "--quick")
    assert set(_listed().values()) == {None}
    assert "unreadable" not in run("verify").stdout


CONTENTS = (
    "data = substring(data from 1 for 5)",
    "data = '\\xdeadbeef'",
    "encoding = 77",
    f"encoding = {ARCHIVED}",
    f"encoding = {ARCHIVED}, data = '[1, 2]'",
    f"encoding = {ARCHIVED}, data = '[\"/dev/null/a\", -1, -1]'",
    "size = -1",
    "size = 2147483647",
    "digest = sha256('another')",
)


def test_damaged_content_affects_only_its_session_and_can_be_forgotten(dsn: str, logs: dict[str, UUID]) -> None:
    stream = logs[SOUND]
    rows = query(dsn, "select digest from mnemosyne.content where stream = %s order by size desc, digest", stream)
    for change, (digest,) in zip(CONTENTS, rows, strict=False):
        query(dsn, f"update mnemosyne.content set {change} where stream = %s and digest = %s", stream, bytes(digest))
    assert len(rows) >= len(CONTENTS)
    assert set(_listed().values()) == {None}
    verdicts = {each["id"]: each["verdict"] for each in json.loads(run("verify", "--json", code=1).stdout)}
    assert verdicts == {str(each): "differs" if each == stream else "ok" for each in logs.values()}
    run("forget", str(stream), "--yes", "--quick")
    assert query(dsn, "select count(*) from mnemosyne.content where stream = %s and data is not null", stream) == [(0,)]
    assert "differs" not in run("verify").stdout
