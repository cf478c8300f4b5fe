"""Traffic counters for monitoring: replies, errors and time to first byte since the gateway started."""

import re
from collections import Counter
from itertools import accumulate

import attrs

FIRST_BYTE_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
"""Bucket bounds in seconds. A model usually starts within a few seconds; beyond a minute it probably hangs."""

_WORD = re.compile("(?<!^)(?=[A-Z])")


@attrs.define
class Waits:
    """A histogram of durations, and their sum in seconds."""

    counts: list[int] = attrs.field(factory=lambda: [0] * (len(FIRST_BYTE_BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Add one duration."""
        self.counts[sum(seconds > bound for bound in FIRST_BYTE_BOUNDS)] += 1
        self.seconds += seconds

    @property
    def buckets(self) -> list[tuple[str, int]]:
        """The cumulative count of each bound; the last counts all."""
        return list(zip((*map(str, FIRST_BYTE_BOUNDS), "+Inf"), accumulate(self.counts), strict=True))


@attrs.define
class Traffic:
    """Replies by (dialect, status), the proxy's errors by kind, time to first byte by dialect. Requests that are not
    turns have the dialect ``other``. Byte counts are of bodies.
    """

    replies: Counter[tuple[str, int]] = attrs.field(factory=Counter)
    errors: Counter[str] = attrs.field(factory=Counter)
    first_byte: dict[str, Waits] = attrs.field(factory=dict)
    request_bytes: int = 0
    reply_bytes: int = 0

    def note_reply(self, dialect: str, status: int, seconds: float) -> None:
        """Count a reply that begins ``seconds`` after its request was complete."""
        self.replies[dialect, status] += 1
        self.first_byte.setdefault(dialect, Waits()).add(seconds)

    def note_error(self, error: Exception) -> None:
        """Count a request that got no reply or an incomplete one."""
        self.errors[_WORD.sub("_", type(error).__name__).lower()] += 1
