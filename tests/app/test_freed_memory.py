"""Freed memory is kept while turns arrive, and returned to the system between them."""

import platform
import subprocess
import sys

import pytest

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

async def wait(is_busy):
    with trio.move_on_after(0.1):
        await return_freed_memory(is_busy, 0.01)
    return resident() - before

print(kept, trio.run(wait, lambda: True), trio.run(wait, lambda: False))
"""


@pytest.mark.skipif(not GLIBC, reason="mallopt and malloc_trim are glibc's")
def test_memory_of_threads_is_reused_and_returned_between_turns() -> None:
    ran = subprocess.run([sys.executable, "-c", FREE_AND_RETURN], capture_output=True, text=True, check=True)
    kept, busy, left = map(int, ran.stdout.split())
    assert 50_000_000 < kept < 130_000_000  # three threads, and what one used
    assert busy > 50_000_000
    assert left < 5_000_000
