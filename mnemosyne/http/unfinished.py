"""Bodies that have begun to come and are not whole: how much of them is held, all connections together."""

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from mnemosyne.errors import TooMuchAtOnce

MOST_BYTES = 256 * 1024 * 1024
"""Bytes of unfinished bodies. The longest prompts have some ten megabytes, and come whole within a second."""

PIECE = 256
"""Bytes that a piece takes besides its own."""

STALLED_SECONDS = 60.0
"""So long nothing may come of a body; then its room is another's."""


@attrs.define
class Unfinished:
    """The room for all of them. A body that is alone may take as much as the largest one may."""

    most: int = MOST_BYTES
    held: int = 0
    let_go: int = 0
    """How many never became whole."""

    @property
    def is_full(self) -> bool:
        """Whether a body that begins now is refused."""
        return self.held + PIECE > self.most

    @contextmanager
    def body(self) -> Iterator["Part"]:
        """The room of one body, for as long as the block runs."""
        part = Part(self)
        try:
            yield part
        except BaseException:
            self.let_go += 1
            raise
        finally:
            self.held -= part.held


@attrs.define
class Part:
    """What one body takes."""

    _room: Unfinished
    held: int = 0

    def take(self, size: int) -> None:
        """A piece of ``size`` bytes came. Raises TooMuchAtOnce where there is no room for it beside the others."""
        size += PIECE
        others = self._room.held - self.held
        if others > 0 and self._room.held + size > self._room.most:
            raise TooMuchAtOnce(
                f"requests that are still being sent hold {self._room.held} bytes, and {self._room.most} is the most. "
                "Try again in a moment; if this stays, something sends large requests and does not finish them."
            )
        self._room.held += size
        self.held += size
