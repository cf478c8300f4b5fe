"""What becomes of memory that was used and is free again: kept while turns come, and returned when none does. Behind
turns, where nobody waits, it is returned again and again.

All of it is glibc's; with another allocator nothing here does anything.
"""

import ctypes
import time
from collections.abc import Awaitable, Callable

import trio

from mnemosyne.http.client_reply import RelayProgress

QUIET_SECONDS = 5.0
"""For how long nobody is sent anything before freed memory goes back to the system; how often it does in a worker."""

WORKED_SECONDS = 0.25
"""Of processor time, after which there may be enough of it."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8
"""Parameters of mallopt(3)."""


def keep_freed_memory() -> None:
    """Let the allocator keep what a long body took, for the next one, in one place for all threads.

    By default glibc gives each block of some megabytes back to the system at once, and every turn of a long session
    pays for new pages: a third of its CPU time, measured at bodies of ten megabytes. And each thread that reads a body
    has 64 MB of its own, which it fills and no other may use.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 * 1024 * 1024)
    mallopt(_TRIM_THRESHOLD, 128 * 1024 * 1024)
    mallopt(_ARENAS, 1)


async def return_freed_memory() -> None:
    """Return to the system what is free. It takes some milliseconds, and other threads go on until they allocate."""
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
    """Return freed memory to the system while clients pause, as often as the process has worked or something was let go
    of, which ``count_let_go`` tells.

    What a long body sets off goes on behind its reply, so no pause is over with one return.
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
    """Return freed memory to the system as often as the process has worked, each time that this ``may`` be. To let go
    of much takes no time: so it is returned, too, where ``count_let_go`` went up.
    """
    returned_at, let_go = worked(), count_let_go()
    while True:
        await trio.sleep(QUIET_SECONDS)
        if may() and (worked() - returned_at >= WORKED_SECONDS or count_let_go() > let_go):
            let_go = count_let_go()
            await return_memory()
            returned_at = worked()
