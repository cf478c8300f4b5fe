"""Time limits for any input of a target."""

import time

from campaigns.fuzz.targets import FuzzTarget

SECONDS, SECONDS_PER_KB = 2.0, 0.1
"""Of processor time, with instrumented code, which takes several times as long; what takes n² steps takes minutes."""


def within_bounds(target: FuzzTarget, data: bytes) -> None:
    """Run a target once. Raises AssertionError if it takes too long."""
    began = time.thread_time()
    target.run(data)
    took = time.thread_time() - began
    assert took < SECONDS + SECONDS_PER_KB * len(data) / 1_000, f"{took:.1f} s for {len(data):,} bytes"
