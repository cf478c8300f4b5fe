"""Room for the bytes to which compressed requests decode: how much of them is held, all requests together.

The size is measured before anything is held, so that a body takes its room whole or not at all.
"""

from collections import deque

import attrs
import trio

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.errors import TooMuchAtOnce
from mnemosyne.http.content_encoding import LARGEST_DECODED
from mnemosyne.http.messages_route import measure_decoded, readable_body

MOST_BYTES = LARGEST_DECODED
"""Bytes of decoded bodies. Agents' requests decode to some megabytes, and the largest that is read fits alone."""

WAIT_SECONDS = 10.0
"""How long a request that may be managed waits for room, and then for its turn to be read without."""

LOOK_SECONDS = 0.05

AT_ONCE = 4
"""So many bodies are decoded at once: a window of zstd may have 128 MB."""


@attrs.define(eq=False)
class Lease:
    """The room of one body, given back with the last reference to it, from whatever thread. ``is_beyond`` says that
    there was none, and that it is the one body that is read without.
    """

    size: int
    is_beyond: bool
    _returned: deque[tuple[int, bool]]

    def __del__(self) -> None:
        self._returned.append((self.size, self.is_beyond))


@attrs.define
class DecodedRoom:
    """The room for all of them."""

    most: int = MOST_BYTES
    patience: float = WAIT_SECONDS
    _held: int = 0
    _is_beyond: bool = False
    _returned: deque[tuple[int, bool]] = attrs.field(factory=deque)
    _decoding: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(AT_ONCE))

    @property
    def held(self) -> int:
        """Bytes that leases take now."""
        while self._returned:
            size, is_beyond = self._returned.popleft()
            if is_beyond:
                self._is_beyond = False
            else:
                self._held -= size
        return self._held

    def take(self, size: int, *, beyond: bool = False) -> Lease | None:
        """Room for so many bytes; None where there is none. ``beyond`` does without, for one body at a time."""
        if self.held + size <= self.most:
            self._held += size
            return Lease(size, False, self._returned)
        if beyond and not self._is_beyond:
            self._is_beyond = True
            return Lease(size, True, self._returned)
        return None

    async def wait(self, size: int) -> Lease:
        """The same once there is room; in time to be the one body that is read without. Raises TooMuchAtOnce."""
        for beyond in (False, True):
            with trio.move_on_after(self.patience):
                while True:
                    lease = self.take(size, beyond=beyond)
                    if lease is not None:
                        return lease
                    await trio.sleep(LOOK_SECONDS)  # a lease ends in any thread, and tells nobody
        raise TooMuchAtOnce(
            f"the request decodes to {size} bytes, and others hold {self.held} of {self.most}. Try again in a moment."
        )

    async def measure(self, headers: Headers, body: bytes) -> int | None:
        """How many bytes a body decodes to; None if it cannot be decoded, or is far too large."""
        return await trio.to_thread.run_sync(measure_decoded, headers, body, limiter=self._decoding)

    async def decode(self, headers: Headers, body: bytes) -> bytes | None:
        """Those bytes."""
        return await trio.to_thread.run_sync(readable_body, headers, body, limiter=self._decoding)
