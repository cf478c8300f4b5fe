"""Rows as people and programs read them, and the machine they were measured on."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.harness import Row

COLUMNS = {"measured": "-", "variant": "-", "unit": "-", "median": ":", "p95": ":", "p99": ":", "n": ":", "goal": "-"}
"""The table's columns; those of numbers end with a colon below their names."""

Machine = Mapping[str, Any]


def this_machine() -> Machine:
    """The conditions of a measurement; ``load`` is the number of processes that wanted a core, on average over the
    minute before.
    """
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": model[1] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "revision": _revision(),
        "load": os.getloadavg()[0],
    }


def _revision() -> str:
    """The measured commit, marked if the package has uncommitted changes."""

    def git(*arguments: str) -> str:
        root = Path(__file__).parents[1]
        return subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, check=True).stdout

    try:
        commit = git("rev-parse", "--short", "HEAD").strip()
        return f"{commit} with changes" if git("status", "--porcelain", "--", "mnemosyne") else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def as_json(machine: Machine, date: str, rows: Sequence[Row]) -> str:
    """The whole run as one JSON object."""
    described = [{**attrs.asdict(row), "met": row.met} for row in rows]
    return json.dumps({"date": date, "machine": machine, "rows": described}, indent=2) + "\n"


def as_table(rows: Sequence[Row]) -> str:
    """The rows as a table in Markdown, its columns aligned for a terminal too."""
    cells = [[*COLUMNS], *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = ["-" * (width - 1) + end for width, end in zip(widths, COLUMNS.values(), strict=True)]
    aligned = [[_align(*cell) for cell in zip(line, widths, COLUMNS.values(), strict=True)] for line in cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in (aligned[0], rule, *aligned[1:]))


def _align(text: str, width: int, end: str) -> str:
    return text.ljust(width) if end == "-" else text.rjust(width)


def _cells(row: Row) -> list[str]:
    goal = ""
    if row.goal is not None:
        missed = "met" if row.met else f"missed by {_number(row.median - row.goal)}"
        goal = f"≤ {row.goal:g}: {missed}"
    numbers = (row.median, row.p95, row.p99)
    return [row.name, row.variant, row.unit, *map(_number, numbers), str(row.n), goal]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def described(machine: Machine, date: str) -> str:
    """Machine and date, in one line."""
    return (
        "{date}, commit {revision}; {cores} cores, {cpu}; {kernel}; {python}; load before the run {load:.2f}"
    ).format(date=date, **machine)


def write_results(file: Path, group: str, text: str) -> None:
    """Put ``text`` between the group's two marks in ``file``, and leave everything else as people wrote it."""
    begin, end = f"<!-- begin {group} -->", f"<!-- end {group} -->"
    before, found, rest = file.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{file} has no place for {group!r}: add the lines {begin!r} and {end!r}.")
    file.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
