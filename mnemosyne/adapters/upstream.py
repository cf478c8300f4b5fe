"""The HTTP client of the provider.

Only the configuration decides the destination. The client follows no redirects, decodes nothing, adds only headers that
HTTP needs, and sets no time limit on a reply, because a model may think for an hour.
"""

import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
import trio

from mnemosyne.adapters.outbound import open_client
from mnemosyne.domain.wire.exchange import Reachability, ReplyHead, UpstreamRequest
from mnemosyne.errors import ReplyCut, UpstreamFailed, UpstreamUnreachable

log = logging.getLogger(__name__)

CONNECT_SECONDS = 15.0
IDLE_SECONDS = 30.0
"""The lifetime of an idle connection, shorter than providers allow."""

PROBE_SECONDS = 3.0
"""The time limit of a probe, which a client waits for."""


class HttpUpstream:
    """The provider at ``base_url`` or on a Unix ``socket``, with a pool of HTTP/1.1 connections. Use it as an async
    context manager.
    """

    def __init__(self, base_url: str, *, ca_bundle: Path | None = None, socket: Path | None = None) -> None:
        parts = urlsplit(base_url)
        self._origin = httpx2.URL(f"{parts.scheme}://{parts.netloc}")
        self._path = parts.path.rstrip("/").encode("ascii")
        self._host = parts.netloc.encode("ascii")
        self.address = base_url
        self._is_ours = socket is not None
        self._client, self.ignored = open_client(
            base_url,
            ca_bundle=ca_bundle,
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=IDLE_SECONDS),
            transport=None if socket is None else httpx2.AsyncHTTPTransport(uds=str(socket), verify=False),
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._client.__aexit__(*exc)

    def target(self, target: bytes) -> bytes:
        """The request target for a client's ``target``, below the provider's own path. A process of ours gets it
        unchanged.
        """
        if not self._is_ours and not self._path.endswith(b"/v1") and _is_unversioned(target):
            return self._path + b"/v1" + target
        return self._path + target

    async def probe(self) -> Reachability:
        """Check by a request without credentials that the provider answers."""
        sentence = f"{self.address} did not answer within {PROBE_SECONDS:g} s."
        with trio.move_on_after(PROBE_SECONDS):
            try:
                async with self.exchange(UpstreamRequest("HEAD", b"/", (), b""), lambda: None):
                    return Reachability(self.address, "reachable")
            except UpstreamUnreachable as error:
                return Reachability(self.address, "unreachable", str(error))
            except UpstreamFailed as error:
                sentence = str(error)
        return Reachability(self.address, "silent", sentence)

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator["HttpReply"]:
        async with AsyncExitStack() as stack:
            response = await self._send(request, sent)
            stack.push_async_callback(response.aclose)
            yield HttpReply(response)

    async def _send(self, request: UpstreamRequest, sent: Callable[[], None]) -> httpx2.Response:
        """Send; retry once if a pooled connection was closed without a reply."""
        attempt = _Attempt(sent)
        try:
            return await self._client.send(self._build(request, attempt), stream=True)
        except httpx2.TransportError as error:
            if attempt.connected:
                raise self._failure(error) from error
            log.debug("a pooled connection was stale; sending once more")
        try:
            return await self._client.send(self._build(request, _Attempt(sent)), stream=True)
        except httpx2.TransportError as error:
            raise self._failure(error) from error

    def _build(self, request: UpstreamRequest, attempt: "_Attempt") -> httpx2.Request:
        target = self.target(request.target)
        return httpx2.Request(
            request.method,
            self._origin,
            headers=[(b"Host", self._host), *request.headers],
            content=request.body or None,
            # The target stays unchanged: parsing it as a URL would normalise it.
            extensions={"target": target, "trace": attempt.trace, "timeout": self._client.timeout.as_dict()},
        )

    def _failure(self, error: httpx2.TransportError) -> UpstreamFailed:
        reason = _reason(error)
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error)):
            reason += (
                "; if a proxy or a gateway signs with an authority of its own, name its PEM file with ca_bundle"
                " (--ca-bundle FILE)"
            )
        if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
            return UpstreamUnreachable(f"{self.address} gave no answer: {reason}.")
        return UpstreamFailed(f"{self.address} gave no answer: {reason}.")


class HttpReply:
    """A reply of the provider, as raw bytes."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.head = ReplyHead(response.status_code, tuple(response.headers.raw))

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        chunks = self._response.aiter_raw()
        try:
            async for chunk in chunks:
                yield chunk
        except httpx2.TransportError as error:
            raise ReplyCut(f"the provider's reply broke off: {_reason(error)}.") from error
        finally:
            await _close(chunks)


async def _close(chunks: AsyncIterator[bytes]) -> None:
    """Close the rest of a reply. Closing one of the library's nested generators keeps others open; cancellation closes
    all.
    """
    with trio.CancelScope() as outgoing, suppress(httpx2.TransportError):
        outgoing.cancel()
        async for _ in chunks:
            pass


class _Attempt:
    """Detects a new connection: an exchange that fails on one is not retried."""

    def __init__(self, sent: Callable[[], None]) -> None:
        self.connected = False
        self._sent = sent

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        if event == "http11.send_request_body.complete":
            self._sent()
        if event.startswith(("connection.connect_", "proxy_connection", "http11.receive_response_body")):
            self.connected = True


def _is_unversioned(target: bytes) -> bool:
    """Whether the API's version is missing, as with the AI SDK and a base URL without ``/v1``."""
    path = target.partition(b"?")[0]
    return path == b"/messages" or path.startswith(b"/messages/")


def _reason(error: BaseException) -> str:
    """The message of the innermost cause that has one."""
    texts = [text for cause in _causes(error) if (text := str(cause))]
    return (texts or [type(error).__name__])[-1].rstrip(".")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, the innermost last."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
            continue
        yield cause
        cause = cause.__cause__ or cause.__context__
