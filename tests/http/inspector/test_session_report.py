"""A session's page as a file: the same picture, nothing that is loaded or run, and no words where that is asked."""

from mnemosyne.http.inspector.session_report import read_shown, session_report
from mnemosyne.services import read_models
from tests.http.inspector.conftest import ShownLog
from tests.http.inspector.shown import TITLE, Pages
from tests.http.inspector.test_pages import Elements


async def report(pages: Pages, shown: ShownLog, *, redacted: bool) -> str:
    stream = await read_models.find(pages.library.models, shown.session)
    told = await read_shown(pages.library.archive, pages.library.models, stream, None, {})
    return session_report(told, redacted=redacted)


async def test_the_file_says_what_the_page_says_and_draws_the_same_map(pages: Pages, shown: ShownLog) -> None:
    _, page = await pages.get(f"/-/session/{shown.session}")
    file = await report(pages, shown, redacted=False)
    assert TITLE in file
    start, end = page.index('<svg id="map"'), page.index("</svg>")
    assert page[start:end] in file
    verdict = page[page.index('class="verdict">') : page.index("</p>", page.index('class="verdict">'))]
    assert verdict in file


async def test_the_file_loads_runs_and_leads_to_nothing(pages: Pages, shown: ShownLog) -> None:
    found = Elements(await report(pages, shown, redacted=False))
    assert found.running == []
    assert not {"script", "link", "img", "a", "form", "iframe"} & set(found.tags)


async def test_a_redacted_file_holds_no_word_that_was_said_and_no_name_of_a_file(pages: Pages, shown: ShownLog) -> None:
    whole, redacted = [await report(pages, shown, redacted=each) for each in (False, True)]
    for word in (TITLE, "/work/app", "part1", "the-session"):
        assert word in whole or word == "the-session"
        assert word not in redacted
    assert "<svg" in redacted
