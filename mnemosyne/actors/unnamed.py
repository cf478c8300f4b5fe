"""The sessions that their clients do not name, by how far their histories have come: so that a request is put to the
one that it goes on from, and not to all that began with the same words.
"""

from collections.abc import Iterator, Sequence

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.transcript import Transcript

BYTES_HELD = 8 * 1024 * 1024
"""How much is kept of such sessions' last bodies, to read the next one cheaply."""

HISTORIES_HELD = 4096
"""Of how many histories it is remembered which sessions have come so far."""

EQUAL_HELD = 64
"""How many sessions are remembered that have come as far with the same words; the newest of them."""


@attrs.frozen
class UnnamedSessions:
    """Those of which this process has seen requests, by their names of ours."""

    _bodies: Lru[str, Transcript] = attrs.field(factory=lambda: Lru(BYTES_HELD, _size), init=False)
    _at: Lru[bytes, tuple[str, ...]] = attrs.field(factory=lambda: Lru(HISTORIES_HELD), init=False)
    """By the chain of a history, those that have come so far; the newest first."""
    _reached: Lru[str, bytes] = attrs.field(factory=lambda: Lru(HISTORIES_HELD), init=False)

    def find_nearest(self, raw: bytes) -> Transcript | None:
        """The last body that begins most like this one, of those that are held."""
        return max(self._bodies.values(), key=lambda each: recipe.common_prefix(each.raw, raw), default=None)

    def find_before(self, chains: Sequence[bytes]) -> Iterator[str]:
        """The sessions that have come as far as one of these histories; the longest first, and of equals the newest."""
        for each in reversed(chains):
            yield from self._at.get(each) or ()

    def note(self, name: str, read: Transcript, reached: bytes) -> None:
        """A request of a session, whose history is ``reached``."""
        self._bodies.put(name, read)
        before = self._reached.get(name)
        if before is not None:
            self._at.put(before, tuple(each for each in self._at.get(before) or () if each != name))
        others = tuple(each for each in self._at.get(reached) or () if each != name)
        self._at.put(reached, (name, *others)[:EQUAL_HELD])
        self._reached.put(name, reached)


def _size(read: Transcript) -> int:
    return len(read.raw)
