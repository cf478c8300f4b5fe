"""Sessions can be spread over databases: keys contain the session, and statements of a turn stay within one."""

import re
from pathlib import Path

import attrs
import psycopg

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.adapters.postgres.projection_tables import names
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.projections.catalog import ALL
from tests.adapters.counting import asked_of_the_database
from tests.adapters.log_support import query
from tests.app.serving import serving
from tests.http.managing import Client, recall, text, think

SCRIPT = Path(__file__).parents[3] / "docs/internals/citus.sql"

SESSION = {"stream", "originator_id", "tenant"}
"""The columns that name a session or a tenant."""

OF_A_DATABASE = {
    "cold_totals_pkey": "totals of all sessions of the database, for its metrics",
    "mnemosyne_migrations_pkey": "the schema",
    "object_index_cursors_pkey": "a follower's place in the log of the database",
    "placements_pkey": "the hash of a session's name, and the database that holds it",
    "projections_pkey": "a follower's place in the log of the database",
    "readers_pkey": "a role of the database",
    "stored_events_notification_id_idx": "the position, which is of the database",
    "budget_cache_pkey": "a cache of answers: the hash of the question",
    "object_index_made_pkey": "the position, which is of the database",
}
"""The unique indexes without a session, and what their rows are about."""

KEYS = """
select c.relname, t.relname, array_agg(a.attname::text) from pg_index i
join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
where t.relnamespace = 'mnemosyne'::regnamespace and i.indisunique group by 1, 2 order by 1
"""

AS_CITUS = """
create table public.distributed (name text, key text);
create function public.create_distributed_table(given regclass, key text, colocate_with text default 'default')
returns void language plpgsql as $$ begin
    if exists (
        select from pg_index i where i.indrelid = given and i.indisunique
            and not exists (select from pg_attribute a where a.attrelid = given and a.attname = key
                and a.attnum = any(i.indkey))
    ) or exists (select from pg_constraint where confrelid = given or conrelid = given and contype = 'f') then
        raise exception 'cannot distribute % by %', given, key;
    end if;
    insert into public.distributed values (given::text, key);
end $$;
"""
"""Refuses what Citus refuses: a unique index without the column, and a foreign key to or from such a table."""


async def test_each_key_contains_a_session_or_is_of_its_database(dsn: str) -> None:
    database = Database(dsn)
    for each in ALL:
        await PostgresProjections(database).create(each)
    database.close()
    without = {index for index, _, columns in query(dsn, KEYS) if not SESSION & {*columns}}
    assert without == OF_A_DATABASE.keys()


def test_the_tables_that_grow_can_be_distributed_by_session(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(AS_CITUS)
        try:
            connection.execute(SCRIPT.read_bytes())
            spread: dict[str, str] = dict(connection.execute("select name, key from public.distributed").fetchall())
            tables = "select tablename from pg_tables where schemaname = 'mnemosyne'"
            derived = {name for each in ALL for side in (False, True) for name in names(each, side=side)}
            others = {name for (name,) in connection.execute(tables)} - spread.keys() - derived
        finally:
            connection.execute("drop table public.distributed; drop function public.create_distributed_table")
    assert {*spread.values()} <= SESSION
    assert others == {
        *("cold_totals", "log_identity", "mnemosyne_migrations", "object_index_cursors"),
        *("placements", "projections", "readers", "set_aside"),
    }


OF_ONE = re.compile(r"mnemosyne\.append\(|(originator_id|stream|tenant)( =|::uuid\[\]|\s*=\s*any)|unnest\(%b::uuid\[\]")
"""A statement about given sessions, or one tenant."""

FOLLOWS = re.compile(
    r"mnemosyne\.(settle|projections|set_aside)\b|notification_id|json_to_recordset|lock table|pg_class"
)
"""A statement of a follower of the database's log: the directory of its sessions."""

CONNECTS = re.compile(r"Composed\(|(begin|commit|set|savepoint|release|select pg_backend_pid|select set_config)\b")


async def test_statements_of_a_turn_name_their_session_or_follow_the_log(dsn: str, tmp_path: Path) -> None:
    async with serving(tmp_path, dsn, Mode.MANAGE) as server:
        server.answers([think(), recall()], [think(), text("It is there.")])
        client = Client(server.url, session="s")
        await client.work("Before.")
        with asked_of_the_database() as asked:
            await client.work("Where is it?")
            await attrs.evolve(client, session="t").work("And as a session with another name?")
    rest = {each for each in asked.statements if not (OF_ONE.search(each) or CONNECTS.match(each))}
    assert any("mnemosyne.append(" in each for each in asked.statements)
    assert {each for each in rest if not FOLLOWS.search(each)} == set()
