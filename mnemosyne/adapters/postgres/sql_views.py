"""The views for who analyses with SQL (0008_views.sql): asking them as their owner, and letting others read them."""

from collections.abc import Sequence
from typing import Any

import attrs

from mnemosyne.adapters.postgres.database import Connection, Database, tell_refusals
from mnemosyne.adapters.postgres.projection_store import reading
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.projections.catalog import ALL

VIEWS = "mnemosyne_views"

READER_SECONDS = 60
"""How long a statement of a reader's may take, unless it asks for another time."""

_GRACE = 10.0


@attrs.frozen
class QueryAnswer:
    """A table: the names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


async def ask_views(database: Database, query: str, *, tenant: str, seconds: float) -> QueryAnswer:
    """The answer to one statement that reads, over the views of a tenant's sessions, all of one moment.

    ``seconds`` is how long the server may take. Raises BadOption with the server's words for a statement that it
    refuses, that writes or that gives no table, and what ``Database.run`` raises.
    """
    return await database.run(_ask, query, tenant, seconds, deadline=seconds + _GRACE)


async def admit_reader(database: Database, role: str, tenant: str) -> bool:
    """Let a database role read the views of one tenant, and nothing else; whether the role had to be created.

    Raises BadConfiguration where the role may read more anyway, or is not there and cannot be created.
    """
    return await database.run(_admit, role, tenant)


def _ask(connection: Connection, query: str, tenant: str, seconds: float) -> QueryAnswer:
    with reading(connection, ALL):
        connection.execute("set transaction read only")
        connection.execute(
            "select set_config('statement_timeout', %s, true), set_config('search_path', %s, true),"
            " set_config('mnemosyne.tenant', %s, true), set_config('timezone', 'UTC', true)",
            (f"{int(seconds * 1000)}", f"{VIEWS}, mnemosyne", tenant),
        )
        # What the server says of a refusal may quote a value, and its log is out of the reach of `forget`.
        connection.execute(
            "select set_config('log_min_messages', 'log', true) where current_setting('is_superuser')::bool"
        )
        with tell_refusals():
            # A prepared statement is a single one, so that nothing ends the transaction and goes on behind it.
            cursor = connection.execute(query.encode(), prepare=True)
            if cursor.description is None:
                raise BadOption("That statement gives no table; write a select.")
            return QueryAnswer(tuple(column.name for column in cursor.description), cursor.fetchall())


def _admit(connection: Connection, role: str, tenant: str) -> bool:
    (name, exists, has_more, may_create, database) = _look_up(connection, role)
    if has_more:
        raise BadConfiguration(f"The role {role} is the owner of Mnemosyne's tables, or may act as it. Name another.")
    if not exists:
        if not may_create:
            raise BadConfiguration(
                f"There is no role {role}, and the database's user may not create one. "
                "Let an administrator create it, and run this again."
            )
        _execute(
            connection,
            f"create role {name} login",
            f"alter role {name} in database {database} set search_path = {VIEWS}",
            f"alter role {name} in database {database} set default_transaction_read_only = on",
            f"alter role {name} in database {database} set statement_timeout = '{READER_SECONDS}s'",
        )
    _execute(
        connection,
        f"grant usage on schema {VIEWS} to {name}",
        f"grant select on all tables in schema {VIEWS} to {name}",
        # Of views that a later version adds, too.
        f"alter default privileges in schema {VIEWS} grant select on tables to {name}",
    )
    connection.execute(
        "insert into mnemosyne.readers (role, tenant) values (%s, %s)"
        " on conflict (role) do update set tenant = excluded.tenant",
        (role, tenant),
    )
    return not exists


def _look_up(connection: Connection, role: str) -> tuple[Any, ...]:
    """The role's name as SQL writes it; whether it is there, and may do all that we may; whether we may create one; and
    the name of the database as SQL writes it.
    """
    row = connection.execute(
        "select quote_ident(%(role)s), r.oid is not null, coalesce(pg_has_role(r.oid, current_user, 'usage'), false),"
        " me.rolsuper or me.rolcreaterole, quote_ident(current_database())"
        " from pg_roles me left join pg_roles r on r.rolname = %(role)s where me.rolname = current_user",
        {"role": role},
    ).fetchone()
    assert row is not None
    return row


def _execute(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement.encode())
