"""What passed through the gateway since it started, counted for a monitor: replies, what went wrong, how long clients
waited for the first byte.
"""

import re
from collections import Counter
from itertools import accumulate

import attrs

FIRST_BYTE_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
"""Upper bounds in seconds. A model begins within some seconds; what is beyond a minute hangs."""

_WORD = re.compile("(?<!^)(?=[A-Z])")


@attrs.define
class Waits:
    """How often something took up to each of the bounds, and how long it took together, in seconds."""

    counts: list[int] = attrs.field(factory=lambda: [0] * (len(FIRST_BYTE_BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[sum(seconds > bound for bound in FIRST_BYTE_BOUNDS)] += 1
        self.seconds += seconds

    @property
    def buckets(self) -> list[tuple[str, int]]:
        """How many took at most each bound; the last is all of them."""
        return list(zip((*map(str, FIRST_BYTE_BOUNDS), "+Inf"), accumulate(self.counts), strict=True))


@attrs.define
class Traffic:
    """The counts: replies by (dialect, status), errors of ours by their kind, waits for the first byte by dialect. What
    is no turn has the dialect ``other``. Bytes are those of bodies.
    """

    replies: Counter[tuple[str, int]] = attrs.field(factory=Counter)
    errors: Counter[str] = attrs.field(factory=Counter)
    first_byte: dict[str, Waits] = attrs.field(factory=dict)
    request_bytes: int = 0
    reply_bytes: int = 0

    def note_reply(self, dialect: str, status: int, seconds: float) -> None:
        """A reply begins, so many seconds after its request was there."""
        self.replies[dialect, status] += 1
        self.first_byte.setdefault(dialect, Waits()).add(seconds)

    def note_error(self, error: Exception) -> None:
        """A request was not answered, or not whole."""
        self.errors[_WORD.sub("_", type(error).__name__).lower()] += 1
