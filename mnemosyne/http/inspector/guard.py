"""Who may see our own pages: whoever can read the token file. That no web page of others asks is seen to before
(``http.browsers``); all but the pages for whoever watches the process want the token.
"""

import hmac

from quart.wrappers import Request
from quart_trio.wrappers import TrioResponse

from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.http.errors import error_body

OPEN = ("/-/health", "/-/ready")
"""Pages that say nothing of what is served."""


def refusal(request: Request, *, token: str) -> TrioResponse | None:
    """Why the request may not be answered, as a response; None if it may."""
    if request.path in OPEN or _bears(request, token):
        return None
    what = "Send `Authorization: Bearer TOKEN`; the token is in the data directory."
    told = error_body(401, "authentication_error", what, MESSAGES)
    return TrioResponse(told.body, told.status, content_type="application/json")


def _bears(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
