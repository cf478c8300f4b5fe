"""The serving process as it is, in the test's own loop: client, provider and clock are the test's, and its worker is
one that never says anything.
"""

import itertools
from collections.abc import AsyncIterator, Sequence
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
from tests.app.doors import Counts, Doors, open_doors
from tests.http.managing import Client, Json, model_says

DAY = 24 * 3_600_000_000

SALT = b"s" * 16

SILENT = ("cat",)
"""A worker that reads and says nothing: what it would do is another process's."""


@attrs.define
class Clock:
    """µs of UTC; a second passes between two looks."""

    now: int = 1_700_000_000_000_000

    def __call__(self) -> int:
        self.now += 1_000_000
        return self.now


@attrs.frozen
class Counted:
    """A running server whose work is counted."""

    url: str
    standin: Standin
    clock: Clock
    doors: Doors

    async def turn(self, client: Client, *content: Json) -> Counts:
        """What a turn takes, from the client's first byte until nothing is done any more."""
        await self.doors.quiet()
        before, copies = self.doors.counts, len(self.doors.watch.copies)
        client.history.append({"role": "user", "content": list(content)})
        with self.doors.watch.watching(len(client.body())):
            message = await client.send()
            await self.doors.quiet()
        assert "error" not in message, message
        client.history.append({"role": "assistant", "content": message["content"]})
        return attrs.evolve(self.doors.counts - before, copies=len(self.doors.watch.copies) - copies)

    def answers(self, *replies: Sequence[Json]) -> None:
        """What the model says to the next requests, one after the other; the last also to all that follow."""
        first = len(self.standin.messages) + 1
        rules = [
            {"when": {"request": number}, "reply": model_says(*reply)} for number, reply in enumerate(replies, first)
        ]
        self.standin.script = from_data({"rules": [*rules, {"reply": model_says(*replies[-1])}]})


@asynccontextmanager
async def counted_server(folder: Path, dsn: str, mode: Mode) -> AsyncIterator[Counted]:
    """A server on a database, in front of a provider that takes its time: it answers when all is done that the request
    led to, as it does in life.
    """
    ids = itertools.count(1)
    clock = Clock()
    with open_doors() as doors, pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "SessionRegistry", partial(SessionRegistry, patience=PATIENT))
        patch.setattr(server, "Supervisor", partial(Supervisor, command=SILENT))
        patch.setattr(server, "now", clock)
        patch.setattr(turns, "new_salt", lambda: SALT)
        patch.setattr(server, "new_id", lambda: f"{next(ids):016x}")
        patch.setattr(Standin, "_respond", _taking_its_time(Standin._respond, doors))
        async with open_standin() as standin, trio.open_nursery() as nursery:
            settings = {"upstream": standin.url, "port": 0, "data_dir": str(folder), "dsn": dsn, "mode": mode.value}
            config = load(settings, {})
            urls: list[str] = []
            ready = trio.Event()

            def announce(url: str) -> None:
                urls.append(url)
                ready.set()

            nursery.start_soon(doors.serve, partial(server.run_server, config, announce, lambda: config))
            await ready.wait()
            yield Counted(urls[0], standin, clock, doors)
            nursery.cancel_scope.cancel()


def _taking_its_time(respond: Any, doors: Doors) -> Any:
    async def responding(*given: Any) -> Any:
        await doors.quiet()
        return await respond(*given)

    return responding
