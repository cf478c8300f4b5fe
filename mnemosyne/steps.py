"""Long work in steps, so that the caller can do other work in between."""

from collections.abc import Generator, Iterable
from typing import TypeAlias, TypeVar

Made = TypeVar("Made")
Item = TypeVar("Item")

Steps: TypeAlias = Generator[None, None, Made]
"""Work that yields control between steps, and returns its result."""


def finish(steps: Steps[Made]) -> Made:
    """Run all steps without a pause, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: Made = done.value
            return made


def collect(items: Iterable[Item]) -> Steps[tuple[Item, ...]]:
    """All items, one a step."""
    found = []
    for item in items:
        found.append(item)
        yield
    return tuple(found)
