"""Asynchronous context managers for code without an event loop of its own."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

import trio

from mnemosyne.errors import alone

T = TypeVar("T")

END_SECONDS = 30
"""Longest wait for the end of the thread; one that does not end dies with the process."""


@contextmanager
def in_a_thread(open_it: Callable[[], AbstractAsyncContextManager[T]], name: str) -> Iterator[T]:
    """Run an asynchronous context manager in a thread of this name for as long as the block runs; yield its value.
    Raises its exceptions, without the exception groups of nurseries.
    """
    started: queue.Queue[tuple[T, trio.lowlevel.TrioToken, trio.Event] | BaseException] = queue.Queue()

    async def serve() -> None:
        async with open_it() as opened:
            end = trio.Event()
            started.put((opened, trio.lowlevel.current_trio_token(), end))
            await end.wait()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            started.put(alone(error) if isinstance(error, Exception) else error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    outcome = started.get()
    if isinstance(outcome, BaseException):
        thread.join()
        raise outcome
    opened, token, end = outcome
    try:
        yield opened
    finally:
        token.run_sync_soon(end.set)
        thread.join(END_SECONDS)
    if not started.empty():
        failed = started.get()
        assert isinstance(failed, BaseException)
        raise failed
