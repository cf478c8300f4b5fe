"""Sessions far larger than usual: pages stay small, and show everything as text."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import open_tab, serve
from tests.fixtures import PostgresServer
from tests.http.inspector.shown import NASTY, session
from tests.waiting import DEADLINE

pytestmark = pytest.mark.soak

TURNS, LINE = 2_400, 5_000_000
LARGEST_PAGE = 1_000_000
"""Bytes, before they are packed."""

expect.set_options(timeout=DEADLINE * 1000)


def many_turns() -> dict[str, Any]:
    """Many turns with little content each."""
    held = session("many", turns=TURNS - 1)
    for number, message in enumerate(held["messages"]):
        if isinstance(message["content"], list) and message["role"] == "user":
            message["content"][0]["content"] = f"line {number}"
    for number, turn in enumerate(held["turns"]):
        turn["ts"] = f"2026-01-{1 + number // 1440:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"
    return held


def one_line() -> dict[str, Any]:
    """A tool result with one line of megabytes, with every kind of difficult content in it."""
    held = session("one line", turns=2)
    held["messages"][2]["content"][0]["content"] = (NASTY * (LINE // len(NASTY) + 1))[:LINE]
    return held


def test_page_of_a_session_of_2400_turns_is_small(
    browser: Browser, postgres_server: PostgresServer, template: str, tmp_path: Path
) -> None:
    with (
        serve(postgres_server, template, tmp_path, browser, many_turns()) as shown,
        browser.new_context(base_url=shown.url) as context,
    ):
        tab = open_tab(context, shown)
        for path in (shown.link, f"{shown.link}/turn/{TURNS}", f"{shown.link}/conversation", "/-/"):
            response = tab.page.goto(path, timeout=12 * DEADLINE * 1000)
            assert response is not None
            assert response.ok, path
            assert len(response.body()) < LARGEST_PAGE, path
        tab.page.goto(shown.link)
        expect(tab.page.locator("#map text.across").last).to_have_text("2000")
        tab.page.goto(f"{shown.link}/turn/{TURNS}?branch=main")
        tab.page.keyboard.press("p")
        expect(tab.page.locator("h1")).to_contain_text(f"Turn {TURNS - 1}")
        assert tab.said == []


def test_line_of_5_mb_is_shown_as_truncated_text_with_a_link_to_all_of_it(
    browser: Browser, postgres_server: PostgresServer, template: str, tmp_path: Path
) -> None:
    with (
        serve(postgres_server, template, tmp_path, browser, one_line()) as shown,
        browser.new_context(base_url=shown.url) as context,
    ):
        tab = open_tab(context, shown)
        response = tab.page.goto(f"{shown.link}/turn/2?branch=main&sent=client", timeout=12 * DEADLINE * 1000)
        assert response is not None
        assert len(response.body()) < LARGEST_PAGE
        block = tab.page.locator("li.block", has_text="tool result").first
        block.locator("summary").click()
        expect(block.locator("pre")).to_contain_text("<script>alert")
        assert tab.page.locator("main img").count() == 0
        with tab.page.expect_download() as begun:
            block.get_by_role("link", name="Download all").click()
        assert begun.value.path().stat().st_size > LINE
        assert tab.said == []
