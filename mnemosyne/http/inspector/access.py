"""Access control of the pages: who may view them and who may change something.

A browser opens a one-time link (``page_links``) and gets a cookie; a program sends the token of the data directory. The
cookie is ``SameSite=Strict`` and not readable by scripts. A request that changes something also carries a CSRF token
(``word``) that only the proxy's own pages contain.
"""

import hmac
from collections.abc import Callable
from hashlib import sha256

import attrs

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.http.inspector.status import bears
from mnemosyne.page_links import PageLinks, PageRole

COOKIE = "mnemosyne"
VALID_SECONDS = 30 * 24 * 3600
"""Lifetime of the cookie."""


@attrs.frozen
class Visitor:
    """An authenticated visitor. ``word`` is the CSRF token for requests that change something; None for a program that
    sent the token of the data directory and needs no other.
    """

    role: PageRole
    word: str | None


@attrs.frozen
class Access:
    """Authenticates visitors. ``token`` is the data directory's; ``now`` returns the time in µs of UTC."""

    token: str
    links: PageLinks
    now: Callable[[], int]

    def visitor(self, headers: Headers, cookie: str | None) -> Visitor | None:
        """Return the visitor of a request, or None without valid credentials or with an expired cookie."""
        if bears(headers, self.token):
            return Visitor(PageRole.OWNER, None)
        parts = (cookie or "").split(".")
        if len(parts) != 3 or not self._is_signed(*parts):
            return None
        role, until, _ = parts
        return Visitor(PageRole(role), self._sign("word", cookie or "")) if int(until) >= self.now() else None

    def let_in(self, secret: str) -> str | None:
        """Exchange the secret of a one-time link for a cookie; None if the link is used or expired."""
        role = self.links.use(secret, self.now())
        if role is None:
            return None
        claims = f"{role.value}.{self.now() + VALID_SECONDS * 1_000_000}"
        return f"{claims}.{self._sign('cookie', claims)}"

    def _is_signed(self, role: str, until: str, signature: str) -> bool:
        return hmac.compare_digest(self._sign("cookie", f"{role}.{until}").encode(), signature.encode())

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self.token.encode(), f"{purpose}:{text}".encode(), sha256).hexdigest()


def may_decide(visitor: Visitor, word: str | None) -> bool:
    """Whether the visitor may make changes with the CSRF token ``word``."""
    if visitor.role is not PageRole.OWNER:
        return False
    return visitor.word is None or hmac.compare_digest(visitor.word.encode(), (word or "").encode())
