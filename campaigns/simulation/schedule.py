r"""A deterministic trio run: one seed draws the order of ready tasks, time jumps to the next deadline when none is
ready, and threads work in the loop, with a random delay.

Such a run must not wait for a socket, file or real thread.
"""

import gc
import itertools
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, TypeVar

import attrs
import pytest
import trio
import trio._core._run as scheduler

from mnemosyne.actors import epochs, threads

Made = TypeVar("Made")

TAIL = 400
"""So many steps are told of a run that fails."""

TICKS = (1e-6, 1e-4, 1e-3)
"""Seconds that pass when a clock is looked at: how fast the machine is."""

THREAD_SECONDS = (0.0, 0.0, 0.001, 0.02, 0.4)
"""How long a thread may take for a piece of work."""

LOOKS = 1_000
"""How often trio's own socket is looked at, where nothing else can wake anybody."""

LARGE = (1_000, 8_000, threads.LARGE)
"""From how many bytes on threads are used."""


class Deadlock(AssertionError):
    """Every task waits for another one, forever."""


@attrs.define(eq=False)
class VirtualClock(trio.abc.Clock):
    """Seconds from 0. Each reading advances it a little; it jumps to the next deadline when nothing is ready."""

    tick: float
    stand_still: Callable[[], None] = lambda: None
    """Called when nothing is ready, and nothing ever will be."""
    _now: float = 0.0
    _waits: int = 0

    def start_clock(self) -> None:
        """Nothing to do."""

    def current_time(self) -> float:
        self._now += self.tick
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """None: the loop asks when nothing is ready, and then that time is reached."""
        if deadline == math.inf:  # trio's own tasks may be woken by its own socket at once
            self._waits += 1
            if self._waits == LOOKS:
                self.stand_still()
            return 0.0
        self._waits = 0
        self._now = max(self._now, deadline)
        return 0.0


@attrs.define(eq=False)
class Trace(trio.abc.Instrument):
    """The steps of all tasks in order. ``check`` is called after each step."""

    clock: VirtualClock
    check: Callable[[], None] = lambda: None
    steps: int = 0
    tail: deque[tuple[float, int, str]] = attrs.field(factory=lambda: deque(maxlen=TAIL))
    _hash: Any = attrs.field(factory=lambda: blake2b(digest_size=8))
    _numbers: dict[int, int] = attrs.field(factory=dict)
    _count: Iterator[int] = attrs.field(factory=itertools.count)

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self._numbers[id(task)] = next(self._count)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._numbers.pop(id(task), None)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        number = self._numbers.get(id(task), -1)
        self.steps += 1
        self.tail.append((self.clock._now, number, task.name))
        self._hash.update(b"%d %.6f;" % (number, self.clock._now))

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.check()

    def record(self, what: str) -> None:
        """Record an action in this step that is not a task event."""
        self.tail.append((self.clock._now, -1, what))
        self._hash.update(what.encode())

    @property
    def digest(self) -> str:
        found: str = self._hash.hexdigest()
        return found


@attrs.frozen
class SeededRun:
    chance: random.Random
    clock: VirtualClock
    trace: Trace

    def run(self, main: Callable[[], Awaitable[Made]]) -> Made:
        """Run it completely, in this thread. Raises Deadlock."""

        async def run_or_stop() -> Made:
            with trio.CancelScope() as scope:
                self.clock.stand_still = scope.cancel
                return await main()
            raise Deadlock("every task waits for another one")

        with _seeded(self.chance):
            return trio.run(run_or_stop, clock=self.clock, instruments=[self.trace])


def make_run(seed: int) -> SeededRun:
    chance = random.Random(seed)
    clock = VirtualClock(chance.choice(TICKS))
    return SeededRun(chance, clock, Trace(clock))


@contextmanager
def _seeded(chance: random.Random) -> Iterator[None]:
    before = scheduler._r.getstate()
    collects = gc.isenabled()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        patch.setattr(trio.to_thread, "run_sync", _threads_of(random.Random(chance.random())))
        large = chance.choice(LARGE)
        patch.setattr(threads, "LARGE", large)
        patch.setattr(epochs, "LARGE", large)
        scheduler._r.seed(chance.random())
        gc.disable()  # closing a collected generator is a step, too
        try:
            yield
        finally:
            scheduler._r.setstate(before)
            if collects:
                gc.enable()


def _threads_of(chance: random.Random) -> Callable[..., Awaitable[Any]]:
    async def run_sync(
        work: Callable[..., Any],
        *given: Any,
        thread_name: str | None = None,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> Any:
        async with limiter or trio.CapacityLimiter(1):
            await trio.lowlevel.checkpoint_if_cancelled()
            with trio.CancelScope(shield=not abandon_on_cancel):
                await trio.sleep(chance.choice(THREAD_SECONDS))
            return work(*given)

    return run_sync
