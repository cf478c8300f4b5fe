r"""``pytest -p campaigns.soak.resuming --passed FILE``: resume a stopped campaign.

Each passed test is recorded in FILE, as a line of JSON with the test, its seconds and its output. Recorded tests are
skipped.
"""

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed", type=Path, required=True, help="where what passed is noted, and skipped from then on")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # of several processes one writes
        config.pluginmanager.register(Noting(config.getoption("passed")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the recorded tests. The items stay, because every process must collect the same."""
    file: Path = config.getoption("passed")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    passed = {json.loads(line)["test"] for line in lines}
    for item in items:
        if item.nodeid in passed:
            item.add_marker(pytest.mark.skip(reason="it passed before"))


class Noting:
    """Records each test that passes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            noted = {"test": report.nodeid, "seconds": round(report.duration, 1), "said": report.capstdout.strip()}
            with self._file.open("a", encoding="utf-8") as notes:
                notes.write(json.dumps(noted, ensure_ascii=False) + "\n")
