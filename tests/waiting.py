"""Waiting without a clock for other tasks of the test's own loop."""

from collections.abc import Callable

import attrs
import trio

DEADLINE = 120
"""Seconds after which what a test waits for will not come any more, however busy the machine is."""

LOOKS = 100
"""How often the log of another process is looked at until all is there; each look takes a while by itself."""

PATIENT = {"MNEMOSYNE_PATIENCE": "60"}
"""The environment of a server that a test talks to: however busy the machine is, its turns are managed and on record
when they are answered, as they are on a quiet one.
"""

IMPATIENT = ("--patience", "1")
"""The options of one that has no more than usual, where a test is about what it does without."""


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
