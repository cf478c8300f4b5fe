"""What moves or erases a log dies before any of its steps: the log is whole then, and the command called again ends.

``make soak`` tries each step; elsewhere a few, drawn by a seed.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path

import attrs
import pytest

from tests.adapters.log_support import query
from tests.cli.running import run
from tests.conftest import PostgresServer

KILLED = -9
SEED, FEW, EARLY = 1, 3, 20
"""Which steps are tried, how many of each command, and before which it has not ended, where not all are."""

CONTENT = "select stream, digest, size from mnemosyne.content where data is not null or encoding = 2 order by 1, 2"
IN_FILES = "select count(*) from mnemosyne.content where encoding = 2"
HELD = "select count(*) from mnemosyne.content where data is not null"


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


def go_through(every: bool, die: Callable[[int], bool]) -> None:
    """Let a command die before each of its steps, or before a few of them; ``die`` says whether it did."""
    steps = count(1) if every else sorted(random.Random(SEED).sample(range(1, EARLY), FEW))
    died = [True, *takewhile(bool, map(die, steps))]
    assert len(died) > FEW


EVERY = [pytest.param(False, id="few"), pytest.param(True, id="every", marks=pytest.mark.soak)]


def verdicts(*dsn: str) -> list[str]:
    return [each["verdict"] for each in json.loads(run("verify", "--json", *dsn).stdout)]


@pytest.mark.parametrize("every", EVERY)
def test_a_session_that_dies_on_its_way_to_a_file_and_back_is_whole_and_gets_there(
    every: bool, conversation: str, dsn: str, tmp_path: Path
) -> None:
    archive = ("archive", conversation, "--to", str(tmp_path / "old"))
    whole = query(dsn, CONTENT)
    with dying() as commands:

        def die_away(step: int) -> bool:
            died = commands.die(step, *archive)
            assert (query(dsn, CONTENT), verdicts()) == (whole, ["ok"])
            run(*archive)
            assert (query(dsn, CONTENT), verdicts()) == (whole, ["ok"])
            assert query(dsn, IN_FILES)[0][0] > 0
            run("unarchive", conversation)
            return died

        def die_back(step: int) -> bool:
            run(*archive, "--quick")
            died = commands.die(step, "unarchive", conversation)
            assert (query(dsn, CONTENT), verdicts()) == (whole, ["ok"])
            run("unarchive", conversation)
            assert (query(dsn, CONTENT), query(dsn, IN_FILES), verdicts()) == (whole, [(0,)], ["ok"])
            return died

        go_through(every, die_away)
        go_through(every, die_back)


@pytest.mark.parametrize("every", EVERY)
def test_a_restoring_that_dies_leaves_nothing_and_a_forgetting_that_dies_nothing_half_read(
    every: bool, conversation: str, postgres_server: PostgresServer, tmp_path: Path, dsn: str
) -> None:
    file = tmp_path / "log"
    run("backup", str(file))
    whole = query(dsn, CONTENT)
    with dying() as commands:

        def die(step: int) -> bool:
            with postgres_server.fresh_database() as other:
                there = ("--dsn", other)
                restoring = commands.die(step, "restore", str(file), *there)
                if restoring and not _has_log(other):
                    run("restore", str(file), *there)
                assert (query(other, CONTENT), verdicts(*there)) == (whole, ["ok"])
                forgetting = commands.die(step, "forget", conversation, "--yes", *there)
                assert verdicts(*there) in (["ok"], ["forgotten"])
                run("forget", conversation, "--yes", *there)
                assert (verdicts(*there), query(other, HELD)) == (["forgotten"], [(0,)])
                return restoring or forgetting

        go_through(every, die)


def _has_log(dsn: str) -> bool:
    """Whether all of it is in: a part of it never is."""
    tables = query(dsn, "select to_regclass('mnemosyne.stored_events') is not null")
    return tables == [(True,)] and query(dsn, "select count(*) > 0 from mnemosyne.stored_events") == [(True,)]
