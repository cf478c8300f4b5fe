"""The top of a slow page is sent before the rest is read; the rest is cached until the session changes."""

from typing import Any
from uuid import UUID

import pytest

from mnemosyne.adapters.postgres.event_log import CachedEventLog
from mnemosyne.app.pages import OpenPageContext
from mnemosyne.errors import LogFailed
from mnemosyne.services.overviews import SessionOpening
from tests.http.inspector.conftest import ShownLog
from tests.http.inspector.shown import Pages
from tests.http.inspector.test_pages import an_object
from tests.profiles import rarely


@pytest.mark.parametrize("path", ["", *rarely(["/turn/25", "/turn/24/to/25", "/object/{object}"])])
async def test_the_top_is_sent_before_the_rest_is_read_and_cached_until_a_change(
    pages: Pages, shown: ShownLog, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = f"/-/session/{shown.other if not path else shown.session}{path}"
    page = page.format(object=await an_object(pages, shown.session) if "{" in path else "")
    read = CachedEventLog.read
    versions = OpenPageContext.version_of
    happened = 0

    async def broken(*_: object, **__: object) -> Any:
        raise LogFailed("nothing is read behind the top")

    async def later(self: OpenPageContext, stream: UUID) -> int:
        return await versions(self, stream) + happened

    monkeypatch.setattr(OpenPageContext, "version_of", later)
    pages.page_context.openings[UUID(shown.other)] = SessionOpening("kept", None)
    monkeypatch.setattr(CachedEventLog, "read", broken)
    status, late = await pages.get(page)
    assert (status, "<h1>" in late, "nothing is read behind the top" in late) == (200, True, True)
    assert late.rstrip().endswith("</html>")
    monkeypatch.setattr(CachedEventLog, "read", read)
    _, whole = await pages.get(page)
    assert "nothing is read behind the top" not in whole
    monkeypatch.setattr(CachedEventLog, "read", broken)
    assert (await pages.get(page))[1] == whole  # what failed is not kept, what was read is
    happened = 1
    assert "nothing is read behind the top" in (await pages.get(page))[1]
