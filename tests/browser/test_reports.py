"""Reports are files: a browser opens them without a server and without console errors, and they are accessible."""

from pathlib import Path

import attrs
from playwright.sync_api import Browser, Page, expect

from mnemosyne_lab.evaluation.report_html import report_html
from tests.browser.chromium import axe
from tests.browser.conftest import Shown, find_serious, listen
from tests.lab.evaluation.building import evaluation


def open_file(page: Page, path: Path) -> list[str]:
    """The console errors of a file, from now on."""
    said = listen(page)
    page.goto(path.as_uri())
    return said


def test_evaluation_report_opens_from_a_file_with_verdict_and_sorted_tables(browser: Browser, tmp_path: Path) -> None:
    found = attrs.evolve(evaluation(), verdict="These sessions would have cost less.", judged="half")
    path = tmp_path / "report.html"
    path.write_text(report_html(found), encoding="utf-8")
    with browser.new_context(viewport={"width": 360, "height": 800}) as context:
        page = context.new_page()
        said = open_file(page, path)
        expect(page.locator("h1 + p")).to_have_text("These sessions would have cost less.")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        table = page.locator("table.sortable").first
        table.get_by_role("button", name="billed").click()
        expect(table.locator("tbody th").first).to_have_text("unmanaged")
        table.get_by_role("button", name="billed").click()
        expect(table.locator("tbody th").first).to_contain_text("oracle")
        assert said == []
        page.evaluate(axe())
        assert find_serious(page) == []


def test_session_report_opens_from_a_file_without_its_server(browser: Browser, shown: Shown, tmp_path: Path) -> None:
    path = tmp_path / "session.html"
    shown.command("report", shown.session, "--html", str(path))
    with browser.new_context(offline=True, viewport={"width": 360, "height": 800}) as context:
        page = context.new_page()
        said = open_file(page, path)
        expect(page.locator("h1 ~ .verdict").first).to_be_visible()
        expect(page.locator("#map rect[data-object]").first).to_be_visible()
        assert page.locator("main img").count() == 0
        assert said == []
        page.evaluate(axe())
        assert find_serious(page) == []
