"""One-time links to the proxy's pages: opening a link sets a cookie and consumes the link.

A link is a file in the data directory, named after the hash of its secret. Removing the file consumes it, so of two
requests with the same link only one succeeds, in whichever process.
"""

import os
import secrets
from enum import Enum
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import attrs

from mnemosyne.errors import BadConfiguration

FOLDER = "page-links"

VALID_SECONDS = 24 * 3600
"""How long a link may wait to be opened."""

PARAMETER = "token"


class PageRole(Enum):
    """The permissions of a page visitor."""

    OWNER = "owner"
    """See all and decide."""
    READER = "reader"
    """See all."""


@attrs.frozen
class PageLinks:
    """The links of a data directory."""

    data_dir: Path

    def make(self, role: PageRole, now: int) -> str:
        """The secret of a new link; ``now`` is in µs of UTC. Raises BadConfiguration if it cannot be written."""
        secret = secrets.token_urlsafe(24)
        folder = self.data_dir / FOLDER
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._remove_old(now)
            handle = os.open(self._path(secret), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(f"{role.value} {now}")
        except OSError as error:
            raise BadConfiguration(f"No link can be created in {folder}: {error.strerror or error}.") from None
        return secret

    def use(self, secret: str, now: int) -> PageRole | None:
        """Consume a link. Returns its permissions; None for an unknown or expired link."""
        path = self._path(secret)
        try:
            role, made = path.read_text(encoding="ascii").split()
            path.unlink()
            return PageRole(role) if now - int(made) <= VALID_SECONDS * 1_000_000 else None
        except (OSError, ValueError):
            return None

    def _path(self, secret: str) -> Path:
        return self.data_dir / FOLDER / sha256(secret.encode()).hexdigest()

    def _remove_old(self, now: int) -> None:
        for path in (self.data_dir / FOLDER).iterdir():
            if now / 1e6 - path.stat().st_mtime > VALID_SECONDS:
                path.unlink(missing_ok=True)


def link_to(url: str, page: str, secret: str) -> str:
    """The address that opens a page (such as ``/-/``) of the server at ``url``."""
    return f"{url}{page}?{PARAMETER}={quote(secret)}"
