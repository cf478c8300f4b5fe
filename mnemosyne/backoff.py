"""Pauses between retries."""

from collections.abc import Iterator


def backoff(first: float, longest: float) -> Iterator[float]:
    """Endless pauses in seconds: ``first``, then twice the previous one, up to ``longest``."""
    pause = min(first, longest)
    while True:
        yield pause
        pause = min(2 * pause, longest)
