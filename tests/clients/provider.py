"""The strict scripted provider in a thread of its own, for tests that wait for processes."""

from collections.abc import Iterator
from contextlib import contextmanager

from mnemosyne.app.threads import in_a_thread
from mnemosyne_lab.provider import Standin, open_standin


@contextmanager
def standin_in_a_thread() -> Iterator[Standin]:
    """A scripted provider with an empty script; a test assigns its own."""
    with in_a_thread(open_standin, "the provider for the clients") as standin:
        yield standin
