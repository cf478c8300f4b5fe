"""The sessions without a client name, by the history that they have reached, so that a request is compared with the
session that it continues and not with all that began with the same messages.
"""

from collections.abc import Iterator, Sequence

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.transcript import Transcript

BYTES_HELD = 8 * 1024 * 1024
"""Size in bytes of the cached last bodies, against which the next one is parsed."""

HISTORIES_HELD = 4096
"""Number of histories whose sessions are remembered."""

EQUAL_HELD = 64
"""Number of sessions remembered for one history, the newest."""


@attrs.frozen
class UnnamedSessions:
    """The unnamed sessions of which this process has seen requests, by the names that the proxy gave them."""

    _bodies: Lru[str, Transcript] = attrs.field(factory=lambda: Lru(BYTES_HELD, lambda read: len(read.raw)), init=False)
    _at: Lru[bytes, tuple[str, ...]] = attrs.field(factory=lambda: Lru(HISTORIES_HELD), init=False)
    """The sessions that reached a history, by its chain hash, newest first."""
    _reached: Lru[str, bytes] = attrs.field(factory=lambda: Lru(HISTORIES_HELD), init=False)

    def find_nearest(self, raw: bytes) -> Transcript | None:
        """The cached last body that shares the longest prefix with this one."""
        return max(self._bodies.values(), key=lambda each: recipe.common_prefix(each.raw, raw), default=None)

    def find_before(self, chains: Sequence[bytes]) -> Iterator[str]:
        """The sessions that reached one of these histories: the longest history first, then the newest session."""
        for each in reversed(chains):
            yield from self._at.get(each) or ()

    def note(self, name: str, read: Transcript, reached: bytes) -> None:
        """Record a request of a session, whose history is now ``reached``."""
        self._bodies.put(name, read)
        before = self._reached.get(name)
        if before is not None:
            self._at.put(before, tuple(each for each in self._at.get(before) or () if each != name))
        others = tuple(each for each in self._at.get(reached) or () if each != name)
        self._at.put(reached, (name, *others)[:EQUAL_HELD])
        self._reached.put(name, reached)
