"""What a server tells of itself under ``/-/``: is it well, is it ready, what is it. It answers without the
database, and whatever the pages' process does.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from mnemosyne import __version__
from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.errors import error_body
from mnemosyne.http.gateway import Send, send_error

PATHS = (b"/-/health", b"/-/ready", b"/-/status")

OffSince = Callable[[], Awaitable[int | None]]
"""Since when nothing is to be managed, in µs of UTC; None if that is not so."""

DescribeWorker = Callable[[], Awaitable[Mapping[str, object]]]
"""How the worker does (``app.supervising.Supervisor.describe``)."""

_WITHOUT_TOKEN = error_body(
    401, "authentication_error", "Send `Authorization: Bearer TOKEN`; the token is in the data directory.", MESSAGES
)
_NOT_A_QUESTION = error_body(405, "invalid_request_error", "Only GET and HEAD are answered here.", MESSAGES)


@attrs.frozen(kw_only=True)
class StatusPages:
    """The pages at ``PATHS``. ``token`` opens the last; ``unrecorded`` is as in ``app.discovery.FoundServer``."""

    token: str
    settings: Mapping[str, str]
    progress: RelayProgress
    unrecorded: Mapping[str, int]
    off_since: OffSince
    worker: DescribeWorker

    async def answer(self, method: str, path: bytes, headers: Headers, send: Send) -> None:
        """Answer a request for one of them."""
        if method not in ("GET", "HEAD"):
            await send_error(send, _NOT_A_QUESTION)
        elif path == b"/-/health":
            await _send(send, {"status": "ok"})
        elif path == b"/-/ready":
            # Whatever the worker does: a turn never waits for it.
            await _send(send, {"status": "ready", "worker": dict(await self.worker())})
        elif bears(headers, self.token):
            await _send(send, await self._status())
        else:
            await send_error(send, _WITHOUT_TOKEN)

    async def _status(self) -> dict[str, Any]:
        relays = attrs.asdict(self.progress, filter=attrs.filters.exclude(attrs.fields(RelayProgress).untold))
        return {
            "version": __version__,
            "upstream": self.settings["upstream"],
            "tenant": self.settings["tenant"],
            "settings": dict(self.settings),
            "off_since": await self.off_since(),
            "unrecorded": dict(self.unrecorded),
            "untold": attrs.asdict(self.progress.untold),
            "relays": relays,
            "worker": dict(await self.worker()),
        }


def bears(headers: Headers, token: str) -> bool:
    """Whether a request shows the token (RFC 6750, 2.1)."""
    given = next((value for name, value in headers if name.lower() == b"authorization"), b"")
    scheme, _, shown = given.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(shown.strip(), token.encode())


async def _send(send: Send, told: object) -> None:
    body = json.dumps(told).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
