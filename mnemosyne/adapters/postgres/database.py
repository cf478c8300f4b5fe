"""PostgreSQL from trio: blocking connections in worker threads; each call is one transaction with a deadline.

A database that is away, hung or full raises LogUnavailable, an unsuitable one DatabaseUnfit. No call waits forever: the
server limits statements and locks, the kernel limits packets, and if both fail (a stopped server, a dead network), the
deadline of ``Database.run`` closes the socket, which ends the waiting thread.
"""

import errno
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, NoReturn, TypeVar, TypeVarTuple

import attrs
import psycopg
import trio
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg import errors as pg
from psycopg import pq, sql
from psycopg.rows import TupleRow

from mnemosyne.adapters.postgres.migrations import Migration, list_migrations, migrate
from mnemosyne.errors import BadConfiguration, BadOption, DatabaseUnfit, LogDamaged, LogFailed, LogUnavailable

Connection = psycopg.Connection[TupleRow]
"""A connection in a transaction; rows are tuples. ``mnemosyne`` is first on its search path."""

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

SCHEMA = "mnemosyne"
OLDEST_SERVER = 16
_MIGRATION_DEADLINE = 600.0

DOES_NOT_FIT = "MN001"
"""The SQLSTATE of ``mnemosyne.append`` if a stream is at another version."""


class LoginRefused(LogFailed):
    """A role may not log in; the message is the server's."""


@attrs.frozen(kw_only=True)
class Timeouts:
    """Time limits in seconds."""

    connect: int = 5
    """For a new connection, per address."""
    lock: float = 5.0
    """To wait for a lock of another transaction."""
    statement: float = 60.0
    """For one statement on the server."""
    idle_in_transaction: float = 30.0
    """Between statements of a transaction: this limits how long a frozen process holds locks."""
    run: float = 90.0
    """For a whole call of ``Database.run`` without its own deadline."""


