"""One HTTP exchange with the provider, as values, and the port that performs it.

Header names and values are bytes, in order, with repetitions, so that headers are passed on exactly.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import attrs

Headers = tuple[tuple[bytes, bytes], ...]


@attrs.frozen
class UpstreamRequest:
    """A request to the provider. ``target`` is the path and query as sent."""

    method: str
    target: bytes
    headers: Headers
    body: bytes


@attrs.frozen
class ReplyHead:
    """Status and headers of a reply, as received."""

    status: int
    headers: Headers


@attrs.frozen
class Reachability:
    """Whether a provider can be reached. A ``silent`` one may have accepted the connection but has not answered."""

    url: str
    state: Literal["reachable", "unreachable", "silent"]
    sentence: str = ""


class UpstreamReply(Protocol):
    """A reply whose head has arrived. ``chunks`` yields its bytes as received, undecoded, and raises ReplyCut. A caller
    that may stop before the end must close the generator.
    """

    @property
    def head(self) -> ReplyHead: ...

    def chunks(self) -> AsyncGenerator[bytes, None]: ...


class Upstream(Protocol):
    """The provider. Leaving the context closes the exchange, finished or not."""

    def exchange(
        self, request: UpstreamRequest, sent: Callable[[], None]
    ) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send the request, call ``sent``, and wait for the head of the reply. Raises UpstreamFailed without a reply.

        ``sent`` is called again if the request had to be sent again.
        """
