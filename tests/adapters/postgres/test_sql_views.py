"""The SQL views match the log, show one tenant, and stay stable during a rebuild; a query cannot change anything."""

import re
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import trio
from psycopg import errors as pg

from mnemosyne.adapters.postgres.database import Connection
from mnemosyne.adapters.postgres.sql_views import TEMPORARY, VIEWS, QueryAnswer, admit_reader, ask_views
from mnemosyne.domain.knowledge.state import fold
from mnemosyne.domain.objects.events import (
    ObjectCreated,
    ObjectDegraded,
    ObjectFaulted,
    ObjectForgotten,
    ObjectRestored,
    ObjectSummarized,
    TurnAssessed,
)
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import HelperAsked, HelperWorked
from mnemosyne.domain.session.status import ENDED_AFTER, IDLE_AFTER, find_status
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.rebuilding import rebuild
from mnemosyne.services import memories
from tests.adapters.log_support import query
from tests.fixtures import PostgresServer
from tests.golden.sessions import CODEC, LOGS, append_all, appends, stored
from tests.projections.support import POSTGRES, World, open_world

ROOT = Path(__file__).parents[3]
WINDOWS = ("helped", "hidden-rounds")
"""Golden logs with evicted and restored objects."""


@asynccontextmanager
async def filled(dsn: str, *names: str) -> AsyncIterator[World]:
    """A database with golden logs and all their projections."""
    async with open_world(POSTGRES, dsn, CODEC) as world:
        for name in names:
            await append_all(world.journal, appends(LOGS / name))
        for projection in ALL:
            assert (await world.projector(projection).catch_up()).error is None
        yield world


async def ask(world: World, sql: str) -> QueryAnswer:
    """The owner's result, over the sessions of all tenants."""

    def execute(connection: Connection) -> QueryAnswer:
        connection.execute(f"set local search_path = {VIEWS}; set local timezone = 'UTC'".encode())
        cursor = connection.execute(sql.encode())
        return QueryAnswer(tuple(column.name for column in cursor.description or ()), cursor.fetchall())

    return await world.database.run(execute)


async def run(world: World, sql: str) -> None:
    """Change something as the owner of the tables."""
    await world.database.run(lambda connection: connection.execute(sql.encode()))


async def ask_as_tenant(world: World, sql: str, tenant: str = "t", *, ours_alone: bool = False) -> QueryAnswer:
    """The result of `mnemosyne sql`."""
    return await ask_views(world.database, sql, tenant=tenant, seconds=30, ours_alone=ours_alone)


async def rows(world: World, sql: str) -> list[dict[str, Any]]:
    found = await ask(world, sql)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def columns(dsn: str) -> dict[str, list[str]]:
    """The columns of every view, in their order."""
    found: dict[str, list[str]] = {}
    for view, column in query(
        dsn,
        "select table_name, column_name from information_schema.columns where table_schema = %s"
        " order by table_name, ordinal_position",
        VIEWS,
    ):
        found.setdefault(view, []).append(column)
    return found


