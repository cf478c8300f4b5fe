"""One branch of an exported session under one policy, for the page that asks what if."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from mnemosyne.app.storage import event_codec
from mnemosyne.errors import MnemosyneError, NotFound
from mnemosyne.services.conversations import conversations
from mnemosyne.services.simulated import SimulatedBranch, SimulatedTurn, write_branch, write_step
from mnemosyne_lab.evaluation.policies import POLICIES
from mnemosyne_lab.evaluation.policy import Settings
from mnemosyne_lab.evaluation.reading import RecordedSession, read
from mnemosyne_lab.evaluation.results import SessionResult
from mnemosyne_lab.evaluation.running import RunPlan, evaluate_recordings


def list_policies() -> Mapping[str, str]:
    """What each of our policies does, by its name; without those that know the future."""
    return {policy.name: policy.about for policy in POLICIES if policy.for_trace is None}


def simulate_branch(path: Path, branch: str, policy: str, progress: Callable[[int, int], None]) -> SimulatedBranch:
    """The branch of a session's export under a policy. ``progress`` is told how many turns are done, and of how many.
    Raises NotFound for a branch that is no conversation, BadOption for a policy that there is not.
    """
    recordings = read([path], partial(conversations, codec=event_codec()))
    told = [each for each in recordings if isinstance(each, RecordedSession)]
    recording = next((each for each in told if each.name.endswith(f" {branch}")), None)
    if recording is None:
        raise NotFound(f"Branch {branch!r} is no conversation of an agent, so no policy can be tried on it.")
    asked = RunPlan(policies=[policy], settings=Settings(), model=None)
    found = evaluate_recordings([recording], asked, progress=progress)
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
"""What simulates a branch in a process of its own: FILE BRANCH POLICY."""

NICE = 10
"""So much more patient than a server is whoever simulates."""


def main(arguments: Sequence[str]) -> int:
    """Print how far a simulation is and then what it came to, as lines of JSON, or why there is none; the exit code."""
    file, branch, policy = arguments
    try:
        found = simulate_branch(Path(file), branch, policy, lambda done, turns: _say(write_step(done, turns)))
    except MnemosyneError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(write_branch(found))
    return 0


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    os.nice(NICE)
    sys.exit(main(sys.argv[1:]))
