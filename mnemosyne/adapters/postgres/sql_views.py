"""The views for analysis with SQL (0008_views.sql): queries by a role that reads them alone, and roles of others."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

import attrs

from mnemosyne.adapters.embedded.cluster import SQL_ROLE_PREFIX
from mnemosyne.adapters.postgres.database import (
    Connection,
    Database,
    LoginRefused,
    log_in,
    reword_refusals,
    set_password,
)
from mnemosyne.adapters.postgres.projection_store import reading
from mnemosyne.errors import BadConfiguration, BadOption
from mnemosyne.projections.catalog import ALL

VIEWS = "mnemosyne_views"

READER_SECONDS = 60
"""How long a statement of a reader's may take, unless it asks for another time."""

_GRACE = 10.0

_LOGIN_ATTEMPTS = 3

TEMPORARY = "1GB"
"""Temporary disk that one query may take."""

_ROLE_LOCK = 0x4D4E5351
"""An arbitrary number, "MNSQ": two commands make no role at once."""


@attrs.frozen
class QueryAnswer:
    """A table: the names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


async def ask_views(
    database: Database, query: str, *, tenant: str, seconds: float, ours_alone: bool = False
) -> QueryAnswer:
    """The answer to one statement that reads, over the views of a tenant's sessions, all of one moment.

    A role of the tenant asks, which may read the views and nothing else, on a connection of its own: a statement could
    give a role that was only put on its owner's rights back. ``seconds`` is how long the server may take;
    ``ours_alone`` says that the whole server is Mnemosyne's own. Raises BadOption with the server's words for a
    statement that it refuses, that writes or that gives no table; BadConfiguration where the role cannot be made or has
    more rights; and what ``Database.run`` raises.
    """
    role = f"{SQL_ROLE_PREFIX}{hashlib.sha256(tenant.encode()).hexdigest()[:16]}"
    for remaining in reversed(range(_LOGIN_ATTEMPTS)):  # another command may change the password meanwhile
        password = await database.run(_prepare_role, role, tenant, ours_alone)
        try:
            return await database.run(_ask, role, password, query, seconds, deadline=seconds + _GRACE)
        except LoginRefused as refused:
            if not remaining:
                raise BadConfiguration(
                    f"Queries run as the role {role}, which the database does not let in: {refused}. "
                    "Let its administrator allow that, or ask with psql as a role that `mnemosyne sql-reader` admits."
                ) from None
    raise AssertionError


async def admit_reader(database: Database, role: str, tenant: str) -> bool:
    """Let a database role read the views of one tenant, and nothing else; whether the role had to be created.

    Raises BadConfiguration where the role may read more anyway, or is not there and cannot be created.
    """
    return await database.run(_admit, role, tenant)


def _ask(connection: Connection, role: str, password: str | None, query: str, seconds: float) -> QueryAnswer:
    # The owner's transaction keeps the tables from being exchanged for as long as the role reads them.
    connection.execute("set local idle_in_transaction_session_timeout = 0")
    with reading(connection, ALL), log_in(connection, role, password) as reader:
        reader.execute("begin isolation level repeatable read read only")
        reader.execute(
            "select set_config('statement_timeout', %s, true), set_config('search_path', %s, true),"
            " set_config('timezone', 'UTC', true), set_config('client_connection_check_interval', '1s', true)",
            (f"{int(seconds * 1000)}", VIEWS),
        )
        try:
            with reword_refusals():
                # A prepared statement is a single one, so that nothing ends the transaction and goes on behind it.
                cursor = reader.execute(query.encode(), prepare=True)
                if cursor.description is None:
                    raise BadOption("That statement gives no table; write a select.")
                return QueryAnswer(tuple(column.name for column in cursor.description), cursor.fetchall())
        finally:
            reader.close()  # before the end of its transaction, which would send what `pg_notify` was given


def _prepare_role(connection: Connection, role: str, tenant: str, ours_alone: bool) -> str | None:
    """Have the role of a tenant's queries; a new password for it where it is not let in without."""
    connection.execute("select pg_advisory_xact_lock(%s)", (_ROLE_LOCK,))
    (is_admitted, has_more) = connection.execute(_SQL_ROLE, {"role": role, "tenant": tenant}).fetchone() or (False,) * 2
    if has_more:
        raise BadConfiguration(f"The role {role} has more rights than to read views; drop it, or take them back.")
    if not is_admitted:
        _admit(connection, role, tenant)
        if ours_alone:
            connection.execute(_REVOKE_FROM_PUBLIC)
        # What the server says of a refusal may quote a value, and its log is out of the reach of `forget`.
        (is_superuser,) = connection.execute("select current_setting('is_superuser')::bool").fetchone() or (False,)
        if is_superuser:
            _execute(
                connection,
                f"alter role {role} set log_min_messages = 'log'",
                f"alter role {role} set temp_file_limit = '{TEMPORARY}'",
            )
    try:
        with log_in(connection, role, None):
            return None
    except LoginRefused:
        password = secrets.token_urlsafe(32)
        set_password(connection, role, password)
        return password


_SQL_ROLE = """
select exists (select from mnemosyne.readers where role = %(role)s and tenant = %(tenant)s)
        and exists (select from pg_roles where rolname = %(role)s),
    exists (
        select from pg_roles r where rolname = %(role)s
        and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls
            or exists (select from pg_auth_members where member = r.oid))
    )
"""

_REVOKE_FROM_PUBLIC = b"""
do $$
declare
    taken text;
begin
    select string_agg(oid::regprocedure::text, ', ') into taken from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace
        and (proname ~ 'advisory' or proname in ('pg_notify', 'pg_logical_emit_message'));
    execute format('revoke execute on function %s from public', taken);
end
$$
"""
"""By these any role could hold up our locks, speak to others or write into the journal."""


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
