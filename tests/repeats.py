"""Tests that repeat others: `python -m tests.repeats` measures them and writes `repeats.txt`. `make test` leaves them
out, `make ci` runs them.

A test of `LEAST` seconds or more is a repeat if each branch of the product that it covers is covered by a test that is
not a repeat. Never repeats are property tests; the tests of `KEPT`, of which two may cover the same branches and show
different rules; and tests that mostly read sources or start processes, whose branches are not measured.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import coverage
import pytest

LIST = Path(__file__).with_suffix(".txt")

KEPT = (
    "tests/adapters/embedded/test_server.py",
    "tests/adapters/postgres/test_journal.py",
    "tests/adapters/postgres/test_object_index.py::test_a_search_never_returns",
    "tests/adapters/postgres/test_object_index.py::test_objects_read_before_forgetting",
    "tests/adapters/postgres/test_sql_views.py",
    "tests/app/test_retaining.py::test_a_quota",
    "tests/cli/test_archive.py",
    "tests/cli/test_fork.py::test_archived",
    "tests/cli/test_tenants.py",
    "tests/cli/test_transfer.py::test_backup_that_refers",
    "tests/domain/segmentation/test_episodes.py::test_forgetting",
    "tests/domain/session/test_redaction.py",
    "tests/golden/",
    "tests/http/inspector/test_live.py::test_a_follower_of_one_session",
    "tests/http/inspector/test_session_report.py::test_a_redacted_file",
    "tests/http/test_bad_input.py",
    "tests/http/test_forks.py::test_another_client_or_session_inherits_nothing",
    "tests/http/test_helped_answers.py::test_helper_gets_sources",
    "tests/http/test_kill_anywhere.py",
    "tests/http/test_managed_dialects.py::test_reasoning_of_another_issuer",
    "tests/http/test_memory_access.py",
    "tests/http/test_session_knowledge.py",
    "tests/http/test_unnamed.py::test_conversation",
    "tests/projections/test_forgetting.py",
    "tests/projections/test_golden_logs.py",
    "tests/test_log_commands.py::test_credential",
)
"""Tests of durability, isolation of tenants, bad input and earlier logs."""

LEAST = 0.15
"""Seconds of a repeat; to leave out a shorter one would save nothing."""

FOLDER = "MNEMOSYNE_TEST_REPEATS"
"""The environment variable that names the folder of the workers' measurements."""

SEEN = 30
"""Branches of the product that a repeat takes, at least."""


def read_list() -> frozenset[str]:
    """The ids of the repeats."""
    return frozenset(LIST.read_text(encoding="utf-8").splitlines())


def find_repeats(seconds: Mapping[str, float], branches: Mapping[str, Set[Any]]) -> list[str]:
    """The tests of ``seconds`` that repeat others, slowest first; ``branches`` are those that each test takes."""
    takers = Counter(branch for taken in branches.values() for branch in taken)
    repeats = []
    for test in sorted(seconds, key=lambda test: (-seconds[test], test)):
        taken = branches.get(test, frozenset())
        long = seconds[test] >= LEAST and len(taken) >= SEEN and not test.startswith(KEPT)
        if long and all(takers[branch] > 1 for branch in taken):
            takers.subtract(taken)
            repeats.append(test)
    return repeats


class Measuring:
    """The plugin of each worker. It writes the branches that each test takes and the seconds of those that may be
    repeats to ``folder``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._branches = coverage.Coverage(folder / "branches", branch=True, source=["mnemosyne"], config_file=False)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._laws: set[str] = set()

    def pytest_sessionstart(self) -> None:
        self._branches.start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._laws = {each.nodeid for each in session.items if each.get_closest_marker("hypothesis")}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._branches.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += 0 if report.nodeid in self._laws else report.duration

    def pytest_sessionfinish(self) -> None:
        self._branches.stop()
        self._branches.save()
        (self._folder / "seconds").write_text(json.dumps(self._seconds), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in this worker, if the command below started it."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        folder = Path(os.environ[FOLDER], worker["workerid"])
        folder.mkdir()
        config.pluginmanager.register(Measuring(folder))


def _read_branches(files: Iterable[Path]) -> dict[str, set[tuple[str, int, int]]]:
    """The branches of each test in coverage's data ``files``."""
    branches: dict[str, set[tuple[str, int, int]]] = {}
    for file in files:
        with sqlite3.connect(file) as data:
            for test, *branch in data.execute(
                "SELECT context, path, fromno, tono FROM arc"
                " JOIN context ON context.id = context_id JOIN file ON file.id = file_id WHERE context <> ''"
            ):
                branches.setdefault(test, set()).add(tuple(branch))
    return branches


def main() -> None:
    """Run the tests of `make test` and the repeats, without clients and browser, and write the list. It takes two to
    three times as long as the tests.
    """
    with TemporaryDirectory() as folder:
        options = "-q -n 2 --dist worksteal --ignore tests/clients --ignore tests/browser -p tests.repeats"
        command = [sys.executable, "-m", "pytest", *options.split(), "-m", "not soak and not release", "tests"]
        subprocess.run(command, check=True, env={**os.environ, FOLDER: folder})
        seconds: dict[str, float] = {}
        for each in Path(folder).glob("gw*/seconds"):
            seconds |= json.loads(each.read_text(encoding="utf-8"))
        repeats = find_repeats(seconds, _read_branches(Path(folder).glob("gw*/branches")))
    LIST.write_text("".join(f"{each}\n" for each in sorted(repeats)), encoding="utf-8")
    spared, total = sum(map(seconds.__getitem__, repeats)), sum(seconds.values())
    print(f"{len(repeats)} repeats take {spared:.0f} of {total:.0f} s")  # noqa: T201 -- the result of the command


if __name__ == "__main__":
    main()
