"""A shared memory budget for request bodies that are still arriving."""

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from mnemosyne.errors import TooMuchAtOnce

MOST_BYTES = 256 * 1024 * 1024
"""The budget in bytes. The longest prompts have about ten megabytes and arrive within a second."""

PIECE = 256
"""Overhead of a piece, in bytes."""

STALLED_SECONDS = 60.0
"""A body is dropped when nothing of it arrives for this long."""


@attrs.define
class Unfinished:
    """The memory budget of all unfinished bodies. A single body may exceed it up to the maximum body size."""

    most: int = MOST_BYTES
    held: int = 0

    @property
    def is_full(self) -> bool:
        """Whether a new body would be refused."""
        return self.held + PIECE > self.most

    @contextmanager
    def body(self) -> Iterator["Part"]:
        """Hold the memory of one body while the context is open."""
        part = Part(self)
        try:
            yield part
        finally:
            self.held -= part.held


@attrs.define
class Part:
    """The memory held by one body."""

    _room: Unfinished
    held: int = 0

    def take(self, size: int) -> None:
        """Add a piece of ``size`` bytes. Raises TooMuchAtOnce if the other bodies leave no room for it."""
        size += PIECE
        others = self._room.held - self.held
        if others > 0 and self._room.held + size > self._room.most:
            raise TooMuchAtOnce(
                f"unfinished request bodies hold {self._room.held} bytes; the limit is {self._room.most}. "
                "Try again in a moment; if this persists, a client sends large requests without finishing them."
            )
        self._room.held += size
        self.held += size
