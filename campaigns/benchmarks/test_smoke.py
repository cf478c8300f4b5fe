"""The benchmarks run and return rows. Speed is not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import DEADLINE

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmarks read /proc")


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as users do."""
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=5 * DEADLINE, check=False)


@pytest.mark.soak
def test_quick_run_measures_each_variant_in_each_part(tmp_path: Path) -> None:
    """The four servers start, every reply is complete, and each part returns its rows."""
    file = tmp_path / "rows.json"
    done = run("relay", "--quick", "--date", "2000-01-01", "--json", str(file))
    assert done.returncode == 0, done.stderr
    result = json.loads(file.read_text())
    assert result["date"] == "2000-01-01"
    assert result["machine"]["cores"] > 0
    rows = result["rows"]
    for start in ("first byte", "delta", "requests"):
        variants = {row["variant"] for row in rows if row["name"].startswith(start)}
        assert variants == {"direct", "bare h11 relay", "mnemosyne without its log", "mnemosyne"}, start
    for start in ("CPU per request", "RSS"):
        variants = {row["variant"] for row in rows if row["name"].startswith(start)}
        assert {"bare h11 relay", "mnemosyne without its log", "mnemosyne"} <= variants, start
    assert {row["goal"] for row in rows} == {None, 0.5, 3.0, 110.0, 120.0}
    assert all(row["n"] > 0 for row in rows)


@pytest.mark.soak
def test_quick_run_measures_the_cost_of_the_log(tmp_path: Path) -> None:
    """The whole server records turns, and each promise about the log is measured."""
    file = tmp_path / "rows.json"
    done = run("log", "--quick", "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    added = {row["name"].split(",")[0] for row in rows if row["variant"] == "added by the log" and row["goal"] is None}
    assert added == {"first byte", "last byte", "CPU per turn"}
    promised = {row["name"].split(",")[0]: row["goal"] for row in rows if row["goal"] is not None}
    assert promised == {
        "CPU above the relay": 1.3,
        "log ÷ unique content": 1.3,
        "context at turn 60 of 60 ÷ turn 10 of 60": 1.5,
    }
    assert all(row["n"] > 0 for row in rows)


@pytest.mark.soak
def test_quick_run_measures_the_object_index(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = run("retrieval.index", "--quick", "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert len([row for row in rows if row["name"].startswith("search, ")]) == 4


def test_every_row_is_in_the_printed_table(tmp_path: Path) -> None:
    """The printed table has the rows of the JSON; a single part can be selected by name."""
    file = tmp_path / "rows.json"
    done = run("calls.turns", "--quick", "--json", str(file))
    assert done.returncode == 0, done.stderr
    names = {row["name"] for row in json.loads(file.read_text())["rows"]}
    assert names
    assert all(f"| {name}" in done.stdout for name in names)


def test_quick_run_is_never_saved_as_a_result() -> None:
    """Meaningless numbers stay out of RESULTS.md."""
    done = run("--quick", "--write-results")
    assert done.returncode == 2
    assert "quick" in done.stderr


@pytest.mark.soak
def test_quick_run_measures_each_page_and_the_notice_of_a_commit(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = run("pages", "--quick", "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert {row["name"].split(",")[0] for row in rows if row["name"].endswith("again: first byte")} == {
        "the sessions",
        "a session",
        "a turn",
        "its objects",
        "what if",
    }
    assert all(row["median"] > 0 for row in rows)
