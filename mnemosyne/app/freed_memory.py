"""Tune how the allocator handles freed memory: keep it while turns arrive, return it to the system when the server is
idle. A worker, for which no client waits, returns it regularly.

All functions need glibc and do nothing with another allocator.
"""

import ctypes
import time
from collections.abc import Awaitable, Callable

import trio

from mnemosyne.http.client_reply import RelayProgress

QUIET_SECONDS = 5.0
"""Idle time before freed memory is returned to the system, and the interval of returns in a worker."""

WORKED_SECONDS = 0.25
"""CPU time after which returning memory may be worthwhile."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8
"""Parameters of mallopt(3)."""


def keep_freed_memory() -> None:
    """Configure the allocator to keep the memory of large bodies for reuse, in one arena for all threads.

    By default glibc returns blocks of some megabytes to the system at once, so every turn of a long session pays for
    new pages: a third of its CPU time, measured with bodies of ten megabytes. Each thread that reads a body would also
    fill a separate arena of 64 MB.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 * 1024 * 1024)
    mallopt(_TRIM_THRESHOLD, 128 * 1024 * 1024)
    mallopt(_ARENAS, 1)


async def return_freed_memory() -> None:
    """Return free memory to the system. Takes some milliseconds; other threads run until they allocate."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    await trio.to_thread.run_sync(trim, 0)


async def return_when_quiet(
    progress: RelayProgress,
    count_let_go: Callable[[], int],
    return_memory: Callable[[], Awaitable[None]] = return_freed_memory,
    worked: Callable[[], float] = time.process_time,
) -> None:
    """Return freed memory while clients are idle, after enough CPU time or when ``count_let_go`` has increased.

    Work caused by a long body continues after its reply, so one return per idle period is not enough.
    """
    before = progress.delivered

    def is_quiet() -> bool:
        nonlocal before
        last, before = before, progress.delivered
        return before == last and not progress.running

    await return_as_it_works(is_quiet, return_memory, worked, count_let_go)


async def return_as_it_works(
    may: Callable[[], bool] = lambda: True,
    return_memory: Callable[[], Awaitable[None]] = return_freed_memory,
    worked: Callable[[], float] = time.process_time,
    count_let_go: Callable[[], int] = lambda: 0,
) -> None:
    """Return freed memory after enough CPU time, whenever ``may`` allows it. Freeing much memory takes little CPU time,
    so also return it when ``count_let_go`` has increased.
    """
    returned_at, let_go = worked(), count_let_go()
    while True:
        await trio.sleep(QUIET_SECONDS)
        if may() and (worked() - returned_at >= WORKED_SECONDS or count_let_go() > let_go):
            let_go = count_let_go()
            await return_memory()
            returned_at = worked()
