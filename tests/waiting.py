"""Waiting without a clock for other tasks of the test's own loop."""

from collections.abc import Callable

import attrs
import trio

DEADLINE = 120
"""Seconds; long enough for any event on a busy machine."""

LOOKS = 100
"""The maximum number of times that a test reads the log of another process until it is complete."""

PATIENT = {"MNEMOSYNE_PATIENCE": "60"}
"""The environment of a server under test: even on a busy machine, its turns are managed, and recorded before their
replies end.
"""

IMPATIENT = ("--patience", "1")
"""The options of a server with the usual patience, for tests of what it does when that runs out."""


@attrs.frozen
class _AfterEachStep(trio.abc.Instrument):
    """Sets an event as soon as a step of any task has made the condition true."""

    condition: Callable[[], bool]
    holds: trio.Event = attrs.field(factory=trio.Event)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.condition():
            self.holds.set()


async def until(condition: Callable[[], bool]) -> None:
    r"""Wait until a task of this loop makes a condition true; it is checked after every step of any task.

    Raises trio.TooSlowError if none does.
    """
    steps = _AfterEachStep(condition)
    trio.lowlevel.add_instrument(steps)
    try:
        with trio.fail_after(DEADLINE):
            if not condition():
                await steps.holds.wait()
    finally:
        trio.lowlevel.remove_instrument(steps)
