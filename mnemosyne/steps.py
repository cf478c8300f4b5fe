"""Long work in steps: whoever has it done may do something else between two of them."""

from collections.abc import Generator, Iterable
from typing import TypeAlias, TypeVar

Made = TypeVar("Made")
Item = TypeVar("Item")

Steps: TypeAlias = Generator[None, None, Made]
"""Work that gives way now and then, and returns what it makes."""


def finish(steps: Steps[Made]) -> Made:
    """What the steps make, done without a pause."""
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
