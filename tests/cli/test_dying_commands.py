"""What makes, moves or erases a log dies before any of its steps: the log is whole then, and the command called again
ends.

``make soak`` tries each step; elsewhere a few, drawn by a seed. Each has a copy of a database's files, which costs
little beside the command and what looks at the log behind it.
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
from tests.cli.running import run
from tests.fixtures import PostgresServer

KILLED = -9
SEED, FEW, EARLY = 1, 3, 20
"""Which steps are tried, how many of each command, and before which it has not ended, where not all are."""

CONTENT = "select stream, digest, size from mnemosyne.content where data is not null or encoding = 2 order by 1, 2"
IN_FILES = "select count(*) from mnemosyne.content where encoding = 2"
HELD = "select count(*) from mnemosyne.content where data is not null"
HAS_LOG = "select to_regclass('mnemosyne.stored_events') is not null"
EVENTS = "select count(*) from mnemosyne.stored_events"
MIGRATED = "select version, sha256 from mnemosyne.mnemosyne_migrations order by 1"

Words = tuple[str, ...]


@attrs.frozen
class Commands:
    """The process that runs them."""

    process: "subprocess.Popen[str]"

    def die(self, step: int, *words: str) -> bool:
        """Whether a command died before that step; else it came to its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([step, *words]) + "\n")
        self.process.stdin.flush()
        ended = int(self.process.stdout.readline())
        assert ended in (0, KILLED)
        return ended == KILLED


@contextmanager
def dying() -> Iterator[Commands]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cli.dying_commands"],
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
    """A database with the log of one session, a backup of it, and the folder of a step."""

    server: PostgresServer
    dsn: str
    session: str
    backup: Path
    folder: Path
    schema: str
    """The name of a database with our tables and nothing in them."""

    @contextmanager
    def copy(self, begins: str) -> Iterator[str]:
        """The DSN of a database with ``nothing`` in it, with our ``tables``, or with the ``log``."""
        names = {"nothing": "template0", "tables": self.schema, "log": str(conninfo_to_dict(self.dsn)["dbname"])}
        with self.server.fresh_database(names[begins]) as copied:
            yield copied

    @property
    def content(self) -> object:
        return query(self.dsn, CONTENT)


@attrs.frozen
class Case:
    """A command that dies: how its database ``begins``, what was done ``before``, what is looked at ``between`` its
    death and its next try, and ``behind`` that.
    """

    begins: str
    words: Callable[[Log, Path], Words]
    between: Callable[[Log, str], bool]
    """Whether it is to be tried again: a log that is all there is not made once more."""
    behind: Callable[[Log, str], object]
    before: Callable[[Log, Path], Words] | None = None

    def die(self, commands: Commands, log: Log, step: int) -> bool:
        folder = log.folder / f"{self.words.__name__}-{step}"
        with self.copy_of(log, folder) as there:
            words = (*self.words(log, folder), "--dsn", there)
            died = commands.die(step, *words)
            if self.between(log, there):
                run(*words)
            self.behind(log, there)
        return died

    @contextmanager
    def copy_of(self, log: Log, folder: Path) -> Iterator[str]:
        with log.copy(self.begins) as there:
            if self.before is not None:
                run(*self.before(log, folder), "--dsn", there)
            yield there


def verdicts(dsn: str) -> list[str]:
    return [each["verdict"] for each in json.loads(run("verify", "--json", "--dsn", dsn).stdout)]


# Migration


def migrate(log: Log, folder: Path) -> Words:
    return ("projections",)


def is_begun_or_not(log: Log, dsn: str) -> bool:
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


def lies_in_files(log: Log, dsn: str) -> None:
    assert is_whole(log, dsn)
    assert query(dsn, IN_FILES)[0][0] > 0


def lies_in_the_database(log: Log, dsn: str) -> None:
    assert is_whole(log, dsn)
    assert query(dsn, IN_FILES) == [(0,)]


# Restoring


def restore(log: Log, folder: Path) -> Words:
    return ("restore", str(log.backup))


def is_empty_or_whole(log: Log, dsn: str) -> bool:
    """It is restored again where nothing arrived; a part never does."""
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
    "migrate": Case("nothing", migrate, is_begun_or_not, is_migrated),
    "archive": Case("log", archive_and_rewrite, is_whole, lies_in_files),
    "unarchive": Case("log", unarchive, is_whole, lies_in_the_database, before=archive),
    "restore": Case("tables", restore, is_empty_or_whole, is_whole),
    "forget": Case("log", forget, is_whole_or_forgotten, is_forgotten),
    "collect": Case("log", collect, is_whole_or_forgotten, is_forgotten),
}


@pytest.fixture
def log(small_conversation: str, dsn: str, template: str, postgres_server: PostgresServer, tmp_path: Path) -> Log:
    backup = tmp_path / "backup"
    run("backup", str(backup))
    return Log(postgres_server, dsn, small_conversation, backup, tmp_path, template)


def go_through(log: Log, names: Sequence[str], steps: Callable[[], Iterator[int]]) -> None:
    with dying() as commands:
        for name in names:
            case = CASES[name]
            died = [True, *takewhile(bool, (case.die(commands, log, step) for step in steps()))]
            assert len(died) > FEW, name


def test_what_dies_at_a_few_of_its_steps_leaves_a_log_that_is_whole_and_gets_there_again(log: Log) -> None:
    drawn = sorted(random.Random(SEED).sample(range(1, EARLY), FEW))
    go_through(log, list(CASES), lambda: iter(drawn))


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_what_dies_at_each_of_its_steps_leaves_a_log_that_is_whole_and_gets_there_again(log: Log, name: str) -> None:
    go_through(log, [name], lambda: count(1))
