"""Recognizes requests of the owner of the memory beyond sessions: a request with another key on the same port is a
stranger's.
"""

from collections.abc import Iterable

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.memory_key import MemoryKey

SESSIONS_HELD = 1_000
"""Number of sessions remembered whose owner was presented and that have not sent a request since."""


@attrs.frozen
class MemoryClient:
    """The sender of a request as the memory knows it. ``is_owner``: it proved ownership, or its key or a proxy names
    its tenant; otherwise the log says whether its ``fingerprint`` is admitted. None: it shows no credential.
    """

    is_owner: bool
    fingerprint: str | None = None


OWNER = MemoryClient(is_owner=True)


@attrs.frozen
class MemoryOwners:
    """Recognizes owners by the ``key`` of a data directory."""

    key: MemoryKey
    _presented: Lru[str, bool] = attrs.field(factory=lambda: Lru(SESSIONS_HELD), init=False)

    def present(self, session: str) -> None:
        """Accept the next request of a session as the owner's. A hook calls this, since it cannot add a header to its
        client's requests.
        """
        self._presented.put(session, True)

    def find_client(self, headers: Iterable[tuple[str, str]], session: str | None) -> MemoryClient:
        """The sender of a request with these headers, in the session that they name."""
        given = tuple(headers)
        is_presented = session is not None and self._presented.pop(session) is not None
        return MemoryClient(is_presented or self.key.is_presented(given), self.key.fingerprint_of(given))
