"""A server in the test's own event loop whose work is counted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from campaigns.counts.doors import Counts, Doors, open_doors
from mnemosyne.domain.session.round_events import Mode
from mnemosyne_lab.provider.server import Standin
from tests.app.serving import Serving, serving
from tests.http.managing import Client, Json

DAY = 24 * 3_600_000_000


@attrs.frozen
class Counted(Serving):
    doors: Doors

    async def turn(self, client: Client, *content: Json) -> Counts:
        """The work of a turn, from the client's first byte until the server is idle again."""
        await self.doors.quiet()
        before, copies = self.doors.counts, len(self.doors.watch.copies)
        client.history.append({"role": "user", "content": list(content)})
        with self.doors.watch.watching(len(client.body())):
            message = await client.send()
            await self.doors.quiet()
        assert "error" not in message, message
        client.history.append({"role": "assistant", "content": message["content"]})
        return attrs.evolve(self.doors.counts - before, copies=len(self.doors.watch.copies) - copies)


@asynccontextmanager
async def counted_server(folder: Path, dsn: str, mode: Mode) -> AsyncIterator[Counted]:
    """A server on a database; its provider answers when the server has finished the work that a request caused, as a
    real provider is slower than the server.
    """
    with open_doors() as doors, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Standin, "_respond", _answer_when_idle(Standin._respond, doors))
        async with serving(folder, dsn, mode, doors.serve) as running:
            yield Counted(running.url, running.standin, running.clock, doors)


def _answer_when_idle(respond: Any, doors: Doors) -> Any:
    async def answer(*given: Any) -> Any:
        await doors.quiet()
        return await respond(*given)

    return answer
