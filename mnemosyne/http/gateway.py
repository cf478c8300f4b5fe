"""Every request for the provider: read whole, passed on through a relay, answered as the relay says.

This speaks ASGI itself. A framework between would normalise paths, refuse methods and copy headers into its own shape;
what passes here is the provider's business, to the byte.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import attrs
import trio

from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import Headers, Upstream, UpstreamRequest
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import BodyStalled, BodyTooLarge, CannotForward, MnemosyneError, ReplyCut
from mnemosyne.http.client_reply import ClientReply, RelayProgress
from mnemosyne.http.decoded_room import DecodedRoom
from mnemosyne.http.errors import ErrorBody, error_body_for
from mnemosyne.http.headers import for_upstream, loggable, loggable_path, request_with, text_headers
from mnemosyne.http.messages_route import (
    TurnLogs,
    error_dialect,
    find_mode,
    is_count,
    is_encoded,
    may_hold_a_conversation,
    turn_dialect,
)
from mnemosyne.http.relay import Relay
from mnemosyne.http.traffic import Traffic
from mnemosyne.http.turn_log import TurnLog, Unrecorded
from mnemosyne.http.unfinished import STALLED_SECONDS, Part, Unfinished

log = logging.getLogger(__name__)

UNRECORDED_PATHS = 20
"""So many paths are counted one by one."""

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientDisconnected(Exception):
    """The client left before it had sent its request."""


@attrs.define
class Gateway:
    """Passes requests to the provider. ``relays`` is the application's nursery: a relay outlives its request."""

    upstream: Upstream
    relays: trio.Nursery
    progress: RelayProgress
    max_body_bytes: int
    turns: TurnLogs
    mode: Mode = Mode.OBSERVE
    """What a conversation sends upstream that begins, unless its request says otherwise. It may change."""
    unfinished: Unfinished = attrs.field(factory=Unfinished)
    unrecorded: Counter[str] = attrs.field(factory=Counter)
    """How many requests that may hold a conversation were passed on without a record, by their path."""
    traffic: Traffic = attrs.field(factory=Traffic)
    decoded: DecodedRoom = attrs.field(factory=DecodedRoom)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of an ASGI server."""
        try:
            request = await self._read(scope, receive)
        except ClientDisconnected:
            return
        except CannotForward as error:
            self.traffic.note_error(error)
            await refuse(send, error_body_for(error, error_dialect(target_of(scope))))
            return
        self.traffic.request_bytes += len(request.body)
        if is_count(request):
            request = await self._preview(scope, request)
        if may_hold_a_conversation(request):
            self._count_unrecorded(loggable_path(request.target))
        try:
            relay = await self._relay(scope, request)
        except CannotForward as error:
            self.traffic.note_error(error)
            await refuse(send, error_body_for(error, error_dialect(request.target)))
            return
        self.relays.start_soon(relay.run)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_on_disconnect, receive, nursery.cancel_scope)
                await self._reply(request, relay.client, send)
                nursery.cancel_scope.cancel()
        finally:
            relay.client.abandon()

    async def _read(self, scope: Scope, receive: Receive) -> UpstreamRequest:
        headers: Headers = tuple(scope["headers"])
        target = target_of(scope)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s (%s)", scope["method"], loggable_path(target), loggable(headers))
        self._check_size(next((int(value) for name, value in headers if name.lower() == b"content-length"), 0))
        with self.unfinished.body() as room:
            body = await self._read_body(receive, room)
        return UpstreamRequest(scope["method"], target, for_upstream(headers), body)

    async def _read_body(self, receive: Receive, room: Part) -> bytes:
        body: list[bytes] = []
        size = 0
        while True:
            with trio.move_on_after(STALLED_SECONDS) as waiting:
                message = await receive()
            if waiting.cancelled_caught:
                raise BodyStalled(f"nothing of the request came for {STALLED_SECONDS:g} s.")
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            piece = message.get("body", b"")
            size += len(piece)
            self._check_size(size)
            if piece:
                room.take(len(piece))
                body.append(piece)
            if not message.get("more_body", False):
                return b"".join(body)

    def _check_size(self, size: int) -> None:
        if size > self.max_body_bytes:
            raise BodyTooLarge(
                f"the request body has at least {size} bytes and max_body_bytes is {self.max_body_bytes}; "
                "raise the setting to forward it."
            )

    async def _relay(self, scope: Scope, request: UpstreamRequest) -> Relay:
        """Who fetches the reply, and records it if it is a turn. A turn goes on whatever becomes of its record."""
        turn: TurnLog = Unrecorded()
        dialect = turn_dialect(request)
        if dialect is not None:
            try:
                turn = await self._open(scope, request, dialect) or turn
            except CannotForward:
                raise
            except Exception:
                log.exception("a turn could not be recorded")
        return Relay(self.upstream, request, turn, self.progress, dialect or MESSAGES)

    def _count_unrecorded(self, path: str) -> None:
        """Count it under its path; under a common one where there are too many."""
        key = path if path in self.unrecorded or len(self.unrecorded) < UNRECORDED_PATHS else "other paths"
        if key not in self.unrecorded:
            log.warning("requests to %s are passed on and not recorded", key)
        self.unrecorded[key] += 1

    async def _open(self, scope: Scope, request: UpstreamRequest, dialect: Dialect) -> TurnLog | None:
        """The turn that a request is; None where its body is not read. Raises TooMuchAtOnce."""
        headers: Headers = tuple(scope["headers"])
        asked = text_headers(headers), dialect, find_mode(headers), self.mode
        if not is_encoded(headers):
            return self.turns.open_turn(asked[0], request.body, *asked[1:])
        size = await self.decoded.measure(headers, request.body)
        body = lease = None
        if size is not None:
            lease = self.decoded.take(size)
            if lease is None and not await self.turns.may_be_managed(*asked):
                log.warning(
                    "a request decodes to %d bytes, for which there is no room beside the others; "
                    "it is forwarded and not recorded",
                    size,
                )
                return None
            lease = lease or await self.decoded.wait(size)
            body = await self.decoded.decode(headers, request.body)
        if body is None or lease is None:
            log.warning("a request came in an encoding that we cannot read; it is forwarded and not recorded")
            return None
        return self.turns.open_turn(asked[0], body, *asked[1:], lease=lease, lacks_room=lease.is_beyond)

    async def _preview(self, scope: Scope, request: UpstreamRequest) -> UpstreamRequest:
        """A request for a count, asking for what a turn would send: of a managed branch more than its client says."""
        try:
            turn = await self._open(scope, request, MESSAGES)
            body = await turn.preview() if turn is not None else None
        except CannotForward as error:
            log.warning("a request is counted as its client sent it: %s", error)
            return request
        except Exception:
            log.exception("a request is counted as its client says it")
            return request
        return request if body is None else request_with(request, body)

    async def _reply(self, request: UpstreamRequest, reply: ClientReply, send: Send) -> None:
        path, began = loggable_path(request.target), trio.current_time()
        try:
            head = await reply.head()
        except (CannotForward, ReplyCut) as error:
            self.traffic.note_error(error)
            log.warning("%s %s: %s", request.method, path, error)
            await send_error(send, error_body_for(error, error_dialect(request.target)))
            return
        dialect = turn_dialect(request)
        waited = trio.current_time() - began
        self.traffic.note_reply(dialect.name if dialect else "other", head.status, waited)
        log.info("%s %s -> %d", request.method, path, head.status)
        await send({"type": "http.response.start", "status": head.status, "headers": list(head.headers)})
        try:
            async for chunk in reply.body():
                self.traffic.reply_bytes += len(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except MnemosyneError as error:
            self.traffic.note_error(error)
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def cancel_on_disconnect(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel the scope once the client has gone, whose request was read whole."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def refuse(send: Send, error: ErrorBody) -> None:
    """Answer a request whose body is not wanted; what still comes of it is not waited for."""
    await send_error(send, error, (b"connection", b"close"))


async def send_error(send: Send, error: ErrorBody, *more: tuple[bytes, bytes]) -> None:
    """Answer with an error, and with these headers besides."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(error.body)), *more]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": error.body, "more_body": False})


def target_of(scope: Scope) -> bytes:
    """Path and query of a request, as they go on the wire."""
    path, query = scope["raw_path"], scope["query_string"]
    return bytes(path + b"?" + query if query else path)
