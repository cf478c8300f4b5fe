"""The schema of the database: numbered SQL files, applied once, in order, and never edited.

To change the schema, add ``NNNN_name.sql`` with the next number. Statements name the schema ``mnemosyne``. All files
run in one transaction, so ``create index concurrently`` is impossible.
"""

import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

import attrs

from mnemosyne.errors import DatabaseUnfit

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

# An arbitrary number, "MNEM".
_LOCK = 0x4D4E454D

_FILE_NAME = re.compile(r"(?P<version>[0-9]{4})_(?P<name>[a-z0-9_]+)\.sql")

_BOOKKEEPING = b"""
create schema if not exists mnemosyne;
create table if not exists mnemosyne.mnemosyne_migrations (
    version integer primary key,
    name text not null,
    sha256 text not null,
    applied_at timestamptz not null default now()
)
"""


@attrs.frozen
class Migration:
    """One step of the schema. ``version`` counts from 1 without gaps."""

    version: int
    name: str
    sql: bytes

    @property
    def sha256(self) -> str:
        """The hash that the database stores, to detect an edited file."""
        return hashlib.sha256(self.sql).hexdigest()


def list_migrations() -> tuple[Migration, ...]:
    """The migrations of this version of Mnemosyne, in order."""
    found = []
    for file in resources.files(__name__).iterdir():
        if match := _FILE_NAME.fullmatch(file.name):
            # A checkout may have changed line ends.
            sql = file.read_bytes().replace(b"\r\n", b"\n")
            found.append(Migration(int(match["version"]), match["name"], sql))
    return tuple(sorted(found, key=lambda migration: migration.version))


def migrate(connection: "Connection[TupleRow]", migrations: Sequence[Migration]) -> int:
    """Apply pending migrations in the caller's transaction; return their number.

    Concurrent processes wait for each other. Raises DatabaseUnfit for the schema of a newer version, or an edited
    migration.
    """
    connection.execute("set local lock_timeout = 0; set local statement_timeout = 0")
    connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
    connection.execute(_BOOKKEEPING)
    rows = connection.execute("select version, name, sha256 from mnemosyne.mnemosyne_migrations order by version")
    applied = [(int(version), str(name), str(sha256)) for version, name, sha256 in rows]
    _check(applied, migrations)
    pending = migrations[len(applied) :]
    for migration in pending:
        connection.execute(migration.sql)
        connection.execute(
            "insert into mnemosyne.mnemosyne_migrations (version, name, sha256) values (%s, %s, %s)",
            (migration.version, migration.name, migration.sha256),
        )
    return len(pending)


def _check(applied: Sequence[tuple[int, str, str]], migrations: Sequence[Migration]) -> None:
    """Compare the applied migrations with the known ones."""
    if len(applied) > len(migrations):
        version, name, _ = applied[-1]
        raise DatabaseUnfit(
            f"the database was written by a newer Mnemosyne: its schema is at {version} ({name}), "
            f"and this version knows {len(migrations)}; use the newer version"
        )
    for (version, name, sha256), migration in zip(applied, migrations, strict=False):
        if (version, name, sha256) != (migration.version, migration.name, migration.sha256):
            raise DatabaseUnfit(
                f"the database's migration {version} ({name}) is not the one of this version "
                f"({migration.version}, {migration.name}): it was edited after it was applied, "
                f"or another build made this database; use that build, or another database"
            )
