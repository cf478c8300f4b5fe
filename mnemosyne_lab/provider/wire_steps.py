"""The server's actions on a connection for one reply, as data; and the division of replies into chunks.

A reply is a list of steps: first a `Head`, then `Chunk`s and `Wait`s, and perhaps a `Cut`. Without a `Cut`, the
response ends normally. Pure.
"""

import itertools
import zlib
from collections.abc import Iterable, Iterator
from typing import Literal

import attrs

HeaderLines = list[tuple[str, str]]


@attrs.frozen
class Head:
    """Status and headers. Without a content length the body goes in chunks."""

    status: int
    headers: HeaderLines
    reason: str = ""
    literal: bool = False
    """Sent as given: no header is added, and the connection closes after the body."""


@attrs.frozen
class Chunk:
    """Bytes of the body that leave together, as one chunk."""

    data: bytes


@attrs.frozen
class Wait:
    """Seconds in which nothing is sent."""

    seconds: float


@attrs.frozen
class Cut:
    """The connection ends here, in the middle of things."""

    reset: bool = False


@attrs.frozen
class CloseIdle:
    """The connection ends here, unannounced, after a complete response."""


Step = Head | Chunk | Wait | Cut | CloseIdle
Framing = Literal["frame", "byte", "whole"] | list[int]


def frame(steps: Iterable[Step], framing: Framing) -> Iterator[Step]:
    """Divide the bytes between waits into other chunks; remaining bytes are sent before a wait or a cut."""
    if framing == "frame":
        yield from steps
        return
    sizes = itertools.repeat(1) if framing == "byte" else itertools.cycle(framing if isinstance(framing, list) else [0])
    held = b""
    size = next(sizes)
    for step in steps:
        if not isinstance(step, Chunk):
            if held:
                yield Chunk(held)
                held = b""
            yield step
            continue
        held += step.data
        start = 0
        while size and len(held) - start >= size:
            yield Chunk(held[start : start + size])
            start += size
            size = next(sizes)
        held = held[start:]
    if held:
        yield Chunk(held)


def compress(steps: Iterable[Step]) -> Iterator[Step]:
    """Compress the body; each chunk can still be read as soon as it arrives."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    cut = False
    for step in steps:
        if isinstance(step, Chunk):
            yield Chunk(packer.compress(step.data) + packer.flush(zlib.Z_SYNC_FLUSH))
        elif isinstance(step, Head):
            kept = [(name, value) for name, value in step.headers if name.lower() != "content-length"]
            yield attrs.evolve(step, headers=[*kept, ("content-encoding", "gzip")])
        else:
            cut = cut or isinstance(step, Cut)
            if isinstance(step, CloseIdle):
                yield Chunk(packer.flush())
                packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
                yield step
                return
            yield step
    if not cut:
        yield Chunk(packer.flush())
