"""Tune how the allocator handles freed memory: keep it while turns arrive, and return it to the system between them.

All functions need glibc and do nothing with another allocator.
"""

import ctypes
import linecache
from collections.abc import Callable
from typing import Any, Never

import trio

RETURN_SECONDS = 30.0
"""The interval of returns. One takes some milliseconds, in which other threads run until they allocate."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8
"""Parameters of mallopt(3)."""


def keep_freed_memory() -> None:
    """Configure the allocator to keep the memory of large bodies for reuse, in one arena for all threads.

    By default glibc returns blocks of some megabytes to the system at once, so every turn of a long session pays for
    new pages: a third of its CPU time, measured with bodies of ten megabytes. Each thread that reads a body would also
    fill a separate arena of 64 MB. Also drops the source lines that attrs keeps for tracebacks (0.9 MB of text).
    """
    linecache.clearcache()
    mallopt = _find("mallopt")
    mallopt(_MMAP_THRESHOLD, 32 * 1024 * 1024)
    mallopt(_TRIM_THRESHOLD, 128 * 1024 * 1024)
    mallopt(_ARENAS, 1)


async def return_freed_memory(
    is_busy: Callable[[], bool] = lambda: False,
    seconds: float = RETURN_SECONDS,
    let_go: Callable[[float], object] = lambda seconds: None,
) -> Never:
    """Return free memory to the system at intervals, unless a client waits (``is_busy``). ``let_go`` frees more."""
    trim = _find("malloc_trim")
    while True:
        await trio.sleep(seconds)
        if not is_busy():
            let_go(seconds)
            await trio.to_thread.run_sync(trim, 0)


def _find(name: str) -> Callable[..., Any]:
    """A function of the C library; one that does nothing if there is none."""
    try:
        function: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return lambda *arguments: None
    return function