def test_every_view_and_column_is_documented(dsn: str) -> None:
    page = (ROOT / "docs/sql.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    assert {view: re.findall(r"`(\w+)`", listed) for view, listed in documented} == columns(dsn)


@pytest.mark.parametrize("name", WINDOWS)
async def test_the_row_of_an_object_matches_its_events_and_working_set(name: str, dsn: str) -> None:
    async with filled(dsn, name) as world:
        found = {each["id"]: each for each in await rows(world, "select * from semantic_objects")}
        events = [each.decoded().event for each in stored(LOGS / name)]
        gone = {each.object for each in events if isinstance(each, ObjectForgotten)}
        events = [each for each in events if getattr(each, "object", None) not in gone]
        assert found.keys() == {each.object for each in events if isinstance(each, ObjectCreated)}
        for event in events:
            if isinstance(event, ObjectCreated):
                row = found[event.object]
                assert (row["stub"], tuple(row["tags"]), row["tokens_l0"]) == (event.stub, event.tags, event.tokens)
                assert (row["role"], row["source_turn_start"]) == (event.role.value, event.first_turn)
            if isinstance(event, ObjectSummarized):
                row, level = found[event.object], f"l{event.fidelity.value}"
                assert row[f"losses_{level}"] == list(event.losses.dropped)
                assert (row[f"tokens_{level}"], row[f"helper_{level}"]) == (event.tokens, event.helper)
                assert row[f"lost_{level}"] == event.losses.lost
        checked = await compare_windows(world, found)
        assert checked == len(found)
        scores = await rows(world, "select object_id, score_total, admitted from admission_scores")
        assert {(each["object_id"], each["score_total"], each["admitted"]) for each in scores} >= {
            (each.object, each.admission.score, each.admission.admitted)
            for each in events
            if isinstance(each, ObjectCreated)
        }


async def compare_windows(world: World, found: dict[str, dict[str, Any]]) -> int:
    """Compare objects with the fold of their branch; return their number."""
    checked = 0
    for stream, branch in {(each["session_id"], each["branch"]) for each in found.values()}:
        events = cast("Sequence[Recorded[Event]]", await world.log.read(stream))
        for shown, fidelity in memories.fold(events).memory.standings(branch):
            row = found.get(shown.id)
            if row is not None and row["branch"] == branch:
                checked += 1
                mine = [row[name] for name in ("current_fidelity", "stale", "pinned", "released", "fault_count")]
                assert mine == [fidelity, shown.stale, shown.pin is not None, shown.released, shown.faults]
                assert (row["access_count"], row["last_used_turn"]) == (shown.accesses, shown.last_use)
    return checked


async def test_a_fault_has_question_answer_and_latency(dsn: str) -> None:
    async with filled(dsn, "helped") as world:
        (found,) = await rows(world, "select * from fault_history")
        events = [each.decoded().event for each in stored(LOGS / "helped")]
    (fault,) = [each for each in events if isinstance(each, ObjectFaulted)]
    (asked,) = [each for each in events if isinstance(each, HelperAsked)]
    assert found["fault_type"] == "micro_fault"
    assert found["question"] == fault.reason == asked.question
    assert (found["answer"], found["helper"]) == (asked.sentences[0].text, asked.helper)
    assert (float(found["latency_ms"]), found["answer_tokens"]) == (fault.latency / 1000, fault.tokens)


async def test_transitions_faults_turns_and_costs_match_the_log(dsn: str) -> None:
    async with filled(dsn, "hidden-rounds") as world:
        named = [each.name.rpartition(".v")[0] for each in stored(LOGS / "hidden-rounds")]
        counts = {view: (await ask(world, f"select count(*) from {view}")).rows[0][0] for view in columns(dsn)}
        assert counts["fidelity_transitions"] == named.count("object.degraded") + named.count("object.restored") > 0
        moved = await rows(world, "select pressure_zone, token_count from fidelity_transitions order by created_at")
        assert moved == list(_pressure_before_moves())
        assert counts["fault_history"] == named.count("object.faulted") > 0
        assert counts["turns"] == counts["savings"] == named.count("session.turn_accounted") > 0
        (session,) = await rows(world, "select * from sessions")
        assert session["total_faults"] + session["total_micro_faults"] == counts["fault_history"]
        await run(world, "update mnemosyne.working_set_uses set why = 'tool_prerequisite' where how <> 'link'")
        reasons = await rows(world, "select reason, faults, share, red_flag from fault_reasons where faults > 0")
        found = {"reason": "tool_prerequisite", "faults": counts["fault_history"], "share": 1, "red_flag": False}
        assert reasons == [found]
        writes = "cache_write_5m_tokens = 500, cache_write_1h_tokens = 0, cache_read_tokens = 0,"
        writes += " last_write_5m = 500, last_write_1h = 0, last_read = 0"
        await run(world, f"update mnemosyne.usage_turns set {writes} where input_tokens is not null")
        requests = await rows(world, "select branch from mnemosyne.usage_turns where round > 0 or in_rounds is null")
        all_missed = "select turn_number, round, missed_tokens from cache_misses order by branch, turn_number, round"
        missed = await rows(world, all_missed)
        assert len(missed) == len(requests) - len({each["branch"] for each in requests})
        assert {each["missed_tokens"] for each in missed} == {500}
        whole = "select from mnemosyne.usage_turns w where w.input_tokens is not null and w.round = 0"
        whole += " and (w.branch, w.turn, w.attempt, w.in_rounds) = (u.branch, u.turn, u.attempt, u.round)"
        await run(world, f"delete from mnemosyne.usage_turns u where exists ({whole})")  # interrupted last rounds
        await run(world, "update mnemosyne.usage_turns set output_tokens = 99999 where round = 0")
        assert await rows(world, all_missed) == missed
        spent = await rows(world, "select sum(nanodollars) as nano from mnemosyne.priced_replies()")
        dollars = await rows(world, "select sum(dollars) * 1000000000 as nano from money where spent_on = 'turn'")
        assert spent == dollars != [{"nano": None}]


def _pressure_before_moves() -> Iterator[dict[str, Any]]:
    """The pressure that was last assessed before each change of a fidelity; the log has one branch that is managed."""
    assessed: TurnAssessed | None = None
    for event in (each.decoded().event for each in stored(LOGS / "hidden-rounds")):
        if isinstance(event, TurnAssessed):
            assessed = event
        elif isinstance(event, ObjectDegraded | ObjectRestored):
            assert assessed is not None
            assert assessed.branch == event.branch
            yield {"pressure_zone": assessed.zone, "token_count": assessed.tokens}


@pytest.mark.release
def test_the_views_status_of_a_session_is_the_one_of_the_list(dsn: str) -> None:
    times = (0, IDLE_AFTER, IDLE_AFTER + 1, ENDED_AFTER, ENDED_AFTER + 1)
    states = (None, "open", "finished", "interrupted")
    reasons = (
        None,
        "end_turn",
        "stop_sequence",
        "stop",
        "completed",
        "tool_use",
        "tool_calls",
        "max_tokens",
        "refusal",
    )
    for quiet, state, reason, closed, archived in product(times, states, reasons, (False, True), (False, True)):
        status = "select mnemosyne.session_status(%s * interval '1 microsecond', %s, %s, %s, %s)"
        found = find_status(quiet, state, reason, closed=closed, archived=archived).value
        assert query(dsn, status, quiet, state, reason, closed, archived) == [(found,)]


async def test_money_of_a_helper_is_listed_by_its_task(dsn: str) -> None:
    async with filled(dsn, "helper-work") as world:
        spent = await rows(world, "select spent_on, dollars from money where spent_on <> 'turn'")
    events = [each.decoded().event for each in stored(LOGS / "helper-work")]
    tasks = {each.task for each in events if isinstance(each, HelperWorked) and each.nanodollars}
    assert {each["spent_on"] for each in spent} == {*tasks, "answer"} > {"answer"}


@pytest.mark.parametrize("log", ["known", "submitted"])
async def test_persistent_objects_match_the_folded_events(dsn: str, log: str) -> None:
    events: dict[Any, list[Any]] = {}
    for each in (each for each in stored(LOGS / log) if each.name.startswith("knowledge.")):
        events.setdefault(each.stream, []).append(each.decoded().event)
    known = [entry for stream in events.values() for entry in fold(stream).entries.values()]
    async with filled(dsn, log) as world:
        found = await rows(
            world,
            "select *, extract(epoch from valid_until) * 1000000 as until,"
            " extract(epoch from last_reinforced) * 1000000 as reinforced from persistent_objects",
        )
        linked = await rows(world, "select source_id, relationship, target_id from memory_links")
    living = {entry.id: entry for entry in known if entry.ended is None and entry.valid_until is None}
    links = {(each.id, *link) for each in living.values() for link in each.links if link[1] in living}
    assert {tuple(each.values()) for each in linked} == links
    assert len(links) == (log == "known"), links
    assert len(found) == len(known) > 0
    by_id = {each["id"]: each for each in found}
    for entry in known:
        row = by_id[entry.id]
        assert (row["content"], row["detail"], row["erased"]) == (entry.content, entry.detail, entry.erased)
        assert (row["ended"], row["until"]) == (entry.ended and entry.ended.value, entry.valid_until)
        assert (row["replaced_by"], row["confidence"]) == (entry.replaced_by, entry.confidence)
        assert row["reinforced"] == max(entry.recorded_at, entry.confirmed_at or 0)
        said = entry.provenance
        assert (row["object_type"], row["source"]) == (entry.kind.value, entry.source.value)
        assert (row["source_session_id"], row["source_turn"]) == ((said.session, said.turn) if said else (None, None))


async def test_forgotten_text_is_in_no_view(dsn: str) -> None:
    async with filled(dsn, "gap-and-forgotten") as world:
        found = await rows(
            world,
            "select o.* from semantic_objects o join sessions s on s.id = o.session_id"
            " where o.created_at < s.forgotten_at",
        )
    assert found
    assert {(each["stub"], each["source_key"], tuple(each["key_entities"])) for each in found} == {("", None, ())}


async def test_a_nul_character_in_a_stub_is_replaced(dsn: str) -> None:
    async with filled(dsn, "hidden-rounds") as world:
        query(
            dsn,
            "update mnemosyne.stored_events set state = convert_to(regexp_replace(convert_from(state, 'utf8'),"
            r""" '"stub":"', '"stub":"a\\u0000b\\\\u0000'), 'utf8') where topic like 'object.created%'""",
        )
        stubs = [each["stub"] for each in await rows(world, "select stub from semantic_objects")]
    assert stubs
    assert all(stub.startswith("a\ufffdb\\ufffd") for stub in stubs)


async def test_a_query_sees_only_its_tenant(dsn: str) -> None:
    async with filled(dsn, "observed", "one-of-everything") as world:
        everybody = {row[0] for row in (await ask(world, "select tenant from sessions")).rows}
        assert everybody == {"t", "local"}
        for tenant in everybody:
            for view in ("semantic_objects", "turns", "money", "savings", "admission_scores", "object_relationships"):
                others = f"select count(*) from {view} where session_id not in (select id from sessions)"
                assert (await ask_as_tenant(world, others, tenant)).rows == [(0,)]
            assert (await ask_as_tenant(world, "select distinct tenant from sessions", tenant)).rows == [(tenant,)]
        assert (await ask_as_tenant(world, "select * from turns", "nobody")).rows == []
        attack = "select count(*) from sessions where set_config('mnemosyne.tenant', 'local', false) <> ''"
        assert (await ask_as_tenant(world, attack, "nobody")).rows == [(0,)]


REFUSED = {
    "select nope from turns": 'column "nope" does not exist',
    "delete from mnemosyne.stored_events": "permission denied for schema mnemosyne",
    "create table t ()": "cannot execute CREATE TABLE in a read-only transaction",
    "commit; drop schema mnemosyne cascade": "cannot insert multiple commands",
    "set transaction read write": "read-write mode must be set before any query",
    "commit": "returns no table",
    "select 1/0": "division by zero",
    "copy sessions to stdout": "rejected the query",
    # Other data
    "select * from mnemosyne.content": "permission denied",
    "select * from mnemosyne.readers": "permission denied",
    "select rolpassword from pg_authid": "permission denied",
    "select query_to_xml('select * from mnemosyne.stored_events', true, false, '')": "permission denied",
    # The owner's rights
    "select set_config('role', 'postgres', false)": "does not exist",
    "select set_config('role', {owner}, false)": "permission denied to set role",
    "select set_config('session_authorization', {owner}, false)": "permission denied to set session authorization",
    "with back as materialized (select set_config('role', 'none', false))"
    " select query_to_xml('select pg_read_file(''/etc/hostname'')', true, false, '') from back": "permission denied",
    # Files and programs
    "select pg_read_file('/etc/hostname')": "permission denied",
    "select pg_read_binary_file('PG_VERSION')": "permission denied",
    "select pg_ls_dir('.')": "permission denied",
    "copy (select 1) to program 'true'": "permission denied",
    "copy (select 1) to '/tmp/never-written'": "permission denied",
    "select lo_export(1, '/tmp/never-written')": "permission denied",
    "load 'auto_explain'": "is not allowed",
    # The server
    "select pg_create_physical_replication_slot('kept', true)": "permission denied",
    "select pg_create_logical_replication_slot('kept', 'pgoutput')": "permission denied",
    "select pg_switch_wal()": "permission denied",
    "select pg_reload_conf()": "permission denied",
    "alter system set work_mem = '1MB'": "cannot run inside a transaction block",
    "checkpoint": "permission denied",
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = {owner}": "permission denied",
    "select pg_cancel_backend(pid) from pg_stat_activity where usename = {owner}": "permission denied",
}

REFUSED_ON_A_SERVER_OF_OURS = {
    "select pg_logical_emit_message(false, 'x', 'planted')": "permission denied",
    "select pg_advisory_lock(1)": "permission denied",
    "select pg_try_advisory_xact_lock(1, 2)": "permission denied",
    "select pg_notify('foo', 'bar')": "permission denied",
}


async def test_a_statement_that_does_not_only_read_is_refused(dsn: str) -> None:
    async with filled(dsn, "one-of-everything") as world:
        before = query(dsn, "select count(*) from mnemosyne.stored_events")
        ((owner,),) = query(dsn, "select quote_literal(current_user)")
        for sql, why in REFUSED.items():
            with pytest.raises(BadOption, match=re.escape(why)):
                await ask_as_tenant(world, sql.replace("{owner}", owner))
        with pytest.raises(BadOption, match="took too long"):
            await ask_views(world.database, "select pg_sleep(60)", tenant="t", seconds=0.01)
        assert query(dsn, "select count(*) from mnemosyne.stored_events") == before
        assert query(dsn, "select * from pg_replication_slots") == []


async def test_a_query_on_the_embedded_server_takes_no_locks_and_writes_no_wal(postgres_server: PostgresServer) -> None:
    with postgres_server.fresh_database() as dsn:
        async with filled(dsn, "one-of-everything") as world:
            for sql, why in REFUSED_ON_A_SERVER_OF_OURS.items():
                with pytest.raises(BadOption, match=re.escape(why)):
                    await ask_as_tenant(world, sql, ours_alone=True)


async def test_a_query_runs_as_an_unprivileged_role(dsn: str) -> None:
    async with filled(dsn, "one-of-everything") as world:
        who = "select current_user, session_user, current_setting('is_superuser'), current_setting('log_min_messages')"
        ((current, session, superuser, level),) = (await ask_as_tenant(world, who)).rows
        assert current == session != query(dsn, "select current_user")[0][0]
        # The server does not log the text of a refused query.
        assert (superuser, level) == ("off", "log")
        assert query(dsn, "select current_setting('log_min_messages')") == [("warning",)]
        assert (await ask_as_tenant(world, "select current_setting('temp_file_limit')")).rows == [(TEMPORARY,)]
        query(dsn, f"grant pg_read_server_files to {current}")
        with pytest.raises(BadConfiguration, match="may do more than read the views"):
            await ask_as_tenant(world, who)
        query(dsn, f"revoke pg_read_server_files from {current}")
        assert (await ask_as_tenant(world, "select 1")).rows == [(1,)]


@pytest.mark.release
async def test_a_rebuild_changes_no_view_and_waits_for_running_queries(dsn: str) -> None:
    async with filled(dsn, "hidden-rounds") as world:
        contents = {view: (await ask(world, f"select * from {view} order by 1, 2, 3")).rows for view in columns(dsn)}
        counts = "select count(*), pg_sleep(0.2), (select count(*) from turns) from turns"

        async def read() -> None:
            for _ in range(3):
                ((before, _, after),) = (await ask_as_tenant(world, counts)).rows
                assert before == after > 0

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for projection in ALL:
                assert await rebuild(projection, world.tail, world.store) is not None
        for view, before in contents.items():
            assert (await ask(world, f"select * from {view} order by 1, 2, 3")).rows == before, view


# Readers


@pytest.fixture
def role(postgres_server: PostgresServer, dsn: str) -> Iterator[str]:
    """The name of a role that does not exist; it is dropped afterwards."""
    name = f'Reader "{secrets.token_hex(4)}"'
    quoted = '"' + name.replace('"', '""') + '"'
    yield name
    with psycopg.connect(dsn, autocommit=True) as connection, suppress(pg.UndefinedObject):
        connection.execute(f"drop owned by {quoted}".encode())
        connection.execute(f"drop role {quoted}".encode())


def as_role(dsn: str, role: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements as this role on a separate connection; return the rows of the last."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select set_config('session_authorization', %s, false)", (role,))
        connection.execute("reset role")
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall()


async def test_a_reader_sees_only_its_tenant(dsn: str, role: str) -> None:
    async with filled(dsn, "observed", "one-of-everything") as world:
        assert await admit_reader(world.database, role, "t") is True
        assert as_role(dsn, role, "select distinct tenant from mnemosyne_views.sessions") == [("t",)]
        own = as_role(dsn, role, "select count(*) from mnemosyne_views.turns")
        assert own == [(18,)]
        # A setting of the reader shows no more.
        assert own == as_role(dsn, role, "set mnemosyne.tenant = 'local'", "select count(*) from mnemosyne_views.turns")
        for view in columns(dsn):
            as_role(dsn, role, f"select * from mnemosyne_views.{view}")
        for closed in ("stored_events", "content", "timeline_turns", "readers", "shown_turns()", "is_shown('t')"):
            with pytest.raises(pg.InsufficientPrivilege):
                as_role(dsn, role, f"select * from mnemosyne.{closed}")
        with pytest.raises(pg.InsufficientPrivilege):
            as_role(dsn, role, "create view mnemosyne_views.mine as select 1")
        for projection in ALL:
            await rebuild(projection, world.tail, world.store)
        assert as_role(dsn, role, "select count(*) from mnemosyne_views.turns") == own
        assert await admit_reader(world.database, role, "local") is False
        assert as_role(dsn, role, "select distinct tenant from mnemosyne_views.sessions") == [("local",)]


LEAK = """create temp table seen (id uuid); create function pg_temp.leaks(id uuid) returns boolean
language plpgsql cost 0.0000001 as $$ begin insert into seen values (id); return true; end $$"""

ATTACKS: dict[str, list[tuple[Any, ...]]] = {
    "select count(*) from mnemosyne_views.turns where set_config('mnemosyne.tenant', 'local', false) <> ''": [(18,)],
    "select id from mnemosyne_views.sessions where tenant = 'local'": [],
    "select most_common_vals from pg_stats where schemaname = 'mnemosyne'": [],
    "select query from pg_stat_activity where pid <> pg_backend_pid() and query <> '<insufficient privilege>'": [],
    # A condition that runs before the check of the tenant would reveal the rows of others.
    "with told as (select count(*) from mnemosyne_views.turns where pg_temp.leaks(session_id)) select * from told": [
        (18,)
    ],
    "select count(distinct id) from seen": [(1,)],
}
"""Statements of a reader, and their results."""


async def test_a_reader_cannot_reach_another_tenant(dsn: str, role: str) -> None:
    async with filled(dsn, "observed", "one-of-everything") as world:
        await admit_reader(world.database, role, "t")
        asked = ["set default_transaction_read_only = off", LEAK]
        for statement, rows_shown in ATTACKS.items():
            asked.append(statement)
            assert as_role(dsn, role, *asked) == rows_shown, statement
        for closed in ("select * from mnemosyne.stored_events", "select mnemosyne.is_shown(''local'')"):
            with pytest.raises(pg.InsufficientPrivilege):
                as_role(dsn, role, f"select query_to_xml('{closed}', true, false, '')")
        with pytest.raises(pg.InsufficientPrivilege):
            as_role(dsn, role, "select lo_import('/etc/hostname')")


async def test_a_role_that_is_not_admitted_sees_no_rows(dsn: str, role: str) -> None:
    async with filled(dsn, "observed"):
        quoted = '"' + role.replace('"', '""') + '"'
        query(dsn, f"create role {quoted}")
        with pytest.raises(pg.InsufficientPrivilege):
            as_role(dsn, role, "select * from mnemosyne_views.turns")
        query(dsn, f"grant usage on schema mnemosyne_views to {quoted}")
        query(dsn, f"grant select on all tables in schema mnemosyne_views to {quoted}")
        for view in columns(dsn):
            assert as_role(dsn, role, f"select * from mnemosyne_views.{view}") == []


async def test_the_owner_of_the_tables_cannot_become_a_reader(dsn: str) -> None:
    async with filled(dsn, "observed") as world:
        ((owner,),) = query(dsn, "select current_user")
        with pytest.raises(BadConfiguration, match="owner of Mnemosyne's tables"):
            await admit_reader(world.database, owner, "t")
