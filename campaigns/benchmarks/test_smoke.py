"""The benchmarks run and return rows. Speed is not tested."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import DEADLINE

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmarks read /proc")


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=5 * DEADLINE, check=False)


def measure(folder: Path, part: str, *options: str) -> tuple[dict[str, Any], str]:
    """The JSON and the printed table of a quick run of a part."""
    file = folder / "rows.json"
    done = run(part, "--quick", "--json", str(file), *options)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text()), done.stdout


@pytest.mark.soak
def test_quick_run_compares_each_variant_with_the_others(tmp_path: Path) -> None:
    """The four servers start, and every reply is complete."""
    result, _ = measure(tmp_path, "relay", "--date", "2000-01-01")
    assert result["date"] == "2000-01-01"
    assert result["machine"]["cores"] > 0
    relays = {"bare h11 relay", "mnemosyne without its log", "mnemosyne"}
    for start in ("first byte", "delay of a delta", "requests", "CPU of a request", "resident memory"):
        variants = {row["variant"] for row in result["rows"] if row["name"].startswith(start)}
        assert variants - {"direct"} == relays, start
    assert {row["goal"] for row in result["rows"]} == {None, 3.0}
    assert all(row["n"] > 0 for row in result["rows"])


@pytest.mark.soak
@pytest.mark.parametrize("part", ["log.space", "log.appends", "commands.pages", "retrieval.index"])
def test_quick_run_measures_a_part(part: str, tmp_path: Path) -> None:
    rows = measure(tmp_path, part)[0]["rows"]
    assert rows
    assert all(row["median"] > 0 for row in rows)


def test_every_row_is_in_the_printed_table(tmp_path: Path) -> None:
    """The printed table has the rows of the JSON; a single part can be selected by name."""
    found, table = measure(tmp_path, "calls.turns")
    names = {row["name"] for row in found["rows"]}
    assert names
    assert all(f"| {name}" in table for name in names)


def test_quick_run_is_never_saved_as_a_result() -> None:
    """Meaningless numbers stay out of RESULTS.md."""
    done = run("--quick", "--write-results")
    assert done.returncode == 2
    assert "quick" in done.stderr
