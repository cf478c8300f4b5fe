"""One HTTP exchange with the provider, as values, and the port through which it happens.

Header names and values are bytes, in order, repeats kept: what we do not change, we do not touch.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import attrs

Headers = tuple[tuple[bytes, bytes], ...]


@attrs.frozen
class UpstreamRequest:
    """A request for the provider. ``target`` is path and query as they go on the wire."""

    method: str
    target: bytes
    headers: Headers
    body: bytes


@attrs.frozen
class ReplyHead:
    """Status and headers of a reply, as they came."""

    status: int
    headers: Headers


@attrs.frozen
class Reachability:
    """Whether a provider can be reached. A ``silent`` one accepted the connection, perhaps, and has not answered."""

    url: str
    state: Literal["reachable", "unreachable", "silent"]
    sentence: str = ""


class UpstreamReply(Protocol):
    """A reply whose head has arrived. ``chunks`` yields its bytes as they come, undecoded; it raises ReplyCut. Whoever
    may leave them before their end closes them.
    """

    @property
    def head(self) -> ReplyHead: ...

    def chunks(self) -> AsyncGenerator[bytes, None]: ...


class Upstream(Protocol):
    """The provider. Leaving the context closes the exchange, finished or not."""

    def exchange(
        self, request: UpstreamRequest, sent: Callable[[], None]
    ) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send the request, call ``sent``, and wait for the head of the reply. Raises UpstreamFailed if there is none.

        ``sent`` is called again if the request had to be sent again.
        """
        ...
