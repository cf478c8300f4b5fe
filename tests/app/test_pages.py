"""The page process ends when idle, and reports why it has no database."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mnemosyne.adapters.postgres.leading import Leader
from mnemosyne.app.object_index import read_standing
from mnemosyne.app.pages import OpenPageContext, PagesAlone
from mnemosyne.app.simulations import Simulations
from mnemosyne.domain.ports import Progress
from mnemosyne.errors import LogUnavailable
from mnemosyne.http.browsers import AllowedHosts
from tests.adapters.log_support import open_database, until
from tests.adapters.postgres.test_sql_views import filled
from tests.http.inspector.shown import NOW, settings

Message = MutableMapping[str, Any]


async def _nothing() -> Message:
    return {"type": "http.request"}


async def _no_one(message: Message) -> None:
    pass


SCOPE: Message = {"type": "http", "method": "GET", "raw_path": b"/-/", "headers": []}


def alone(seconds: float) -> PagesAlone:
    async def answer(scope: Message, receive: object, send: object) -> None:
        await trio.sleep(seconds)

    pages: Any = answer
    return PagesAlone(pages, AllowedHosts(), trio.current_time())


async def test_the_page_process_ends_when_idle(autojump_clock: MockClock) -> None:
    await alone(0).wait_until_idle(600)
    assert trio.current_time() == pytest.approx(600)


async def test_a_running_request_keeps_the_page_process_alive(autojump_clock: MockClock) -> None:
    app = alone(5000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app, SCOPE, _nothing, _no_one)
        await app.wait_until_idle(600)
    assert 5600 <= trio.current_time() <= 6200


async def test_a_page_of_another_site_is_refused_before_anything_is_shown() -> None:
    said: list[Message] = []

    async def send(message: Message) -> None:
        said.append(message)

    await alone(0)({**SCOPE, "headers": [(b"origin", b"https://evil.example")]}, _nothing, send)
    assert said[0]["status"] == 403


async def test_without_a_database_pages_report_the_reason(tmp_path: Path) -> None:
    page_context = OpenPageContext(settings("host=/nowhere", tmp_path), lambda: NOW, str, Simulations({}, ()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(page_context.keep_open)
        await page_context.wait_until_tried()
        with pytest.raises(LogUnavailable, match=r"The database is away: .*nowhere"):
            _ = page_context.models
        nursery.cancel_scope.cancel()


async def test_a_search_page_fills_the_index_although_a_worker_leads(tmp_path: Path, dsn: str) -> None:
    async with filled(dsn, "helped") as world, open_database(dsn) as database:
        leader = Leader(database)

        async def never(progress: Progress) -> None:
            await trio.sleep_forever()

        page_context = OpenPageContext(settings(dsn, tmp_path), lambda: NOW, str, Simulations({}, ()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leader.run, never)
            nursery.start_soon(page_context.keep_open)
            await page_context.wait_until_tried()
            await until(lambda: leader.leads)
            assert world.database is not None
            assert (await read_standing(world.database)).missing > 0
            await page_context.index()
            assert (await read_standing(world.database)).missing == 0
            nursery.cancel_scope.cancel()
