"""Ownership of a data directory's memory: a secret that the owner's programs present, and fingerprints of credentials
that are admitted without it.

Both are derived from one key in the data directory, so read access to that directory is ownership. No credential is
stored: a fingerprint is an HMAC (RFC 2104), which cannot be compared with guesses without the key.
"""

import hmac
from collections.abc import Iterable

import attrs

from mnemosyne import credentials

OWNER_HEADER = "x-mnemosyne-owner-token"
"""The header in which a program of the owner presents the secret; like all of ours, it stays here."""

_DIGITS = 32
"""Of a fingerprint: 128 bits."""


@attrs.frozen
class MemoryKey:
    """The key of a data directory (``data_dir.memory_key``)."""

    _key: bytes = attrs.field(repr=False)

    @property
    def token(self) -> str:
        """The secret that the owner's programs present."""
        return self._digest("owner", "")

    def is_presented(self, headers: Iterable[tuple[str, str]]) -> bool:
        """Whether a request presents the token."""
        shown = next((value for name, value in headers if name.lower() == OWNER_HEADER), "")
        return hmac.compare_digest(shown.strip().encode("utf-8", "replace"), self.token.encode())

    def fingerprint(self, credential: str) -> str:
        """The stored fingerprint of a credential, in hexadecimal digits."""
        return self._digest("credential", credential)[:_DIGITS]

    def fingerprint_of(self, headers: Iterable[tuple[str, str]]) -> str | None:
        """The fingerprint of a request's provider credential; None if it has none."""
        shown = next(filter(None, credentials.keys_in(headers)), None)
        return None if shown is None else self.fingerprint(shown)

    def _digest(self, purpose: str, text: str) -> str:
        return hmac.digest(self._key, f"{purpose}:{text}".encode("utf-8", "replace"), "sha256").hex()
