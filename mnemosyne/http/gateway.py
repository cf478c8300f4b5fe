"""Handle every request for the provider: read it whole, forward it through a relay, and send the relay's reply.

This module speaks ASGI directly. A framework would normalise paths, refuse methods and convert headers, but requests
must be forwarded byte for byte.
"""

import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from itertools import accumulate
from typing import Any

import attrs
import trio

from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import Headers, Upstream, UpstreamRequest
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import BodyStalled, BodyTooLarge, CannotForward, MnemosyneError, ReplyCut, UpstreamFailed
from mnemosyne.http.client_reply import ClientReply, RelayProgress
from mnemosyne.http.decoded_room import DecodedRoom
from mnemosyne.http.errors import ErrorBody, error_body_for
from mnemosyne.http.headers import for_process, for_upstream, loggable, loggable_path, request_with, text_headers
from mnemosyne.http.messages_route import (
    TurnLogs,
    error_dialect,
    find_mode,
    is_count,
    is_encoded,
    is_of_session,
    may_hold_a_conversation,
    turn_dialect,
)
from mnemosyne.http.relay import Relay
from mnemosyne.http.sharing import History, Sharing
from mnemosyne.http.turn_log import TurnLog, Unrecorded
from mnemosyne.http.unfinished import STALLED_SECONDS, Part, Unfinished

log = logging.getLogger(__name__)

FIRST_BYTE_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
"""Bucket bounds in seconds. A model usually starts within a few seconds; beyond a minute it probably hangs."""

_WORD = re.compile("(?<!^)(?=[A-Z])")


