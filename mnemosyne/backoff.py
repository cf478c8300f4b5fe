"""How long to wait before what failed is tried again."""

from collections.abc import Iterator


def backoff(first: float, longest: float) -> Iterator[float]:
    """Pauses in seconds without end: ``first``, then twice the one before, up to ``longest``."""
    pause = min(first, longest)
    while True:
        yield pause
        pause = min(2 * pause, longest)
