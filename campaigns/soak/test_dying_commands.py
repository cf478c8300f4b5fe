"""A command that creates, moves or erases a log may die before any of its steps: the log stays complete, and the same
command succeeds when it is repeated.

``make soak`` tries every step; `make ci` tries a few, chosen by a seed. Each try has a copy of a database.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path

import attrs
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.adapters.log_support import query
from tests.cli.logs import SMALL_LOG, put_golden
from tests.cli.running import run
from tests.fixtures import PostgresServer, UseLog
from tests.golden.sessions import stored

KILLED = -9
SEED, FEW, EARLY = 1, 3, 20
"""The choice of steps where not all are tried: its seed, the number for each command, and a bound that every command
exceeds.
"""

CONTENT = "select stream, digest, size from mnemosyne.content where data is not null or encoding = 2 order by 1, 2"
IN_FILES = "select count(*) from mnemosyne.content where encoding = 2"
HELD = "select count(*) from mnemosyne.content where data is not null"
HAS_LOG = "select to_regclass('mnemosyne.stored_events') is not null"
EVENTS = "select count(*) from mnemosyne.stored_events"
MIGRATED = "select version, sha256 from mnemosyne.mnemosyne_migrations order by 1"

Words = tuple[str, ...]


@attrs.frozen
class Commands:
    """The process that runs the commands."""

    process: "subprocess.Popen[str]"

    def die(self, step: int, *words: str) -> bool:
        """Run a command; return whether it died before that step, else it ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([step, *words]) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        assert code in (0, KILLED)
        return code == KILLED


@contextmanager
def dying() -> Iterator[Commands]:
    with subprocess.Popen(
        [sys.executable, "-m", "campaigns.soak.dying_commands"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    ) as process:
        yield Commands(process)
        assert process.stdin is not None
        process.stdin.close()


@attrs.frozen
class Log:
    """A database with the log of one session, its backup, and a folder for files."""

    server: PostgresServer
    dsn: str
    session: str
    backup: Path
    folder: Path
    schema: str
    """The name of a database with an empty schema."""

    @contextmanager
    def copy(self, begins: str) -> Iterator[str]:
        """The DSN of a new database: with ``nothing``, with the empty ``tables``, or with the ``log``."""
        names = {"nothing": "template0", "tables": self.schema, "log": str(conninfo_to_dict(self.dsn)["dbname"])}
        with self.server.fresh_database(names[begins]) as copied:
            yield copied

    @property
    def content(self) -> object:
        return query(self.dsn, CONTENT)


@attrs.frozen
class Case:
    """A command that dies: how its database ``begins``, a command to run ``before``, the check ``between`` its death
    and its repetition, which returns whether to repeat it, and the check ``after`` that.
    """

    begins: str
    words: Callable[[Log, Path], Words]
    between: Callable[[Log, str], bool]
    after: Callable[[Log, str], object]
    before: Callable[[Log, Path], Words] | None = None

    def die(self, commands: Commands, log: Log, step: int) -> bool:
        folder = log.folder / f"{self.words.__name__}-{step}"
        with self.copy_of(log, folder) as there:
            words = (*self.words(log, folder), "--dsn", there)
            died = commands.die(step, *words)
            if self.between(log, there):
                run(*words)
            self.after(log, there)
        return died

    @contextmanager
    def copy_of(self, log: Log, folder: Path) -> Iterator[str]:
        with log.copy(self.begins) as there:
            if self.before is not None:
                run(*self.before(log, folder), "--dsn", there)
            yield there


def verdicts(dsn: str) -> list[str]:
    return [row["verdict"] for row in json.loads(run("verify", "--json", "--dsn", dsn).stdout)]


# Migration


def migrate(log: Log, folder: Path) -> Words:
    return ("projections",)


def is_anything(log: Log, dsn: str) -> bool:
    return True


def is_migrated(log: Log, dsn: str) -> None:
    assert query(dsn, MIGRATED) == query(log.dsn, MIGRATED)


# Archive


def archive(log: Log, folder: Path) -> Words:
    return ("archive", log.session, "--to", str(folder), "--quick")


def archive_and_rewrite(log: Log, folder: Path) -> Words:
    return archive(log, folder)[:-1]


def unarchive(log: Log, folder: Path) -> Words:
    return ("unarchive", log.session)


def is_whole(log: Log, dsn: str) -> bool:
    assert (query(dsn, CONTENT), verdicts(dsn)) == (log.content, ["ok"])
    return True


def is_in_files(log: Log, dsn: str) -> None:
    assert is_whole(log, dsn)
    assert query(dsn, IN_FILES)[0][0] > 0


def is_in_the_database(log: Log, dsn: str) -> None:
    assert is_whole(log, dsn)
    assert query(dsn, IN_FILES) == [(0,)]


# Restoring


def restore(log: Log, folder: Path) -> Words:
    return ("restore", str(log.backup))


def is_empty_or_whole(log: Log, dsn: str) -> bool:
    """Whether nothing was restored, so that it is repeated; a part never is."""
    if query(dsn, HAS_LOG) == [(False,)] or query(dsn, EVENTS) == [(0,)]:
        return True
    return not is_whole(log, dsn)


# Forgetting


def forget(log: Log, folder: Path) -> Words:
    return ("forget", log.session, "--yes")


def collect(log: Log, folder: Path) -> Words:
    return ("retain", "--retain-days", "1")


def is_whole_or_forgotten(log: Log, dsn: str) -> bool:
    assert verdicts(dsn) in (["ok"], ["forgotten"])
    return True


def is_forgotten(log: Log, dsn: str) -> None:
    assert (verdicts(dsn), query(dsn, HELD)) == (["forgotten"], [(0,)])


CASES = {
    "migrate": Case("nothing", migrate, is_anything, is_migrated),
    "archive": Case("log", archive_and_rewrite, is_whole, is_in_files),
    "unarchive": Case("log", unarchive, is_whole, is_in_the_database, before=archive),
    "restore": Case("tables", restore, is_empty_or_whole, is_whole),
    "forget": Case("log", forget, is_whole_or_forgotten, is_forgotten),
    "collect": Case("log", collect, is_whole_or_forgotten, is_forgotten),
}


@pytest.fixture
def log(use_log: UseLog, template: str, postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Log]:
    # Not a lent database: it is copied, so it must have no connection.
    with postgres_server.fresh_database(template) as dsn:
        put_golden(dsn, SMALL_LOG)
        use_log(dsn, stored(SMALL_LOG)[0].state["data"]["tenant"])
        backup = tmp_path / "backup"
        run("backup", str(backup))
        yield Log(postgres_server, dsn, str(stored(SMALL_LOG)[0].stream), backup, tmp_path, template)


def try_steps(log: Log, names: Sequence[str], steps: Callable[[], Iterator[int]]) -> None:
    with dying() as commands:
        for name in names:
            case = CASES[name]
            died = [True, *takewhile(bool, (case.die(commands, log, step) for step in steps()))]
            assert len(died) > FEW, name


def test_log_survives_a_command_that_dies_at_a_few_of_its_steps(log: Log) -> None:
    drawn = sorted(random.Random(SEED).sample(range(1, EARLY), FEW))
    try_steps(log, list(CASES), lambda: iter(drawn))


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_log_survives_a_command_that_dies_at_any_of_its_steps(log: Log, name: str) -> None:
    try_steps(log, [name], lambda: count(1))
