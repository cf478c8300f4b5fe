"""The credentials that each branch was used with, so that knowing a session's name is not enough to get its memory, and
the API keys of sessions, if a helper model may use them.

Nothing is stored, and a restarted server knows none. Except for those API keys, credentials are keyed with a random key
of this process.
"""

import hmac
import secrets
from collections.abc import Iterable
from uuid import UUID

import attrs

from mnemosyne import credentials
from mnemosyne.bounded import Lru
from mnemosyne.domain.helper.model import ClientKey
from mnemosyne.domain.wire.identity import find_api_key

HELD = 16_384
"""Number of remembered pairs of branch and credential."""

KEYS_HELD = 1_024
"""Number of sessions whose API key is remembered."""

Headers = Iterable[tuple[str, str]]


@attrs.frozen
class KnownCredentials:
    """The credentials that this process has seen."""

    _key: bytes = attrs.field(factory=lambda: secrets.token_bytes(32), repr=False)
    _seen: Lru[tuple[UUID, str, bytes], bool] = attrs.field(factory=lambda: Lru(HELD), init=False)
    _branches: Lru[tuple[UUID, str], bool] = attrs.field(factory=lambda: Lru(HELD), init=False)

    def credential_of(self, headers: Headers) -> bytes:
        """A keyed digest of the credentials in a request's headers; the same for all requests without credentials."""
        shown = sorted(f"{name.lower()}\0{value.strip()}" for name, value in headers if _is_lasting(name))
        return hmac.digest(self._key, "\0\0".join(shown).encode("utf-8", "replace"), "sha256")

    def note(self, stream: UUID, branch: str, credential: bytes | None) -> None:
        """Record that a credential was used in a branch."""
        if credential is not None:
            self._seen.put((stream, branch, credential), True)
            self._branches.put((stream, branch), True)

    def is_known(self, stream: UUID, branch: str, credential: bytes) -> bool:
        return self._seen.get((stream, branch, credential)) is not None

    def is_stranger(self, stream: UUID, branch: str, credential: bytes | None) -> bool:
        """Whether a branch was used with other credentials and never with this one."""
        if credential is None or self.is_known(stream, branch, credential):
            return False
        return self._branches.get((stream, branch)) is not None


def _is_lasting(name: str) -> bool:
    """Whether a header holds a lasting credential; a gateway changes its cookies."""
    return credentials.is_name(name) and name.lower() != "cookie"


@attrs.frozen
class ClientKeys:
    """The API key of each session, for a helper model that clients' keys pay for. A session with several keys for one
    dialect has none, because only one of them belongs to its user.
    """

    _keys: Lru[UUID, ClientKey] = attrs.field(factory=lambda: Lru(KEYS_HELD), init=False, repr=False)
    _ambiguous: Lru[UUID, bool] = attrs.field(factory=lambda: Lru(KEYS_HELD), init=False, repr=False)

    def note(self, stream: UUID, headers: Headers, dialect: str, model: str | None) -> None:
        """Remember the API key of a session's request, if it has one."""
        key, known = find_api_key(headers), self._keys.get(stream)
        if known is not None and known.dialect == dialect and known.key != key:
            self._keys.pop(stream)
            self._ambiguous.put(stream, True)
        elif key is not None and self._ambiguous.get(stream) is None:
            self._keys.put(stream, ClientKey(key=key, dialect=dialect, model=model))

    def find(self, stream: UUID) -> ClientKey | None:
        """The API key of a session."""
        return self._keys.get(stream)
