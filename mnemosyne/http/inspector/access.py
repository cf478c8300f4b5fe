"""Who may see the pages, and who may decide something on them.

A browser comes with a link that opens them once (``page_links``) and gets a cookie; a program sends the token of the
data directory. The cookie goes nowhere but to us (``SameSite=Strict``), and no script reads it. What changes something
also carries a word that only our own pages know.
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
"""How long a browser that was let in stays so."""


@attrs.frozen
class Visitor:
    """Somebody who may see the pages. ``word`` has to come with whatever changes something; None where the token came,
    which says enough.
    """

    role: PageRole
    word: str | None


@attrs.frozen
class Access:
    """The doorkeeper: ``token`` is the data directory's, ``now`` gives the time in µs of UTC."""

    token: str
    links: PageLinks
    now: Callable[[], int]

    def visitor(self, headers: Headers, cookie: str | None) -> Visitor | None:
        """Who asks; None for a stranger, and for one whose cookie is too old."""
        if bears(headers, self.token):
            return Visitor(PageRole.OWNER, None)
        parts = (cookie or "").split(".")
        if len(parts) != 3 or not self._is_signed(*parts):
            return None
        role, until, _ = parts
        return Visitor(PageRole(role), self._sign("word", cookie or "")) if int(until) >= self.now() else None

    def let_in(self, secret: str) -> str | None:
        """The cookie for whoever brings the secret of a link; None where that opens nothing any more."""
        role = self.links.use(secret, self.now())
        if role is None:
            return None
        said = f"{role.value}.{self.now() + VALID_SECONDS * 1_000_000}"
        return f"{said}.{self._sign('cookie', said)}"

    def _is_signed(self, role: str, until: str, signature: str) -> bool:
        return hmac.compare_digest(self._sign("cookie", f"{role}.{until}").encode(), signature.encode())

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self.token.encode(), f"{purpose}:{text}".encode(), sha256).hexdigest()


def may_decide(visitor: Visitor, word: str | None) -> bool:
    """Whether somebody may change what is remembered, with the word that came."""
    if visitor.role is not PageRole.OWNER:
        return False
    return visitor.word is None or hmac.compare_digest(visitor.word.encode(), (word or "").encode())
