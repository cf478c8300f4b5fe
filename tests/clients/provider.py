"""The strict scripted provider in a thread of its own, for tests that wait for processes."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

import trio

from mnemosyne_lab.provider import Standin, open_standin

T = TypeVar("T")


@contextmanager
def standin_in_a_thread() -> Iterator[Standin]:
    """A scripted provider with an empty script; a test assigns its own."""
    with in_a_thread(open_standin, "the provider for the clients") as standin:
        yield standin


@contextmanager
def in_a_thread(open_it: Callable[[], AbstractAsyncContextManager[T]], name: str) -> Iterator[T]:
    """Run an asynchronous context manager in a thread of this name for as long as the block runs; yield its value."""
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
            started.put(error)
            raise

    thread = threading.Thread(target=run, name=name)
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
        thread.join()
