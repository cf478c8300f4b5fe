"""Who may see our own pages: whoever can read the token file, from a name that can only mean this machine.

A web page can make a browser send requests to a loopback port, and can point its own domain name at 127.0.0.1. So the
Host must be an address or a name of ours (rebinding needs a foreign name), the Origin must be the page's own, and all
but the pages for whoever watches the process ask for the token.
"""

import hmac
import ipaddress
from urllib.parse import urlsplit

from quart.wrappers import Request
from quart_trio.wrappers import TrioResponse

from mnemosyne.http.errors import error_body

OPEN = ("/-/health", "/-/ready")
"""Pages that say nothing of what is served."""


def refusal(request: Request, *, token: str, host: str) -> TrioResponse | None:
    """Why the request may not be answered, as a response; None if it may. ``host`` is the one we listen on."""
    named = request.headers.get("Host", "")
    if not _is_ours(named, host):
        return _refused(403, "permission_error", f"The Host {named!r} is not a name of this server; use its address.")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != named:
        return _refused(403, "permission_error", "Pages of other sites may not read this one.")
    if request.path in OPEN or _bears(request, token):
        return None
    return _refused(
        401, "authentication_error", "Send `Authorization: Bearer TOKEN`; the token is in the data directory."
    )


def _is_ours(named: str, host: str) -> bool:
    name = urlsplit(f"//{named}").hostname or ""
    if name in ("localhost", host.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _bears(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def _refused(status: int, name: str, message: str) -> TrioResponse:
    return TrioResponse(error_body(status, name, message).body, status, content_type="application/json")
