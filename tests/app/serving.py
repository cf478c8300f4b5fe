"""A server in the test's own event loop: the client, the provider and the clock are the test's, and its worker sends
nothing.
"""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.app import server, turns
from mnemosyne.app.supervising import Supervisor
from mnemosyne.config import load
from mnemosyne.domain.session.round_events import Mode
from mnemosyne_lab.provider import from_data
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.actors.support import PATIENT
from tests.http.managing import Json, model_says

SALT = b"s" * 16

SILENT = ("cat",)
"""The command of a worker that reads and sends nothing."""

Run = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]


@attrs.define
class Clock:
    """µs of UTC; each call adds a second."""

    now: int = 1_700_000_000_000_000

    def __call__(self) -> int:
        self.now += 1_000_000
        return self.now


async def _run(serve: Callable[[], Awaitable[None]]) -> None:
    await serve()


@attrs.frozen
class Serving:
    """A running server."""

    url: str
    standin: Standin
    clock: Clock

    def answers(self, *replies: Sequence[Json]) -> None:
        """Set the replies to the next requests, in order; the last one also answers all later requests."""
        first = len(self.standin.messages) + 1
        rules = [
            {"when": {"request": number}, "reply": model_says(*reply)} for number, reply in enumerate(replies, first)
        ]
        self.standin.script = from_data({"rules": [*rules, {"reply": model_says(*replies[-1])}]})


@asynccontextmanager
async def serving(folder: Path, dsn: str, mode: Mode, run: Run = _run) -> AsyncIterator[Serving]:
    """A server on a database in front of a scripted provider. ``run`` starts the server's main task."""
    ids = itertools.count(1)
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "SessionRegistry", partial(SessionRegistry, patience=PATIENT))
        patch.setattr(server, "Supervisor", partial(Supervisor, command=SILENT))
        patch.setattr(server, "now", clock)
        patch.setattr(turns, "new_salt", lambda: SALT)
        patch.setattr(server, "new_id", lambda: f"{next(ids):016x}")
        async with open_standin() as standin, trio.open_nursery() as nursery:
            settings = {"upstream": standin.url, "port": 0, "data_dir": str(folder), "dsn": dsn, "mode": mode.value}
            config = load(settings, {})
            urls: list[str] = []
            ready = trio.Event()

            def announce(url: str) -> None:
                urls.append(url)
                ready.set()

            main: Any = partial(server.run_server, config, announce, lambda: config)
            nursery.start_soon(run, main)
            await ready.wait()
            yield Serving(urls[0], standin, clock)
            nursery.cancel_scope.cancel()
