"""Runs of a trial: each in a folder of its own, none beyond its time limit, and no pair beyond the budget."""

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest

from mnemosyne_lab.trial.running import Arm, run_pairs, run_task
from mnemosyne_lab.trial.tasks import PlannedRun, RunResult, TrialTask, order_runs

ARMS = {"with": Arm(url="http://ours/", environ={"KEY": "own"}), "without": Arm(url="http://theirs")}
TASK = TrialTask(name="t", command="true", check="true", folder=None, seconds=60)


def done(task: TrialTask, arm: str = "with", price: float | None = None) -> RunResult:
    return run_task(PlannedRun("t/1", task, arm, True), ARMS, {"PATH": os.environ["PATH"]}, price)


@pytest.mark.parametrize(
    ("arm", "said"), [("with", "http://ours http://ours/v1 own"), ("without", "http://theirs http://theirs/v1 ")]
)
def test_command_gets_its_provider_and_the_environment_of_its_arm_only(arm: str, said: str) -> None:
    command = 'echo "$ANTHROPIC_BASE_URL $OPENAI_BASE_URL $KEY" > told'
    task = attrs.evolve(TASK, command=command, check=f'test "$(cat told)" = {shlex.quote(said)}')
    assert done(task, arm).passed


def test_each_run_has_a_copy_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("as it was")
    task = attrs.evolve(
        TASK, folder=tmp_path, command="test ! -e new && echo changed > here && touch new", check="grep -q changed here"
    )
    assert [done(task).passed, done(task).passed] == [True, True]
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("here", "as it was")]


def test_check_decides_and_not_the_command() -> None:
    failed = done(attrs.evolve(TASK, command="exit 3"))
    assert (failed.passed, failed.exit, failed.stopped) == (True, 3, False)
    assert not done(attrs.evolve(TASK, check="exit 1")).passed


def test_run_beyond_its_time_is_stopped_with_all_its_processes(tmp_path: Path) -> None:
    """A command may leave programs running, even when it has ended."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    forever = f"exec {shlex.quote(sys.executable)} -c 'import signal; signal.pause()' > {pipe}"
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    stopped = done(attrs.evolve(TASK, command=f"({forever}) & {forever}", seconds=0.3))
    assert (stopped.exit, stopped.stopped) == (None, True)
    ended = done(attrs.evolve(TASK, command=f"({forever}) & true"))
    assert (ended.exit, ended.stopped) == (0, False)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"", "somebody still holds the pipe"
    os.close(reader)


@pytest.mark.parametrize(
    ("said", "price", "dollars"),
    [
        ('{"total_cost_usd": 0.25}', None, 0.25),
        ('{"total_cost_usd": 9}\n{"total_cost_usd":1.5e-3,"x":1}', 7.0, 0.0015),
        ("done", 7.0, 7.0),
        ("done", None, None),
        ('"total_cost_usd": "lots"', None, None),
    ],
)
def test_cost_of_a_run_is_its_last_reported_one(said: str, price: float | None, dollars: float | None) -> None:
    assert done(attrs.evolve(TASK, command=f"printf '%s' {shlex.quote(said)}"), price=price).dollars == dollars


def test_result_keeps_changes_and_output_without_what_tells_the_arm() -> None:
    """Neither its provider's address nor its folder or name, and no credential."""
    key = "sk-ant-api03-" + "Ab3" * 20
    command = f'echo "$OPENAI_BASE_URL {key}" > new; pwd; echo "$ANTHROPIC_BASE_URL/models $MNEMOSYNE_TRIAL_RUN"'
    found = [done(attrs.evolve(TASK, command=command), arm) for arm in ("with", "without")]
    assert {(each.changes, each.output) for each in found} == {(found[0].changes, found[0].output)}
    assert found[0].output == "FOLDER/work\nPROVIDER/models RUN\n"
    assert "+PROVIDER" in (found[0].changes or "")
    assert key not in (found[0].changes or "")


def test_provider_s_address_may_end_in_its_version() -> None:
    arms = {"with": Arm(url="http://127.0.0.1:8080/v1/")}
    task = attrs.evolve(
        TASK, command='echo "$ANTHROPIC_BASE_URL $OPENAI_BASE_URL" > told', check="grep -q '0 .*0/v1$' told"
    )
    assert run_task(PlannedRun("t/1", task, "with", True), arms, {"PATH": os.environ["PATH"]}, None).passed


PAIRS = order_runs([TASK, attrs.evolve(TASK, name="u")], 2, seed=3)


def cost(dollars: float | None) -> "tuple[list[RunResult], Counting]":
    added: list[RunResult] = []
    return added, Counting(dollars, added)


@attrs.define
class Counting:
    """Runs of this cost each."""

    dollars: float | None
    added: list[RunResult]

    def run(self, planned: PlannedRun) -> RunResult:
        return RunResult(
            pair=planned.pair,
            arm=planned.arm,
            first=planned.first,
            passed=True,
            exit=0,
            seconds=0,
            dollars=self.dollars,
        )

    def run_trial(self, budget: float | None, done: Iterable[RunResult] = ()) -> str | None:
        return run_pairs(PAIRS, done, self.run, self.added.append, budget)


def test_no_pair_is_started_that_may_exceed_the_budget() -> None:
    """Two pairs at $1 each fit into $2.50, and a third would not; the next trial continues from there."""
    added, counting = cost(0.5)
    assert counting.run_trial(2.5) == "$2.00 were spent, and another pair may cost $1.00"
    assert len(added) == 4
    assert counting.run_trial(4.0, tuple(added)) is None
    assert [(each.pair, each.arm) for each in added] == [(run.pair, run.arm) for pair in PAIRS for run in pair]


def test_incomplete_pair_is_completed_by_its_missing_run_only() -> None:
    added, counting = cost(0.5)
    first, second = PAIRS[0]
    counting.run_trial(None, [counting.run(first)])
    assert (added[0].pair, added[0].arm) == (second.pair, second.arm)
    assert len(added) == 7


def test_budget_without_costs_does_not_apply() -> None:
    added, counting = cost(None)
    assert counting.run_trial(9.0) == f"{PAIRS[0][0].pair} did not say what it cost, so the budget cannot be kept"
    assert len(added) == 2
    assert counting.run_trial(None, tuple(added)) is None
