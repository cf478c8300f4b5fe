"""Rows as people and programs read them, and the machine they were measured on."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import attrs

from benchmarks.harness import Row


@attrs.frozen
class Machine:
    """The conditions of a measurement."""

    cpu: str
    cores: int
    kernel: str
    python: str
    revision: str
    """The measured commit, marked if the package has uncommitted changes."""
    load: float
    """Processes that wanted a core, on average over the minute before the run: what else was going on."""


def this_machine() -> Machine:
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return Machine(
        cpu=model[1] if model else platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        kernel=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        revision=_revision(),
        load=os.getloadavg()[0],
    )


def _revision() -> str:
    try:
        commit = _git("rev-parse", "--short", "HEAD").strip()
        return f"{commit} with changes" if _git("status", "--porcelain", "--", "mnemosyne") else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    root = Path(__file__).parent.parent
    return subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, check=True).stdout


def as_json(machine: Machine, date: str, rows: Sequence[Row]) -> str:
    """The whole run as one JSON object."""
    described = [{**attrs.asdict(row), "met": row.met} for row in rows]
    return json.dumps({"date": date, "machine": attrs.asdict(machine), "rows": described}, indent=2) + "\n"


def as_table(rows: Sequence[Row]) -> str:
    """The rows as a table in Markdown, its columns aligned for a terminal too."""
    cells = [("measured", "variant", "unit", "median", "p95", "p99", "n", "goal")]
    cells += [
        (
            row.name,
            row.variant,
            row.unit,
            _number(row.median),
            _number(row.p95),
            _number(row.p99),
            str(row.n),
            _goal(row),
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = ["| " + " | ".join(_aligned(line, widths)) + " |" for line in cells]
    rule = [
        "-" * width if column < 3 or column == 7 else "-" * (width - 1) + ":" for column, width in enumerate(widths)
    ]
    lines.insert(1, "| " + " | ".join(rule) + " |")
    return "\n".join(lines) + "\n"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        text.ljust(width) if column < 3 or column == 7 else text.rjust(width)
        for column, (text, width) in enumerate(zip(line, widths, strict=True))
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    if row.met:
        return f"≤ {row.goal:g}: met"
    return f"≤ {row.goal:g}: missed by {_number(row.median - row.goal)}"


def described(machine: Machine, date: str) -> str:
    """Machine and date, in one line."""
    return (
        f"{date}, commit {machine.revision}; {machine.cores} cores, {machine.cpu}; {machine.kernel}; {machine.python}; "
        f"load before the run {machine.load:.2f}"
    )


def write_results(file: Path, group: str, text: str) -> None:
    """Put ``text`` between the group's two marks in ``file``, and leave everything else as people wrote it."""
    begin, end = f"<!-- begin {group} -->", f"<!-- end {group} -->"
    held = file.read_text(encoding="utf-8")
    before, found, rest = held.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{file} has no place for {group!r}: add the lines {begin!r} and {end!r}.")
    file.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
