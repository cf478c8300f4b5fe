"""Forward page requests to the separate process that renders pages, so that CPU-heavy pages never delay a turn."""

import logging
import math

import attrs
import trio

from mnemosyne.domain.wire.exchange import Headers, Upstream, UpstreamRequest
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import MnemosyneError
from mnemosyne.http.errors import error_body
from mnemosyne.http.gateway import Receive, Scope, Send, cancel_on_disconnect, send_error, target_of
from mnemosyne.http.headers import for_client, for_upstream
from mnemosyne.http.inspector.status import bears
from mnemosyne.http.unfinished import STALLED_SECONDS

log = logging.getLogger(__name__)

LARGEST_FORM = 64 * 1024
"""Maximum body size of a page request, in bytes."""

LARGEST_IMPORT = 1024 * 1024
"""Maximum body size with the token, in bytes: a larger import could not be written in time."""

HEAD_SECONDS = 60.0
"""Time limit for the first byte of a page."""

_TOO_LARGE = error_body(
    413,
    "request_too_large",
    f"The request body is too large or too slow: the limit is {LARGEST_FORM} bytes, with the token {LARGEST_IMPORT}.",
    MESSAGES,
)
_NO_PAGES = error_body(
    503, "api_error", "Pages are unavailable right now; see the server's log. Try again soon.", MESSAGES
)


@attrs.frozen
class PagePasser:
    """Forwards requests to the page process behind ``upstream``. ``token`` is the data directory's."""

    upstream: Upstream
    token: str
    open: set[trio.CancelScope] = attrs.field(factory=set)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of an ASGI server."""
        headers: Headers = tuple(scope["headers"])
        body = await _read(receive, LARGEST_IMPORT if bears(headers, self.token) else LARGEST_FORM)
        if body is None:
            await send_error(send, _TOO_LARGE, (b"connection", b"close"))
            return
        request = UpstreamRequest(scope["method"], target_of(scope), _without_origin(for_upstream(headers)), body)
        async with trio.open_nursery() as nursery:
            self.open.add(nursery.cancel_scope)
            try:
                nursery.start_soon(cancel_on_disconnect, receive, nursery.cancel_scope)
                await self._pass(request, send)
                nursery.cancel_scope.cancel()
            finally:
                self.open.discard(nursery.cancel_scope)

    async def _pass(self, request: UpstreamRequest, send: Send) -> None:
        begun = False
        try:
            with trio.CancelScope(deadline=trio.current_time() + HEAD_SECONDS) as scope:
                async with self.upstream.exchange(request, lambda: None) as reply:
                    scope.deadline = math.inf
                    begun = True
                    headers = list(for_client(reply.head.headers))
                    await send({"type": "http.response.start", "status": reply.head.status, "headers": headers})
                    async for chunk in reply.chunks():
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except MnemosyneError as error:
            log.warning("a page was not sent completely: %s", error)
        if begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await send_error(send, _NO_PAGES)

    def close(self) -> None:
        """Cancel all open responses: pages that follow the log never end by themselves."""
        for scope in self.open:
            scope.cancel()


def _without_origin(headers: Headers) -> Headers:
    """Remove the headers that name the requesting page. The server has already checked them against the host that the
    browser used; the page process has another host and would take the proxy's own pages for foreign ones.
    """
    return tuple(pair for pair in headers if pair[0].lower() not in (b"origin", b"sec-fetch-site"))


async def _read(receive: Receive, most: int) -> bytes | None:
    """Read the body; None if it is too large or stalls."""
    body = bytearray()
    with trio.move_on_after(STALLED_SECONDS):
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                return None
        return bytes(body)
    return None
