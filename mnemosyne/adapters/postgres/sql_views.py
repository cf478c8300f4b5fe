"""The views for analysis with SQL (0008_views.sql): queries by an unprivileged role, and roles of readers."""

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
"""The default time limit of a reader's statement."""

_GRACE = 10.0

_LOGIN_ATTEMPTS = 3

TEMPORARY = "1GB"
"""The limit of a query's temporary files."""

_ROLE_LOCK = 0x4D4E5351
"""An arbitrary number, "MNSQ": the lock to create a role."""


@attrs.frozen
class QueryAnswer:
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


async def ask_views(
    database: Database, query: str, *, tenant: str, seconds: float, ours_alone: bool = False
) -> QueryAnswer:
    """Run one reading statement over the views of a tenant's sessions, on one snapshot.

    It runs as a role that may only read the views, on a separate connection: after ``set role`` on the owner's, a
    statement could regain the owner's rights. ``seconds`` is the time limit; ``ours_alone`` means that the whole server
    is Mnemosyne's. Raises BadOption with the server's message for a statement that fails, writes or returns no table;
    BadConfiguration if the role cannot be created or has more rights; and errors of ``Database.run``.
    """
    role = f"{SQL_ROLE_PREFIX}{hashlib.sha256(tenant.encode()).hexdigest()[:16]}"
    for remaining in reversed(range(_LOGIN_ATTEMPTS)):  # another command may change the password
        password = await database.run(_prepare_role, role, tenant, ours_alone)
        try:
            return await database.run(_ask, role, password, query, seconds, deadline=seconds + _GRACE)
        except LoginRefused as refused:
            if not remaining:
                raise BadConfiguration(
                    f"Queries run as the role {role}, which the database refused: {refused}. Ask "
                    "its administrator to allow it, or query with psql as a role that `mnemosyne sql-reader` admits."
                ) from None
    raise AssertionError


async def admit_reader(database: Database, role: str, tenant: str) -> bool:
    """Let a database role read the views of one tenant; return whether the role was created.

    Raises BadConfiguration if the role has more rights, or does not exist and cannot be created.
    """
    return await database.run(_admit, role, tenant)


def _ask(connection: Connection, role: str, password: str | None, query: str, seconds: float) -> QueryAnswer:
    # The owner's transaction locks the tables against a switch.
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
                # A prepared statement is a single one: it cannot end the transaction and continue.
                cursor = reader.execute(query.encode(), prepare=True)
                if cursor.description is None:
                    raise BadOption("The statement returns no table; use a select.")
                return QueryAnswer(tuple(column.name for column in cursor.description), cursor.fetchall())
        finally:
            reader.close()  # before its commit, which would send notifications


def _prepare_role(connection: Connection, role: str, tenant: str, ours_alone: bool) -> str | None:
    """Create the role of a tenant's queries if needed; return a new password if it needs one."""
    connection.execute("select pg_advisory_xact_lock(%s)", (_ROLE_LOCK,))
    (is_admitted, has_more) = connection.execute(_SQL_ROLE, {"role": role, "tenant": tenant}).fetchone() or (False,) * 2
    if has_more:
        raise BadConfiguration(f"The role {role} may do more than read the views; drop it, or revoke its other rights.")
    if not is_admitted:
        _admit(connection, role, tenant)
        if ours_alone:
            connection.execute(_REVOKE_FROM_PUBLIC)
        # An error message may quote a value, and `forget` cannot erase the server's log.
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
"""With these any role could block our locks, notify others or write WAL."""


def _admit(connection: Connection, role: str, tenant: str) -> bool:
    (name, exists, has_more, may_create, database) = _look_up(connection, role)
    if has_more:
        raise BadConfiguration(
            f"The role {role} is the owner of Mnemosyne's tables, or may act as their owner. Name another role."
        )
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
        # Also of views in later versions.
        f"alter default privileges in schema {VIEWS} grant select on tables to {name}",
    )
    connection.execute(
        "insert into mnemosyne.readers (role, tenant) values (%s, %s)"
        " on conflict (role) do update set tenant = excluded.tenant",
        (role, tenant),
    )
    return not exists


def _look_up(connection: Connection, role: str) -> tuple[Any, ...]:
    """The quoted name of the role; whether it exists, and has our rights; whether we may create roles; and the quoted
    name of the database.
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
