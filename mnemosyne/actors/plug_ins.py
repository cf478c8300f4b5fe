"""Runs a policy from the operator's own module.

It is foreign code: it may raise, hang, or return anything. Each call runs in a thread of its own and has a time limit;
a thread that exceeds it is abandoned, and at most ``MOST_THREADS`` may exist. After repeated failures the policy rests,
so that it does not delay every request.
"""

from collections.abc import Sequence

import trio

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.window.ages import Candidate
from mnemosyne.domain.window.planning import NoRewrite, Plan, Situation
from mnemosyne.domain.window.policies import PlugIn, PolicyFailed, guard

MOST_THREADS = 4

MOST_FAILURES, REST_SECONDS = 3, 60.0
"""After so many failures in a row, the policy is not asked for so long."""


class PlugInRunner:
    """Runs one policy for all sessions of a process."""

    def __init__(self, policy: PlugIn) -> None:
        self.policy = policy
        self._threads = trio.CapacityLimiter(MOST_THREADS)
        self._failures = 0
        self._rests_until = 0.0

    async def plan(self, situation: Situation, objects: Sequence[Candidate], seconds: float) -> Plan | NoRewrite:
        """The policy's plan, as far as the guard allows it. Raises PolicyFailed."""
        if trio.current_time() < self._rests_until:
            raise PolicyFailed(f"it rests after {MOST_FAILURES} failures in a row")
        try:
            plan = guard(situation, objects, await self._call(situation, tuple(objects), seconds))
        except PolicyFailed:
            self._note_failure()
            raise
        self._failures = 0
        return plan

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            self._failures, self._rests_until = 0, trio.current_time() + REST_SECONDS

    async def _call(self, situation: Situation, objects: tuple[Candidate, ...], seconds: float) -> Plan | None:
        if not self._threads.available_tokens:
            raise PolicyFailed(f"{MOST_THREADS} earlier calls have not returned")
        with trio.move_on_after(seconds):
            return await trio.to_thread.run_sync(
                lambda: self._run(situation, objects), abandon_on_cancel=True, limiter=self._threads
            )
        raise PolicyFailed(f"it took longer than {seconds:g} s")

    def _run(self, situation: Situation, objects: tuple[Candidate, ...]) -> Plan | None:
        try:
            plan = self.policy.planner(situation, lambda: objects)
            chosen = dict(plan.fidelities) if isinstance(plan, Plan) else {}
        except BaseException as error:  # SystemExit, too, must end no server; a PolicyFailed of its own is as foreign
            raise PolicyFailed(f"it raised {type(error).__name__}", _quote(error)) from None
        if plan is None:
            return None
        if not isinstance(plan, Plan):
            raise PolicyFailed(f"it returned {type(plan).__name__} instead of a Plan or None")
        if any(type(key) is not str or type(fidelity) is not Fidelity for key, fidelity in chosen.items()):
            raise PolicyFailed("its plan does not assign a Fidelity to the id of each object")
        # Without its reason, which could quote the session and would survive the session's erasure.
        return Plan(fidelities=chosen, reason="")


def _quote(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return ""
