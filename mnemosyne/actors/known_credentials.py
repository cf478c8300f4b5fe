"""Which credentials have spoken in which branch: so that nobody has another's memory for knowing a name.

Nothing of it is stored. What stands for a credential is keyed with bytes of this process alone, and a server that is
started anew knows nobody.
"""

import hmac
import secrets
from collections.abc import Iterable
from uuid import UUID

import attrs

from mnemosyne import credentials
from mnemosyne.bounded import Lru

HELD = 16_384
"""Of how many pairs of branch and credential it is remembered that they belong together."""


@attrs.frozen
class KnownCredentials:
    """Those that this process has heard."""

    _key: bytes = attrs.field(factory=lambda: secrets.token_bytes(32), repr=False)
    _heard: Lru[tuple[UUID, str, bytes], bool] = attrs.field(factory=lambda: Lru(HELD), init=False)
    _branches: Lru[tuple[UUID, str], bool] = attrs.field(factory=lambda: Lru(HELD), init=False)

    def credential_of(self, headers: Iterable[tuple[str, str]]) -> bytes:
        """What stands for the credentials in a request's headers; the same for all that show none."""
        shown = sorted(f"{name.lower()}\0{value.strip()}" for name, value in headers if _stays(name))
        return hmac.digest(self._key, "\0\0".join(shown).encode("utf-8", "replace"), "sha256")

    def note(self, stream: UUID, branch: str, credential: bytes | None) -> None:
        """A credential speaks in a branch."""
        if credential is not None:
            self._heard.put((stream, branch, credential), True)
            self._branches.put((stream, branch), True)

    def is_known(self, stream: UUID, branch: str, credential: bytes) -> bool:
        """Whether a credential has spoken in a branch."""
        return self._heard.get((stream, branch, credential)) is not None

    def is_stranger(self, stream: UUID, branch: str, credential: bytes | None) -> bool:
        """Whether others have spoken in a branch, and this credential has not."""
        if credential is None or self.is_known(stream, branch, credential):
            return False
        return self._branches.get((stream, branch)) is not None


def _stays(name: str) -> bool:
    """Whether a header holds a credential that stays the same; a gateway sets its cookies anew."""
    return credentials.is_name(name) and name.lower() != "cookie"
