"""Work on content, done beside the loop where it takes long: while one session's request is read, others are served.

Such work is pure, so nothing waits for it once nobody wants its result.
"""

from collections.abc import Callable, Container, Sequence
from typing import TypeVar

import trio

from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.transcript import StoredBytes, Transcript, TranscriptReading

LARGE = 1 << 16
"""Bytes from which on content is worked on in a thread. A message may have a block for every 30 of them, and each takes
20 µs.
"""

Made = TypeVar("Made")


async def made(work: Callable[[], Made], *, in_thread: bool) -> Made:
    """What the work makes; without a thread it is there at once, and no other task comes between."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True) if in_thread else work()


async def read_beside(
    raw: bytes,
    previous: Transcript | None = None,
    *,
    lane: str = "main",
    known: Container[bytes] = frozenset(),
    replies: Sequence[StoredBytes] = (),
) -> TranscriptReading:
    """See ``transcript.read``."""
    return await made(
        lambda: transcript.read(raw, previous, lane=lane, known=known, replies=replies),
        in_thread=is_much(raw, previous),
    )


def is_much(raw: bytes, previous: Transcript | None = None) -> bool:
    """Whether so much of a body is to be read that it takes long: what the previous one has as well is not read."""
    if len(raw) < LARGE:
        return False
    if previous is None or previous.opaque is not None:
        return True
    head = recipe.common_prefix(previous.raw, raw)
    tail = recipe.common_suffix(previous.raw, raw, min(len(previous.raw), len(raw)) - head)
    return len(raw) - head - tail >= LARGE
