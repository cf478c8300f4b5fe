"""Runs the pairs of a trial, one run after the other, as long as its budget lasts; and describes what each changed."""

import difflib
import filecmp
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import attrs

from mnemosyne import credentials
from mnemosyne.figures import amount_text
from mnemosyne_lab.trial.tasks import PlannedRun, RunResult

SHOWN_BYTES = 65_536
"""Bytes at the end of a command's output that are searched for its cost."""

LONGEST_OUTPUT = 4_000
"""Maximum length in characters of the end of a command's output that is kept."""

_COST = re.compile(r'"total_cost_usd"\s*:\s*([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)')


@attrs.frozen(kw_only=True)
class Arm:
    """One way of a trial: the base ``url`` of its provider, and the variables that only its runs get, such as a key."""

    url: str
    environ: Mapping[str, str] = attrs.field(factory=dict, repr=False)


def run_pairs(
    pairs: Iterable[tuple[PlannedRun, PlannedRun]],
    done: Iterable[RunResult],
    run: Callable[[PlannedRun], RunResult],
    add: Callable[[RunResult], None],
    budget: float | None,
) -> str | None:
    """Run the missing runs pair by pair and ``add`` each result. The reason for an early end; None once all are done.

    A pair starts only if the money spent and the dearest pair so far fit into the ``budget`` (dollars); a started pair
    is finished. A run without a known cost ends a trial with a budget.
    """
    results = {(each.pair, each.arm): each for each in done}
    for pair in pairs:
        missing = [each for each in pair if (each.pair, each.arm) not in results]
        if missing and budget is not None:
            stopped = _why_stop(results.values(), budget)
            if stopped is not None:
                return stopped
        for each in missing:
            result = run(each)
            add(result)
            results[each.pair, each.arm] = result
    return None


def _why_stop(results: Iterable[RunResult], budget: float) -> str | None:
    spent: dict[str, float] = {}
    for each in results:
        if each.dollars is None:
            return f"{each.pair} did not say what it cost, so the budget cannot be kept"
        spent[each.pair] = spent.get(each.pair, 0.0) + each.dollars
    total, dearest = sum(spent.values()), max(spent.values(), default=0.0)
    if total + dearest > budget:
        return f"{amount_text(total)} were spent, and another pair may cost {amount_text(dearest)}"
    return None


def run_task(
    planned: PlannedRun, arms: Mapping[str, Arm], environ: Mapping[str, str], price: float | None
) -> RunResult:
    """Run a task's command and then its check in a fresh copy of its folder, which is removed afterwards. ``price`` is
    the cost in dollars of a run that reports none. The texts in the result do not tell the arm: addresses, folder and
    run are replaced.
    """
    arm = arms[planned.arm]
    with tempfile.TemporaryDirectory(prefix="mnemosyne-trial-", ignore_cleanup_errors=True) as place:
        folder = Path(place) / "work"
        if planned.task.folder is None:
            folder.mkdir()
        else:
            shutil.copytree(planned.task.folder, folder, symlinks=True)
        run = f"{planned.pair} {planned.arm}"
        given = {**environ, **_addresses(arm.url), **arm.environ, "MNEMOSYNE_TRIAL_RUN": run}
        hidden = dict.fromkeys(_addresses(arm.url).values(), "PROVIDER") | {place: "FOLDER", run: "RUN"}
        output = Path(place) / "output"
        began = time.monotonic()
        code = _run(planned.task.command, folder, given, planned.task.seconds, output)
        seconds = time.monotonic() - began
        said, changes = _read_end(output), describe_changes(planned.task.folder, folder)
        costs = _COST.findall(said)
        check = _run(planned.task.check, folder, dict(environ), planned.task.seconds, Path(place) / "check")
    return RunResult(
        pair=planned.pair,
        arm=planned.arm,
        first=planned.first,
        passed=check == 0,
        exit=code,
        seconds=round(seconds, 3),
        dollars=float(costs[-1]) if costs else price,
        stopped=code is None,
        changes=_hide(changes, hidden),
        output=_hide(said, hidden)[-LONGEST_OUTPUT:],
    )


def _hide(text: str, hidden: Mapping[str, str]) -> str:
    for each, name in hidden.items():
        text = text.replace(each, name)
    return credentials.mask(text)


def _addresses(url: str) -> Mapping[str, str]:
    """Environment variables with the provider's address, which may end in ``/v1``. The longest one is the first."""
    base = url.rstrip("/").removesuffix("/v1")
    return {"OPENAI_BASE_URL": f"{base}/v1", "ANTHROPIC_BASE_URL": base}


def _run(command: str, folder: Path, environ: Mapping[str, str], seconds: float, output: Path) -> int | None:
    """The exit code of a command in a shell; None where it took too long. Nothing of it goes on afterwards."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read_end(output: Path) -> str:
    """The end of a command's output. Claude Code prints its cost there with ``--output-format json``."""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - SHOWN_BYTES))
        return file.read().decode(errors="replace")


# The changes of a run to its folder, as a text

LONGEST_CHANGES, LONGEST_CHANGE = 12_000, 5_000
"""Maximum length in characters of the changes of all files, and of one."""

LARGEST, MOST_FILES = 200_000, 20_000
"""Maximum size in bytes of a file whose changes are shown, and maximum number of files that are compared."""

_REPOSITORY = ".git"


def describe_changes(before: Path | None, after: Path) -> str:
    """The differences of a folder from the one that it is a copy of, or from an empty one: changed files first, then
    removed and new ones. Links and git's own files are ignored; large and binary files have their size only.
    """
    try:
        return _describe_all(before, after)
    except OSError as error:
        return f"The files cannot be read: {error.strerror or error}."


def _describe_all(before: Path | None, after: Path) -> str:
    old, new = {} if before is None else _list_files(before), _list_files(after)
    changed = [name for name in old.keys() & new.keys() if not filecmp.cmp(old[name], new[name])]
    parts: list[str] = []
    for name in (*sorted(changed), *sorted(old.keys() - new.keys()), *sorted(new.keys() - old.keys())):
        part = "\n".join(_describe(name, old.get(name), new.get(name)))[:LONGEST_CHANGE]
        if sum(map(len, parts)) + len(part) > LONGEST_CHANGES:
            part = f"{name}: {'changed' if name in old and name in new else 'new' if name in new else 'removed'}"
        parts.append(part)
    return "\n".join(parts)[:LONGEST_CHANGES]


def _list_files(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != _REPOSITORY)
        for name in sorted(names):
            path = Path(place) / name
            if len(found) < MOST_FILES and path.is_file() and not path.is_symlink():
                found[str(path.relative_to(folder)).encode("utf-8", "replace").decode()] = path
    return found


def _describe(name: str, before: Path | None, after: Path | None) -> Iterator[str]:
    old, new = (_read(path) for path in (before, after))
    if old is None or new is None:
        size = "removed" if after is None else f"{after.stat().st_size:,} bytes"
        yield f"{name}: {size}"
        return
    one, other = (name if path else "/dev/null" for path in (before, after))
    yield from difflib.unified_diff(old.splitlines(), new.splitlines(), one, other, n=2, lineterm="")


def _read(path: Path | None) -> str | None:
    """The text of a file, empty if there is none; None if it is large, binary or unreadable."""
    try:
        return "" if path is None else path.read_text("utf-8") if path.stat().st_size <= LARGEST else None
    except (OSError, ValueError):
        return None
