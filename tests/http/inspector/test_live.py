"""A page that follows the log gets an event for each commit, or only for those of its session."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import UUID

import trio

from mnemosyne.http.inspector.live import stream_changes
from mnemosyne.services import pins
from mnemosyne.services.knowledge import WriteStamp
from tests.http.inspector.conftest import ShownLog
from tests.http.inspector.shown import NOW, Pages
from tests.waiting import DEADLINE


async def test_a_follower_gets_the_ids_of_changed_sessions(pages: Pages, shown: ShownLog) -> None:
    async with aclosing(stream_changes(pages.page_context, None)) as said:
        assert (await anext(said)).startswith(b"retry:")
        await _pin(pages, shown.other)
        assert await _next_change(said) == [shown.other]


async def test_a_follower_of_one_session_gets_no_events_of_others(pages: Pages, shown: ShownLog) -> None:
    async with aclosing(stream_changes(pages.page_context, UUID(shown.session))) as said:
        await anext(said)
        await _pin(pages, shown.other)
        await _pin(pages, shown.session)
        assert shown.session in await _next_change(said)


async def _next_change(said: AsyncIterator[bytes]) -> list[str]:
    with trio.fail_after(DEADLINE):
        while not (result := await anext(said)).startswith(b"event: changed\n"):
            assert result == b": still here\n\n"
    changed: list[str] = json.loads(result.split(b"data: ")[1])
    return changed


async def _pin(pages: Pages, session: str) -> None:
    result = await pages.json(f"/-/session/{session}.json")
    found = result["view"]["map"]["spans"][0]["object"]["id"]
    archive = pages.page_context.archive
    await pins.pin(archive, found, session=session, reason="a test", stamp=WriteStamp(NOW, "a"))
    await pins.unpin(archive, found, session=session, reason="a test", stamp=WriteStamp(NOW, "b"))
