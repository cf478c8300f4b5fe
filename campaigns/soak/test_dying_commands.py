"""A command that creates, moves or erases a log may die before any of its steps: the log stays complete, and the same
command succeeds when it is repeated.

``make soak`` tries every step; `make ci` tries a few, chosen by a seed. Each try has a copy of a database.
"""

import json
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


Die = Callable[[int, Words], bool]
"""Runs a command; returns whether it died before that step, else it ended."""


@contextmanager
def dying() -> Iterator[Die]:
    command = [sys.executable, "-m", "campaigns.soak.dying", "commands"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        steps, codes = process.stdin, process.stdout

        def die(step: int, words: Words) -> bool:
            steps.write(json.dumps([step, *words]) + "\n")
            steps.flush()
            code = int(codes.readline())
            assert code in (0, KILLED)
            return code == KILLED

        yield die
        steps.close()


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

    def die(self, die: Die, log: Log, folder: Path, step: int) -> bool:
        with log.copy(self.begins) as there:
            if self.before is not None:
                run(*self.before(log, folder), "--dsn", there)
            words = (*self.words(log, folder), "--dsn", there)
            died = die(step, words)
            if self.between(log, there):
                run(*words)
            self.after(log, there)
        return died


def verdicts(dsn: str) -> list[str]:
    return [row["verdict"] for row in json.loads(run("verify", "--json", "--dsn", dsn).stdout)]


def is_migrated(log: Log, dsn: str) -> None:
    assert query(dsn, MIGRATED) == query(log.dsn, MIGRATED)


def archive(log: Log, folder: Path) -> Words:
    return ("archive", log.session, "--to", str(folder), "--quick")


def is_whole(log: Log, dsn: str) -> bool:
    assert (query(dsn, CONTENT), verdicts(dsn)) == (query(log.dsn, CONTENT), ["ok"])
    return True


def is_in_files(log: Log, dsn: str) -> None:
    assert is_whole(log, dsn)
    assert query(dsn, IN_FILES)[0][0] > 0


def is_in_the_database(log: Log, dsn: str) -> None:
    assert is_whole(log, dsn)
    assert query(dsn, IN_FILES) == [(0,)]


def is_empty_or_whole(log: Log, dsn: str) -> bool:
    """Whether nothing was restored, so that it is repeated; a part never is."""
    if query(dsn, HAS_LOG) == [(False,)] or query(dsn, EVENTS) == [(0,)]:
        return True
    return not is_whole(log, dsn)


def is_whole_or_forgotten(log: Log, dsn: str) -> bool:
    assert verdicts(dsn) in (["ok"], ["forgotten"])
    return True


def is_forgotten(log: Log, dsn: str) -> None:
    assert (verdicts(dsn), query(dsn, HELD)) == (["forgotten"], [(0,)])


CASES = {
    "migrate": Case("nothing", lambda log, folder: ("projections",), lambda log, dsn: True, is_migrated),
    "archive": Case("log", lambda log, folder: archive(log, folder)[:-1], is_whole, is_in_files),
    "unarchive": Case(
        "log", lambda log, folder: ("unarchive", log.session), is_whole, is_in_the_database, before=archive
    ),
    "restore": Case("tables", lambda log, folder: ("restore", str(log.backup)), is_empty_or_whole, is_whole),
    "forget": Case("log", lambda log, folder: ("forget", log.session, "--yes"), is_whole_or_forgotten, is_forgotten),
    "collect": Case("log", lambda log, folder: ("retain", "--retain-days", "1"), is_whole_or_forgotten, is_forgotten),
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
    with dying() as die:
        for name in names:
            tried = (CASES[name].die(die, log, log.folder / f"{name}-{step}", step) for step in steps())
            assert len([True, *takewhile(bool, tried)]) > FEW, name


def test_log_survives_a_command_that_dies_at_a_few_of_its_steps(log: Log) -> None:
    drawn = sorted(random.Random(SEED).sample(range(1, EARLY), FEW))
    try_steps(log, list(CASES), lambda: iter(drawn))


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_log_survives_a_command_that_dies_at_any_of_its_steps(log: Log, name: str) -> None:
    try_steps(log, [name], lambda: count(1))
