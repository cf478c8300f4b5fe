"""Freed memory is kept while turns come, and goes back to the system when clients pause."""

import platform
import subprocess
import sys
from functools import partial

import pytest
import trio

from mnemosyne.app.freed_memory import QUIET_SECONDS, WORKED_SECONDS, return_as_it_works, return_when_quiet
from mnemosyne.http.client_reply import RelayProgress

GLIBC = platform.libc_ver()[0] == "glibc"

FREE_AND_RETURN = """
import os, threading, trio
from mnemosyne.app.freed_memory import keep_freed_memory, return_freed_memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def use():
    used = [bytes(bytearray(20_000_000)) for _ in range(4)]
    return len(used)

keep_freed_memory()
before = resident()
for _ in range(3):
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
kept = resident() - before
trio.run(return_freed_memory)
print(kept, resident() - before)
"""


@pytest.mark.skipif(not GLIBC, reason="mallopt and malloc_trim are glibc's")
def test_threads_memory_is_reused_and_returned_on_request() -> None:
    ran = subprocess.run([sys.executable, "-c", FREE_AND_RETURN], capture_output=True, text=True, check=True)
    kept, left = map(int, ran.stdout.split())
    assert 50_000_000 < kept < 130_000_000  # three threads, and what one used
    assert left < 5_000_000


async def test_memory_is_returned_while_clients_pause_and_only_where_there_was_work(
    autojump_clock: trio.testing.MockClock,
) -> None:
    progress, returned, worked, let_go = RelayProgress(), list[int](), 0.0, 0

    async def note() -> None:
        returned.append(progress.delivered)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(return_when_quiet, progress, lambda: let_go, note, lambda: worked)
        await trio.sleep(3 * QUIET_SECONDS)
        assert returned == []  # nothing was used yet
        progress.running = 1
        for _ in range(4):
            progress.delivered += 1
            worked += 1
            await trio.sleep(QUIET_SECONDS)
        await trio.sleep(3 * QUIET_SECONDS)
        assert returned == []  # a model that thinks long is no pause
        progress.running = 0
        await trio.sleep(5 * QUIET_SECONDS)
        assert returned == [4]
        worked += 1  # work of a turn continues after its reply
        await trio.sleep(3 * QUIET_SECONDS)
        assert returned == [4, 4]
        progress.delivered += 1
        worked += WORKED_SECONDS / 2
        await trio.sleep(3 * QUIET_SECONDS)
        assert returned == [4, 4]  # too little to look for
        let_go += 1
        await trio.sleep(3 * QUIET_SECONDS)
        assert returned == [4, 4, 5]  # a session that sleeps frees much, and that takes no time
        nursery.cancel_scope.cancel()


async def test_a_worker_returns_memory_as_it_works(autojump_clock: trio.testing.MockClock) -> None:
    returned, worked = list[float](), 0.0

    async def note() -> None:
        returned.append(worked)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(return_as_it_works, return_memory=note, worked=lambda: worked))
        await trio.sleep(QUIET_SECONDS / 2)
        for _ in range(3):
            worked += WORKED_SECONDS
            await trio.sleep(QUIET_SECONDS)
        await trio.sleep(3 * QUIET_SECONDS)
        nursery.cancel_scope.cancel()
    assert returned == [WORKED_SECONDS * times for times in (1, 2, 3)]
