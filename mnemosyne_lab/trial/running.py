"""Runs the pairs of a trial, one run after the other, as long as its budget lasts."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import attrs

from mnemosyne import credentials
from mnemosyne.figures import amount_text
from mnemosyne_lab.trial.endings import describe_changes
from mnemosyne_lab.trial.record import RunResult
from mnemosyne_lab.trial.tasks import PlannedRun

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
