"""A shared memory budget for the decoded bodies of compressed requests.

The decoded size is measured first, so that a body gets its whole memory or none.
"""

from collections import deque

import attrs
import trio

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.errors import TooMuchAtOnce
from mnemosyne.http.content_encoding import LARGEST_DECODED
from mnemosyne.http.messages_route import measure_decoded, readable_body

MOST_BYTES = LARGEST_DECODED
"""The budget in bytes. Agents' requests decode to some megabytes; the largest accepted body fits alone."""

WAIT_SECONDS = 10.0
"""How long a request that may be managed waits for memory, and then for its turn to exceed the budget."""

LOOK_SECONDS = 0.05

AT_ONCE = 4
"""Number of bodies decoded concurrently: a zstd window may take 128 MB."""


@attrs.define(eq=False)
class Lease:
    """The memory of one body, released with the last reference to the lease, in any thread. ``is_beyond``: this is the
    one body that exceeds the budget.
    """

    size: int
    is_beyond: bool
    _returned: deque[tuple[int, bool]]

    def __del__(self) -> None:
        self._returned.append((self.size, self.is_beyond))


@attrs.define
class DecodedRoom:
    """The memory budget of all decoded bodies."""

    most: int = MOST_BYTES
    patience: float = WAIT_SECONDS
    _held: int = 0
    _is_beyond: bool = False
    _returned: deque[tuple[int, bool]] = attrs.field(factory=deque)
    _decoding: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(AT_ONCE))

    @property
    def held(self) -> int:
        """Bytes that leases hold now."""
        while self._returned:
            size, is_beyond = self._returned.popleft()
            if is_beyond:
                self._is_beyond = False
            else:
                self._held -= size
        return self._held

    def take(self, size: int, *, beyond: bool = False) -> Lease | None:
        """Return a lease for ``size`` bytes, or None without room. ``beyond`` lets one body at a time exceed the
        budget.
        """
        if self.held + size <= self.most:
            self._held += size
            return Lease(size, False, self._returned)
        if beyond and not self._is_beyond:
            self._is_beyond = True
            return Lease(size, True, self._returned)
        return None

    async def wait(self, size: int) -> Lease:
        """Wait for a lease, after a while also for the one that exceeds the budget. Raises TooMuchAtOnce."""
        for beyond in (False, True):
            with trio.move_on_after(self.patience):
                while True:
                    lease = self.take(size, beyond=beyond)
                    if lease is not None:
                        return lease
                    await trio.sleep(LOOK_SECONDS)  # leases end in any thread, without notification
        raise TooMuchAtOnce(
            f"the request decodes to {size} bytes, and others use {self.held} of {self.most}. Try again in a moment."
        )

    async def measure(self, headers: Headers, body: bytes) -> int | None:
        """Return a body's decoded size, or None if it cannot be decoded or is too large."""
        return await trio.to_thread.run_sync(measure_decoded, headers, body, limiter=self._decoding)

    async def decode(self, headers: Headers, body: bytes) -> bytes | None:
        """Return the decoded body, or None if it cannot be decoded or is too large."""
        return await trio.to_thread.run_sync(readable_body, headers, body, limiter=self._decoding)
