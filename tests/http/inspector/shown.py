"""Test kit: a log with one compacted managed session and content that is hard to display."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import trio

from mnemosyne.adapters.postgres.journal import JournalTicket
from mnemosyne.app.pages import OpenPageContext
from mnemosyne.app.simulations import Simulations
from mnemosyne.app.storage import event_codec, open_storage
from mnemosyne.config import Config, load
from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.http.inspector.access import Access
from mnemosyne.http.inspector.pages import create_pages
from mnemosyne.page_links import PageLinks, PageRole
from mnemosyne_lab.evaluation.simulating import COMMAND, list_policies
from tests.golden.sessions import append_all
from tests.plain.log import PlainLog
from tests.replay.playing import RecordedClock, play
from tests.replay.session_tapes import tape_of
from tests.waiting import until

TOKEN = "the-token"
NOW = 1_790_000_000_000_000

NASTY = '<script>alert("x")</script><img src=x onerror=alert(1)> \x1b[31mred\x1b[0m \u202eright to left'
"""Content that a page must escape."""

TITLE = "Repair the date parser"


def session(name: str = "the-session", turns: int = 30, said: str = NASTY) -> dict[str, Any]:
    """A recorded session: files are read one after the other, and the user pauses for so long now and then that the
    provider's cache forgets it.
    """
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"{TITLE}, please."}]
    requests = []
    minutes = 0
    for number in range(turns):
        minutes += 90 if number % 10 == 9 else 1
        requests.append(
            {
                "msg": len(messages),
                "ts": f"2026-01-{1 + minutes // 1440:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z",
            }
        )
        call = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "Read",
            "input": {"file_path": f"/src/app/part{number}.py"},
        }
        lines = "\n".join(
            f"{line:6}\tdef step_{number}_{line}(value): return value + {line}  # {said}" for line in range(1, 120)
        )
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"I read part {number}."}, call]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": lines}
        messages.append({"role": "user", "content": [result]})
    requests.append({"msg": len(messages), "ts": "2026-01-03T00:00:00Z"})
    messages.append({"role": "assistant", "content": "Done."})
    tools = [
        {
            "name": "Read",
            "description": "Reads a file.",
            "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
        }
    ]
    system = "You are an agent.\nWorking directory: /src/app\n" + "Be careful. " * 200
    return {
        "name": name,
        "agent": "claude-code 2.1.17",
        "model": "claude-opus-4-5",
        "system": system,
        "tools": tools,
        "messages": messages,
        "turns": requests,
    }


class Kept(PlainLog):
    """An in-memory log that keeps all appended events."""

    def __init__(self) -> None:
        super().__init__(event_codec())
        self.appends: list[Append] = []

    def submit(self, append: Append) -> JournalTicket:
        self.appends.append(append)
        return super().submit(append)


def fill(dsn: str, folder: Path, *sessions: Mapping[str, Any], mode: Mode = Mode.MANAGE) -> list[UUID]:
    """Replay sessions through a server into a database; return their ids."""
    log, clock = Kept(), RecordedClock()

    async def record() -> None:
        for each in sessions:
            await play(log, tape_of(dict(each)), clock, mode)

    trio.run(record, clock=clock)

    async def store() -> None:
        async with open_storage(settings(dsn, folder)) as storage:
            await append_all(storage.journal, log.appends)

    trio.run(store)
    return list(dict.fromkeys(each.stream for each in log.appends))


def settings(dsn: str, folder: Path, **more: str) -> Config:
    """The page context of a server on a database."""
    return load({"dsn": dsn, "data_dir": str(folder), **more}, {})


@attrs.frozen
class Pages:
    """The pages of an open log, and a signed-in client."""

    app: Any
    page_context: OpenPageContext
    access: Access
    client: Any

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Return the status and text of a page."""
        response = await self.client.get(path, headers=headers)
        return response.status_code, await response.get_data(as_text=True)

    async def json(self, path: str) -> Any:
        response = await self.client.get(path)
        assert response.status_code == 200
        return await response.get_json()


class _Opened:
    """Stands for the value that is open: one application serves all tests, since its addresses and templates take long
    to compile.
    """

    def __init__(self) -> None:
        self.value: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name)


_CONTEXT: Any = _Opened()
_ACCESS: Any = _Opened()
_create_app = cache(create_pages)


@asynccontextmanager
async def open_pages(dsn: str, folder: Path, role: PageRole = PageRole.OWNER, **more: str) -> AsyncIterator[Pages]:
    numbers: Iterator[int] = iter(range(1_000_000))
    simulations = Simulations(list_policies(), COMMAND)
    page_context = OpenPageContext(
        settings(dsn, folder, **more), lambda: NOW, lambda: f"id-{next(numbers)}", simulations
    )
    access = Access(TOKEN, PageLinks(folder), lambda: NOW)
    before = _CONTEXT.value, _ACCESS.value
    _CONTEXT.value, _ACCESS.value = page_context, access
    app = _create_app(_CONTEXT, _ACCESS, " --data-dir '/a log'")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(page_context.keep_open)
        await until(lambda: page_context.is_open)
        client = app.test_client()
        await client.get(f"/-/?token={access.links.make(role, NOW)}")
        yield Pages(app, page_context, access, client)
        _CONTEXT.value, _ACCESS.value = before
        nursery.cancel_scope.cancel()
