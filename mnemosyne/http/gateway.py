"""Every request for the provider: read whole, passed on through a relay, answered as the relay says."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import attrs
import trio
from hypercorn.typing import ASGISendCallable
from quart.wrappers import Request, Response
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioResponse

from mnemosyne.domain.exchange import Headers, ReplyHead, Upstream, UpstreamRequest
from mnemosyne.errors import BodyTooLarge, CannotForward, MnemosyneError
from mnemosyne.http.errors import response_for
from mnemosyne.http.headers import for_upstream, loggable
from mnemosyne.http.relay import Progress, Relay, TurnLog, Unrecorded

log = logging.getLogger(__name__)


def _relays_of(scope: Any) -> list[Relay]:
    """The relays that hang on one request; kept in its scope, the one thing that lives as long as it does."""
    relays: list[Relay] = scope.setdefault("mnemosyne.relays", [])
    return relays


class RelayedReply(TrioResponse):
    """A reply whose head and body come from a relay, untouched by the framework."""

    def __init__(self, head: ReplyHead, relay: Relay) -> None:
        super().__init__(None, 200)
        self.relayed_head = head
        self.relay = relay


class Connection(TrioASGIHTTPConnection):
    """One request of a client: sends relayed replies as they are, and lets go of the relay when the client leaves."""

    async def __call__(self, receive: Any, send: Any) -> None:
        try:
            await super().__call__(receive, send)
        finally:
            for relay in _relays_of(self.scope):
                relay.abandon()

    async def handle_request(  # type: ignore[override]  # the framework's trio class has this signature
        self, nursery: trio.Nursery, request: Request, send: ASGISendCallable
    ) -> None:
        async def last_shielded(message: Any) -> None:
            # The server announces the disconnect before the last send has returned, and the framework would cancel
            # that very send: the connection would never be told that it is idle, nor closed at shutdown.
            with trio.CancelScope(shield=not message.get("more_body", True)):
                await send(message)

        await super().handle_request(nursery, request, last_shielded)

    async def _send_response(self, send: ASGISendCallable, response: Any) -> None:
        if not isinstance(response, RelayedReply):
            await super()._send_response(send, response)
            return
        head = response.relayed_head
        await send({"type": "http.response.start", "status": head.status, "headers": list(head.headers)})
        async for chunk in response.relay.body():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@attrs.frozen
class Gateway:
    """Passes requests to the provider. ``relays`` is the application's nursery: a relay outlives its request."""

    upstream: Upstream
    relays: trio.Nursery
    progress: Progress
    max_body_bytes: int

    async def answer(self, request: Request) -> Response:
        """The answer to any request that is not for one of our own pages."""
        try:
            forwarded = await self._read(request)
            return await self._relay(request, forwarded, Unrecorded())
        except CannotForward as error:
            log.warning("%s %s: %s", request.method, request.path, error)
            return response_for(error)
        except MnemosyneError as error:
            return response_for(error)

    async def _read(self, request: Request) -> UpstreamRequest:
        headers: Headers = tuple(request.scope["headers"])
        log.debug("%s %s (%s)", request.method, request.path, loggable(headers))
        declared = request.content_length
        if declared is not None and declared > self.max_body_bytes:
            raise BodyTooLarge(self._too_large(declared))
        body = bytearray()
        async for chunk in _chunks(request):
            body += chunk
            if len(body) > self.max_body_bytes:
                raise BodyTooLarge(self._too_large(len(body)))
        return UpstreamRequest(request.method, _target(request), for_upstream(headers), bytes(body))

    def _too_large(self, size: int) -> str:
        return (
            f"the request body has at least {size} bytes and max_body_bytes is {self.max_body_bytes}; "
            "raise the setting to forward it."
        )

    async def _relay(self, request: Request, forwarded: UpstreamRequest, turn: TurnLog) -> Response:
        relay = Relay(self.upstream, forwarded, turn, self.progress)
        _relays_of(request.scope).append(relay)
        self.relays.start_soon(relay.run)
        head = await relay.head()
        log.info("%s %s -> %d", request.method, request.path, head.status)
        return RelayedReply(head, relay)


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.body:
        yield chunk


def _target(request: Request) -> bytes:
    raw_path = request.scope.get("raw_path") or request.path.encode()
    query = request.scope["query_string"]
    return bytes(raw_path + b"?" + query if query else raw_path)