@attrs.define
class Waits:
    """A histogram of durations, and their sum in seconds."""

    counts: list[int] = attrs.field(factory=lambda: [0] * (len(FIRST_BYTE_BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[sum(seconds > bound for bound in FIRST_BYTE_BOUNDS)] += 1
        self.seconds += seconds

    @property
    def buckets(self) -> list[tuple[str, int]]:
        """The cumulative count of each bound; the last counts all."""
        return list(zip((*map(str, FIRST_BYTE_BOUNDS), "+Inf"), accumulate(self.counts), strict=True))


@attrs.define
class Traffic:
    """Replies by (dialect, status), the proxy's errors by kind, time to first byte by dialect. Requests that are not
    turns have the dialect ``other``. Byte counts are of bodies.
    """

    replies: Counter[tuple[str, int]] = attrs.field(factory=Counter)
    errors: Counter[str] = attrs.field(factory=Counter)
    first_byte: dict[str, Waits] = attrs.field(factory=dict)
    request_bytes: int = 0
    reply_bytes: int = 0

    def note_reply(self, dialect: str, status: int, seconds: float) -> None:
        """Count a reply that begins ``seconds`` after its request was complete."""
        self.replies[dialect, status] += 1
        self.first_byte.setdefault(dialect, Waits()).add(seconds)

    def note_error(self, error: Exception) -> None:
        """Count a request that got no reply or an incomplete one."""
        self.errors[_WORD.sub("_", type(error).__name__).lower()] += 1


UNRECORDED_PATHS = 20
"""Number of paths counted separately."""

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientDisconnected(Exception):
    """The client disconnected before it had sent its whole request."""


@attrs.define
class Gateway:
    """Forwards requests to the provider. ``relays`` is the application's nursery: a relay outlives its request."""

    upstream: Upstream
    relays: trio.Nursery
    progress: RelayProgress
    max_body_bytes: int
    turns: TurnLogs
    mode: Mode = Mode.OBSERVE
    """Default mode of new conversations; may change at runtime."""
    unfinished: Unfinished = attrs.field(factory=Unfinished)
    unrecorded: Counter[str] = attrs.field(factory=Counter)
    """Number of possible conversation requests that were forwarded without a record, by path."""
    traffic: Traffic = attrs.field(factory=Traffic)
    decoded: DecodedRoom = attrs.field(factory=DecodedRoom)
    sharing: Sharing | None = None
    """The other processes of this server, if there are any."""

    async def answer(self, scope: Scope, receive: Receive, send: Send, *, is_passed: bool = False) -> None:
        """Answer one request of an ASGI server; ``is_passed``: another process passed it on."""
        try:
            request = await self._read(scope, receive)
        except ClientDisconnected:
            return
        except CannotForward as error:
            self.traffic.note_error(error)
            await refuse(send, error_body_for(error, error_dialect(target_of(scope))))
            return
        is_ours = is_passed or self.sharing is None or not is_of_session(request)
        if not is_ours and await self.pass_on(scope, receive, send, request.body):
            return
        self.traffic.request_bytes += len(request.body)
        own = None
        if is_count(request):
            request, own = await self._preview(scope, request)
        if may_hold_a_conversation(request):
            self._count_unrecorded(loggable_path(request.target))
        try:
            relay = await self._relay(scope, request, own)
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

    async def pass_on(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> bool:
        """Let another process answer a request; False if this one must. True also if the client disconnects."""
        assert self.sharing is not None
        headers = for_process(scope["headers"])
        if not body:
            headers = tuple(each for each in headers if each[0].lower() != b"content-length")
        request = UpstreamRequest(scope["method"], target_of(scope), headers, body)
        is_answered = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_on_disconnect, receive, nursery.cancel_scope)
            try:
                is_answered = await self.sharing.pass_on(request, send, partial(self._read_history, request))
            except UpstreamFailed as error:
                await refuse(send, error_body_for(error, error_dialect(request.target)))
            nursery.cancel_scope.cancel()
        return is_answered

    async def _read_history(self, request: UpstreamRequest) -> History | None:
        """The history that a request shows; None if it has no body, or there is no memory to decode it."""
        body, lease = request.body, None
        if is_encoded(request.headers):
            size = await self.decoded.measure(request.headers, body)
            lease = None if size is None else self.decoded.take(size)
            body = (await self.decoded.decode(request.headers, body) if lease is not None else None) or b""
        if not body:
            return None
        return await self.turns.read_history(text_headers(request.headers), body, turn_dialect(request) or MESSAGES)

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
                raise BodyStalled(f"no data of the request body arrived for {STALLED_SECONDS:g} s.")
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

    async def _relay(self, scope: Scope, request: UpstreamRequest, own: UpstreamRequest | None) -> Relay:
        """Return the relay for a request, which records it if it is a turn; ``own`` replaces one of
        the proxy's that is refused. A recording error never stops the turn.
        """
        turn: TurnLog = Unrecorded()
        dialect = turn_dialect(request)
        if dialect is not None:
            try:
                turn = await self._open(scope, request, dialect) or turn
            except CannotForward:
                raise
            except Exception:
                log.exception("a turn could not be recorded")
        return Relay(self.upstream, request, turn, self.progress, dialect or MESSAGES, own)

    def _count_unrecorded(self, path: str) -> None:
        """Count a request under its path, or under ``other paths`` once there are too many."""
        key = path if path in self.unrecorded or len(self.unrecorded) < UNRECORDED_PATHS else "other paths"
        if key not in self.unrecorded:
            log.warning("requests to %s are forwarded and not recorded", key)
        self.unrecorded[key] += 1

    async def _open(self, scope: Scope, request: UpstreamRequest, dialect: Dialect) -> TurnLog | None:
        """Open the turn of a request; None if its body cannot be read. Raises TooMuchAtOnce."""
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
                    "a request decodes to %d bytes, more than the memory left for decoded bodies; "
                    "it is forwarded and not recorded",
                    size,
                )
                return None
            lease = lease or await self.decoded.wait(size)
            body = await self.decoded.decode(headers, request.body)
        if body is None or lease is None:
            log.warning("a request has an unsupported encoding; it is forwarded and not recorded")
            return None
        return self.turns.open_turn(asked[0], body, *asked[1:], lease=lease, lacks_room=lease.is_beyond)

    async def _preview(self, scope: Scope, request: UpstreamRequest) -> tuple[UpstreamRequest, UpstreamRequest | None]:
        """Return a token-count request with the body that a turn would send upstream for a managed branch, and the
        one to send if that is refused.
        """
        try:
            turn = await self._open(scope, request, MESSAGES)
            found = await turn.preview() if turn is not None else None
        except CannotForward as error:
            log.warning("a request is counted as its client sent it: %s", error)
            return request, None
        except Exception:
            log.exception("a request is counted as its client sent it")
            return request, None
        if found is None:
            return request, None
        body, own = (request_with(request, each) for each in found)
        return body, own

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
    """Cancel the scope when the client disconnects; its request must have been read whole."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def refuse(send: Send, error: ErrorBody) -> None:
    """Send an error and close the connection without waiting for the rest of the request body."""
    await send_error(send, error, (b"connection", b"close"))


async def send_error(send: Send, error: ErrorBody, *more: tuple[bytes, bytes]) -> None:
    """Send an error, with additional headers."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(error.body)), *more]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": error.body, "more_body": False})


def target_of(scope: Scope) -> bytes:
    """Return a request's path and query as they are on the wire."""
    path, query = scope["raw_path"], scope["query_string"]
    return bytes(path + b"?" + query if query else path)