class Database:
    """A small pool of connections to one PostgreSQL database; it reconnects after an outage."""

    def __init__(
        self, dsn: str, *, connections: int = 4, timeouts: Timeouts | None = None, name: str = "mnemosyne"
    ) -> None:
        """Connect on the first call. ``connections`` limits concurrent calls; ``name`` is the application name, unless
        the DSN has one. Raises BadConfiguration for an invalid ``dsn``.
        """
        try:
            psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:
            # The original error quotes the DSN, which may hold a password.
            raise BadConfiguration("the database's DSN is not a PostgreSQL URL or key=value string") from None
        self.name = name
        self._dsn = dsn
        self._timeouts = timeouts or Timeouts()
        self._limiter = trio.CapacityLimiter(connections)
        self._idle: list[tuple[float, _Link]] = []
        self._lock = threading.Lock()
        self._closed = False
        self.answered = -math.inf
        """When the server last answered a statement, in the time of ``time.monotonic``."""

    @property
    def dsn(self) -> str:
        """The DSN, which may hold a password."""
        return self._dsn

    async def prepare(self, migrations: Sequence[Migration] | None = None) -> int:
        """Check the server and migrate the schema; return the number of applied migrations.

        Raises DatabaseUnfit if the server is too old, lacks pgvector, or has a schema of another version;
        LogUnavailable if it does not answer.
        """
        return await self.run(
            _prepare, list_migrations() if migrations is None else migrations, deadline=_MIGRATION_DEADLINE
        )

    async def run(
        self,
        fn: Callable[["Connection", *Arguments], Result],
        *args: *Arguments,
        alone: bool = False,
        deadline: float | None = None,
        limiter: trio.CapacityLimiter | None = None,
    ) -> Result:
        """Run ``fn(connection, *args)`` in a worker thread, in a transaction that commits if ``fn`` returns.

        With ``alone``, each statement is its own transaction, and ``fn`` runs again if an idle connection turns out to
        be dead. ``deadline`` is in seconds and includes the wait for a connection; with its own ``limiter``, a caller
        does not queue behind others. If the call is cancelled or late, its connection is closed, and it is unknown
        whether a pending commit succeeded. Raises LogUnavailable, DatabaseUnfit, another LogFailed for an error of the
        server, and errors of ``fn``.
        """
        work = self._alone if alone else self._in_transaction
        lease = _Lease()
        seconds = self._timeouts.run if deadline is None else deadline
        try:
            with trio.move_on_after(seconds):
                return await trio.to_thread.run_sync(
                    lambda: work(lease, fn, args), abandon_on_cancel=True, limiter=limiter or self._limiter
                )
        finally:
            lease.abandon()  # no effect after a normal end
        raise LogUnavailable(f"the database hung: no answer within {seconds:g} seconds")

    def close(self) -> None:
        """Close idle connections, and busy ones when their calls end; refuse new calls."""
        self._closed = True
        self.drop_idle()

    def drop_idle(self, seconds: float = 0.0) -> None:
        """Close the connections that were idle for ``seconds``. Each keeps the memory of its largest statement."""
        with self._lock:
            since = time.monotonic() - seconds
            dropped = [link for at, link in self._idle if at <= since]
            self._idle = self._idle[len(dropped) :]  # they are in the order of their last use
        for link in dropped:
            link.close()

    def _in_transaction(self, lease: "_Lease", fn: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        """Run a call in one transaction, in the worker thread."""
        link: _Link | None = None
        try:
            link, _ = self._take(lease, _begin)
            result = fn(link.connection, *args)
            _commit(link.connection)
        except psycopg.Error as error:
            _raise_as_ours(error)
        else:
            return result
        finally:
            if link is not None:
                self._give_back(lease, link)

    def _alone(self, lease: "_Lease", fn: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        """Run a call without a transaction, unless the connection is shared, in the worker thread."""

        def do(link: _Link) -> Result:
            if not is_shared(link.connection):
                return fn(link.connection, *args)
            _begin(link)
            result = fn(link.connection, *args)
            _commit(link.connection)
            return result

        try:
            link, result = self._take(lease, do)
        except psycopg.Error as error:
            _raise_as_ours(error)
        self._give_back(lease, link)
        return result

    def _take(self, lease: "_Lease", first: "Callable[[_Link], Result]") -> "tuple[_Link, Result]":
        """Return a connection after ``first`` succeeded on it, and its result. Dead idle connections are replaced."""
        while True:
            idle = self._pop_idle()
            link = idle or self._connect()
            lease.hold(link)
            try:
                return link, first(link)
            except BaseException as error:
                abandoned = lease.release()
                link.close()
                lost = isinstance(error, psycopg.Error) and _is_lost(error, error.sqlstate or "")
                # After `abandon` no caller waits for another attempt.
                if idle is None or abandoned or not lost:
                    raise
                self.drop_idle()

    def _pop_idle(self) -> "_Link | None":
        with self._lock:
            if self._closed:
                raise LogUnavailable("the database is closed: the application is shutting down")
            return self._idle.pop()[1] if self._idle else None

    def _give_back(self, lease: "_Lease", link: "_Link") -> None:
        """Keep the connection for the next call if it is usable, otherwise close it."""
        with suppress(psycopg.Error):  # then its status is not idle, and it is closed below
            if link.connection.info.transaction_status != pq.TransactionStatus.IDLE:
                link.connection.rollback()
        sound = link.connection.info.transaction_status == pq.TransactionStatus.IDLE
        abandoned = lease.release()
        with self._lock:
            if sound and not abandoned and not self._closed:
                self._idle.append((time.monotonic(), link))
                return
        link.close()

    def _connect(self) -> "_Link":
        connection = _ReportingConnection.connect(
            self._dsn,
            autocommit=True,  # explicit transactions: a dead connection shows at "begin"
            connect_timeout=self._timeouts.connect,
            fallback_application_name=self.name,
            client_encoding="utf8",
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=30_000,
        )
        connection.on_answer = self._note_answer
        try:
            _check_server(connection)
            begin = self._configure(connection)
            # A duplicate stays valid if the original is closed and its number reused.
            return _Link(connection, socket.socket(fileno=socket.dup(connection.fileno())), begin)
        except BaseException:
            connection.close()
            raise

    def _note_answer(self) -> None:
        self.answered = time.monotonic()

    def _configure(self, connection: "_ReportingConnection") -> bytes:
        """Apply our settings, and return the statement that begins a transaction.

        Behind a pool, such as PgBouncer, another client may get the server's connection after each transaction: then
        settings are local to a transaction, and no statement is prepared. A pool reports its own backend PIDs.
        """
        # pgvector may be installed in any schema.
        pid, connection.server, vectors = connection.execute(
            "select pg_backend_pid(), pg_postmaster_start_time()::text, (select nspname from pg_extension"
            " join pg_namespace n on n.oid = extnamespace where extname = 'vector' and nspname <> %s)",
            (SCHEMA,),
        ).fetchone() or (0, "", None)
        settings = {
            "lock_timeout": sql.Literal(_milliseconds(self._timeouts.lock)),
            "statement_timeout": sql.Literal(_milliseconds(self._timeouts.statement)),
            "idle_in_transaction_session_timeout": sql.Literal(_milliseconds(self._timeouts.idle_in_transaction)),
            "search_path": sql.SQL(", ").join(sql.Identifier(name) for name in (SCHEMA, vectors) if name),
        }
        # An append reads the versions of streams after it took the lock, and must see earlier commits.
        isolation = sql.SQL("isolation level read committed")
        if pid != connection.info.backend_pid:
            connection.prepare_threshold = None
            begin = sql.SQL("begin {}").format(isolation)
            return sql.SQL("; ").join([begin, *_set(settings, "local")]).as_bytes(connection)
        characteristics = sql.SQL("set session characteristics as transaction {}").format(isolation)
        connection.execute(sql.SQL("; ").join([characteristics, *_set(settings, "session")]))
        return b"begin"


def _set(settings: Mapping[str, sql.Composable], scope: Literal["local", "session"]) -> Iterator[sql.Composable]:
    for name, value in settings.items():
        yield sql.SQL("set {} {} to {}").format(sql.SQL(scope), sql.SQL(name), value)


class _ReportingConnection(psycopg.Connection[TupleRow]):
    """A connection that reports each answer of the server."""

    on_answer: Callable[[], None]
    server: str

    def wait(self, *args: Any, **options: Any) -> Any:
        result = super().wait(*args, **options)
        self.on_answer()
        return result


def is_shared(connection: Connection) -> bool:
    """Whether a pool may lend the connection to others after each transaction."""
    return connection.prepare_threshold is None


def server_of(connection: Connection) -> str:
    """What tells the connection's server, and each of its starts, from any other."""
    assert isinstance(connection, _ReportingConnection)
    return connection.server


@contextmanager
def without_transaction(connection: Connection, **settings: str) -> Iterator[None]:
    """Leave the transaction and apply settings such as ``statement_timeout``; a shared connection keeps the database's
    settings.
    """
    connection.commit()
    if is_shared(connection):
        yield
        return
    names = list(settings)
    read = "select current_setting(name) from unnest(%s::text[]) as name"
    kept = [value for (value,) in connection.execute(read, (names,))]
    write = "select set_config(name, value, false) from unnest(%s::text[], %s::text[]) as setting (name, value)"
    connection.execute(write, (names, list(settings.values())))
    try:
        yield
    finally:
        connection.execute(write, (names, kept))


@contextmanager
def log_in(connection: Connection, role: str, password: str | None) -> Iterator[Connection]:
    """Open another connection to the same database, without a transaction, as another role. Without a ``password``,
    libpq looks for one. Raises LoginRefused.
    """
    own = {"user": role, "application_name": role, "client_encoding": "utf8"}
    if password is not None:
        own["password"] = password
    try:
        other: Connection = psycopg.connect(
            psycopg.conninfo.make_conninfo(**connection.info.get_parameters() | own), autocommit=True
        )
    except psycopg.OperationalError as error:
        raise LoginRefused(_first_line(error)) from None
    with other:
        yield other


def set_password(connection: Connection, role: str, password: str) -> None:
    """Set the password of a role; the server receives only its hash."""
    name, word = role.encode(), password.encode()
    verifier = connection.pgconn.encrypt_password(word, name, b"scram-sha-256").decode()
    statement = sql.SQL("alter role {} password {}").format(sql.Identifier(role), sql.Literal(verifier))
    connection.execute(statement)


_UNKNOWN_NAMES = (pg.UndefinedTable, pg.UndefinedColumn)


@contextmanager
def reword_refusals() -> Iterator[None]:
    """Report errors of a user's query in the server's words. Raises BadOption."""
    try:
        yield
    except pg.QueryCanceled:
        raise BadOption("The query took too long. Narrow it, or raise --seconds.") from None
    except psycopg.Error as error:
        if _is_lost(error, error.sqlstate or ""):
            raise
        why = error.diag.message_primary or "it is not a query"
        hint = " `mnemosyne sql` without a query lists views and columns." if isinstance(error, _UNKNOWN_NAMES) else ""
        raise BadOption(f"The database rejected the query: {why}.{hint}") from None


def halfvecs(connection: Connection, vectors: Iterable[Sequence[float]]) -> list[HalfVector]:
    """Vectors in half precision, as parameters for a statement of this connection. Raises ValueError for a number
    beyond half precision.
    """
    if connection.adapters.types.get("halfvec") is None:
        register_vector(connection)
    return [HalfVector(list(vector)) for vector in vectors]


@attrs.frozen(eq=False)
class _Link:
    """A connection, a second handle of its socket for other threads, and the statement that begins a transaction."""

    connection: Connection
    handle: socket.socket
    begin: bytes

    def close(self) -> None:
        self.connection.close()
        self.handle.close()

    def interrupt(self) -> None:
        """Let a thread that waits on the connection fail at once. Callable from any thread."""
        with suppress(OSError):  # it is closed already
            self.handle.shutdown(socket.SHUT_RDWR)


class _Lease:
    """The connection of a call, known to its thread and its task, so that the task can abandon it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link: _Link | None = None
        self._abandoned = False

    def hold(self, link: _Link) -> None:
        """Note the connection in use (in the thread)."""
        with self._lock:
            self._link = link
            if self._abandoned:
                link.interrupt()

    def release(self) -> bool:
        """Note that it is no longer in use (in the thread); return whether the task abandoned the call."""
        with self._lock:
            self._link = None
            return self._abandoned

    def abandon(self) -> None:
        """End the call, because no caller waits for it (in the task)."""
        with self._lock:
            self._abandoned = True
            if self._link is not None:
                self._link.interrupt()


def _begin(link: _Link) -> None:
    link.connection.execute(link.begin)


def _commit(connection: Connection) -> None:
    if connection.info.transaction_status == pq.TransactionStatus.INERROR:
        # The server would answer COMMIT with a silent rollback.
        raise LogFailed("a statement failed inside the transaction, so nothing of it was kept")
    connection.commit()


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))


def _prepare(connection: Connection, migrations: Sequence[Migration]) -> int:
    try:
        return migrate(connection, migrations)
    except (pg.FeatureNotSupported, pg.UndefinedFile):
        raise DatabaseUnfit(
            "the database server lacks the extension pgvector: install it there (on Debian, the package "
            f"postgresql-{connection.info.server_version // 10_000}-pgvector), or leave dsn out for the embedded server"
        ) from None
    except pg.InsufficientPrivilege as error:
        raise DatabaseUnfit(
            f"the database's user may not set up the schema {SCHEMA}: {error.diag.message_primary}; have an "
            f"administrator run `create extension if not exists vector` and `grant create on database "
            f"{connection.info.dbname} to {connection.info.user}`"
        ) from None


def _check_server(connection: Connection) -> None:
    version = connection.info.server_version
    if version < OLDEST_SERVER * 10_000:
        raise DatabaseUnfit(
            f"the database server is PostgreSQL {version // 10_000}, and {OLDEST_SERVER} or newer is needed"
        )


# SQLSTATE classes and codes, from the table in PostgreSQL's manual, appendix A.
_DISK_FULL = "53100"
_FULL = {_DISK_FULL: "its disk is full", "53200": "it is out of memory", "53300": "it has too many connections already"}
_HUNG = {
    "55P03": "another transaction held a lock for too long",
    "57014": "a statement took too long",
    "25P03": "a transaction stood still for too long",
    "40P01": "transactions waited for each other",
    "40001": "transactions disturbed each other",
    "MN002": "an append was under way for too long, and what came after it in the log waits for it",
}
_UNFIT = {
    "28000": "it does not let this user in; check the user in dsn and the server's pg_hba.conf",
    "28P01": "the password is wrong; correct it in dsn",
    "3D000": "there is no such database; create it with `createdb NAME`, or name another one in dsn",
    "42501": "this user may not do what Mnemosyne needs; make it the owner of the schema mnemosyne",
    "42P01": "a table of Mnemosyne's is missing",
    "3F000": "Mnemosyne's schema is missing",
    "42P07": "the schema mnemosyne holds tables that Mnemosyne did not make",
}
_DAMAGED = {"XX001": "a page of its files is torn", "XX002": "an index does not fit its table"}


def _raise_as_ours(error: psycopg.Error) -> NoReturn:
    """Raise our error with one sentence that cannot quote stored content."""
    # An error while connecting has no code.
    state = error.sqlstate or (_DISK_FULL if os.strerror(errno.ENOSPC) in str(error) else "")
    if state in _FULL:
        raise LogUnavailable(f"the database is full: {_FULL[state]}") from error
    if state in _HUNG:
        raise LogUnavailable(f"the database hung: {_HUNG[state]}") from error
    if state in _UNFIT:
        raise DatabaseUnfit(f"the database cannot be used: {_UNFIT[state]}") from error
    if state in _DAMAGED:
        raise LogDamaged(f"the database is damaged: {_DAMAGED[state]}, see docs/operations.md") from None
    if state == "25006":
        raise LogUnavailable("the database is away: it is read-only, perhaps a standby") from error
    if isinstance(error, pg.ConnectionTimeout):
        raise LogUnavailable("the database hung: it did not take the connection in time") from error
    if _is_lost(error, state):
        # A refused connection has no code and a message in the server's language after psycopg's words.
        refused = not state and str(error).startswith("connection failed")
        advice = "; where dsn is set, check it, and create a missing database with `createdb NAME`" if refused else ""
        raise LogUnavailable(f"the database is away: {_first_line(error)}{advice}") from error
    # The server's text may quote a value.
    raise LogFailed(f"the database refused a statement: {type(error).__name__} ({state or 'no code'})") from None


def _is_lost(error: psycopg.Error, state: str) -> bool:
    if state:
        return state.startswith(("08", "57P", "58"))
    # libpq's own errors have no code.
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def _first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    return text.strip().partition("\n")[0] or "the connection broke"
