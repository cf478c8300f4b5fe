"""The strict stand-in provider in a thread of its own, for tests that wait for processes."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from mnemosyne.lab.provider import Standin, open_standin


@contextmanager
def standin_in_a_thread() -> Iterator[Standin]:
    """A stand-in with an empty script; a test assigns its own."""
    started: queue.Queue[tuple[Standin, trio.lowlevel.TrioToken, trio.Event] | BaseException] = queue.Queue()

    async def serve() -> None:
        async with open_standin() as standin:
            end = trio.Event()
            started.put((standin, trio.lowlevel.current_trio_token(), end))
            await end.wait()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            started.put(error)
            raise

    thread = threading.Thread(target=run, name="the provider for the clients")
    thread.start()
    outcome = started.get()
    if isinstance(outcome, BaseException):
        thread.join()
        raise outcome
    standin, token, end = outcome
    try:
        yield standin
    finally:
        token.run_sync_soon(end.set)
        thread.join()
