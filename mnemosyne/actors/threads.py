"""Work on content in threads where it is slow: while one session's request is parsed, others are served.

Such work is pure, so it is abandoned when its caller is cancelled. Few threads work at once: they share one
interpreter, and each switch between them costs processor time.
"""

from collections.abc import Callable, Container
from typing import TypeVar

import trio

from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.json_spans import MOST_VALUES
from mnemosyne.domain.wire.transcript import Transcript, TranscriptReading

LARGE = 1 << 16
"""Size in bytes above which content is processed in a thread. A message may have a block for every 30 bytes, and each
takes 20 µs.
"""

HUGE = 1 << 20
"""Size in bytes above which even work that is fast for most bodies is done in a thread."""

READING, DEFERRED = 4, 1
"""Number of threads for work that requests wait for, and for deferred work. One of the former may have a huge body."""

_Limiters = tuple[trio.CapacityLimiter, trio.CapacityLimiter]

_limiters: trio.lowlevel.RunVar[_Limiters | None] = trio.lowlevel.RunVar("limiters", None)

Made = TypeVar("Made")


async def run_in_thread(work: Callable[[], Made], *, in_thread: bool, deferred: bool = False) -> Made:
    """The result of the work. Without a thread, no other task runs in between. ``deferred``: no request waits for it;
    it is not abandoned once it has begun.
    """
    limiter = _find_limiters()[deferred]
    return await trio.to_thread.run_sync(work, abandon_on_cancel=not deferred, limiter=limiter) if in_thread else work()


def is_behind() -> bool:
    """Whether deferred work has to wait for a thread."""
    return not _find_limiters()[True].available_tokens


def _find_limiters() -> _Limiters:
    limiters = _limiters.get()
    if limiters is None:
        _limiters.set(limiters := (trio.CapacityLimiter(READING), trio.CapacityLimiter(DEFERRED)))
    return limiters


async def read_in_thread(
    raw: bytes,
    previous: Transcript | None = None,
    *,
    conversation: str = "main",
    known: Container[bytes] = frozenset(),
    most: int = MOST_VALUES,
) -> TranscriptReading:
    return await run_in_thread(
        lambda: transcript.read(raw, previous, conversation=conversation, known=known, most=most),
        in_thread=is_much(raw, previous),
    )


class ReadAlone:
    """A body parsed without a previous one, once for all callers: several need it for a session's first request."""

    def __init__(self) -> None:
        self._reading: TranscriptReading | None = None
        self._lock = trio.Lock()

    async def read(self, raw: bytes, conversation: str) -> TranscriptReading:
        """The reading of a body, cached."""
        if not is_much(raw):
            self._reading = self._reading or transcript.read(raw, conversation=conversation)
            return self._reading
        async with self._lock:
            self._reading = self._reading or await read_in_thread(raw, conversation=conversation)
            return self._reading


def is_much(raw: bytes, previous: Transcript | None = None) -> bool:
    """Whether parsing a body is slow, not counting the parts that it shares with the previous one."""
    if len(raw) < LARGE:
        return False
    if previous is None or previous.opaque is not None:
        return True
    head = recipe.common_prefix(previous.raw, raw)
    tail = recipe.common_suffix(previous.raw, raw, min(len(previous.raw), len(raw)) - head)
    return len(raw) - head - tail >= LARGE
