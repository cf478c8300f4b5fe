"""Simulation of one branch of an exported session under a policy, for the what-if page."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mnemosyne.app.storage import event_codec
from mnemosyne.errors import MnemosyneError, NotFound
from mnemosyne.services.simulated import SimulatedBranch, SimulatedTurn, write_branch
from mnemosyne_lab.evaluation.exports import conversations
from mnemosyne_lab.evaluation.policies import POLICIES
from mnemosyne_lab.evaluation.policy import Settings
from mnemosyne_lab.evaluation.reading import read
from mnemosyne_lab.evaluation.results import SessionResult
from mnemosyne_lab.evaluation.running import RunPlan, evaluate_recordings
from mnemosyne_lab.evaluation.trace import Trace


def list_policies() -> Mapping[str, str]:
    """The descriptions of the built-in policies by name, without those that know the future."""
    return {policy.name: policy.about for policy in POLICIES if policy.for_trace is None}


def simulate_branch(path: Path, branch: str, policy: str) -> SimulatedBranch:
    """Simulate a branch of a session's export. Raises NotFound if the branch is no conversation, BadOption for an
    unknown policy.
    """
    recordings = read([path], partial(conversations, codec=event_codec()))
    told = [each for each in recordings if isinstance(each, Trace)]
    recording = next((each for each in told if each.name.endswith(f" {branch}")), None)
    if recording is None:
        raise NotFound(f"Branch {branch!r} is no conversation of an agent, so no policy can be tried on it.")
    asked = RunPlan(policies=[policy], settings=Settings(), model=None)
    found = evaluate_recordings([recording], asked, progress=lambda done, turns: None)
    (judged,) = [each for each in found.policies if each.name == policy]
    (session,) = judged.sessions
    return SimulatedBranch(
        policy=policy,
        about=judged.about,
        turns=_turns(session),
        nanodollars=session.nanodollars,
        nanodollars_unmanaged=session.nanodollars_unmanaged,
        verdict=found.verdict or "",
    )


def _turns(session: SessionResult) -> list[SimulatedTurn]:
    rewritten = {epoch.turn for epoch in session.epochs}
    return [
        SimulatedTurn(turn=each.turn, fixed=each.fixed, held=each.resident, is_rewritten=each.turn in rewritten)
        for each in session.points
    ]


COMMAND = (sys.executable, "-P", "-m", "mnemosyne_lab.evaluation.simulating")
"""The command that simulates a branch in a process of its own: FILE BRANCH POLICY."""

NICE = 10
"""The niceness of a simulation, so that it does not slow the server."""


def main(arguments: Sequence[str]) -> int:
    """Print the result as JSON, or the error; return the exit code."""
    file, branch, policy = arguments
    try:
        found = simulate_branch(Path(file), branch, policy)
    except MnemosyneError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(write_branch(found))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    os.nice(NICE)
    sys.exit(main(sys.argv[1:]))
