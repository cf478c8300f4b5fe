"""Every page in a browser: its console stays empty, it works with a keyboard and a screen reader, and it follows the
log.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import axe
from tests.browser.conftest import Shown, Tab, find_serious, open_tab, taken_away
from tests.profiles import rarely
from tests.waiting import DEADLINE

PAGES = (
    "/-/?by=model",
    "{link}",
    "{link}/turn/20",
    "{link}/conversation",
    "{link}/object/",
    "/-/search?q=parser",
    "/-/known",
    *rarely(
        [
            "{link}/window?turn=20",
            "{link}/what-if",
            "{link}/turn/19/to/20",
            "/-/known?day=2030-01-01&prompt=which+dates+are+everywhere",
            "/-/savings",
            "/-/server",
        ]
    ),
)

COLOURFUL = ("/-/?by=model", "{link}", "{link}/turn/20", "{link}/conversation")
"""Between them they use every colour."""

expect.set_options(timeout=DEADLINE * 1000)


def first_object(page: Page, shown: Shown) -> str:
    told = page.request.get(f"{shown.url}{shown.link}.json").json()
    return str(told["view"]["map"]["spans"][0]["object"]["id"])


@pytest.fixture(scope="module")
def visitor(browser: Browser, shown: Shown) -> Iterator[Tab]:
    """A signed-in tab that goes from page to page."""
    with browser.new_context(base_url=shown.url) as context:
        yield open_tab(context, shown)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_accessible_fits_its_window_and_logs_no_console_message(
    visitor: Tab, shown: Shown, path: str
) -> None:
    visitor.said.clear()
    page = visitor.page
    address = path.format(link=shown.link)
    page.goto(address + (first_object(page, shown) if path.endswith("object/") else ""))
    expect(page.locator("h1")).to_be_visible()
    assert visitor.said == []
    page.evaluate(axe())  # the page's policy allows only its own scripts; the driver may add one
    assert find_serious(page) == []
    if path in COLOURFUL:
        page.emulate_media(color_scheme="dark")
        assert find_serious(page, only_contrast=True) == []
        page.emulate_media(color_scheme="light")
    usual = page.viewport_size
    assert usual is not None
    for width in (360, 3840):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size(usual)


def test_map_turns_and_evicted_objects_are_shown_without_scripts(browser: Browser, shown: Shown) -> None:
    with browser.new_context(base_url=shown.url, java_script_enabled=False) as context:
        page = open_tab(context, shown).page
        page.goto(shown.link)
        expect(page.locator("#map rect[data-object]").first).to_be_visible()
        expect(page.locator("text=objects shortened or evicted")).to_be_visible()
        page.goto(f"{shown.link}/turn/20")
        assert page.locator("ol.blocks > li").count() > 10


@pytest.mark.parametrize("scripts", [False, True])
def test_window_is_shown_at_any_turn_with_and_without_scripts(browser: Browser, shown: Shown, scripts: bool) -> None:
    with browser.new_context(base_url=shown.url, java_script_enabled=scripts) as context:
        page = open_tab(context, shown).page
        page.goto(shown.link)
        page.get_by_label("At turn").fill("12")
        if not scripts:
            page.get_by_role("button", name="Show", exact=True).click()
        expect(page.locator("#window .total")).to_contain_text("Turn 12")
        expect(page).to_have_url(re.compile("window\\?branch=main&turn=12" if not scripts else f"{shown.session}$"))


def test_session_list_narrows_while_typing(tab: Tab) -> None:
    tab.page.goto("/-/")
    expect(tab.page.locator("tbody tr:has(td)")).to_have_count(1)
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("nothing has this")
    expect(tab.page.locator("tbody tr:has(td)")).to_have_count(0)
    tab.page.locator("#q").fill("date parser")
    expect(tab.page.locator("tbody tr:has(td)")).to_have_count(1)
    assert tab.said == []


def test_click_on_a_band_opens_its_object_and_on_the_background_its_turn(tab: Tab, shown: Shown) -> None:
    tab.page.goto(shown.link)
    band = tab.page.locator("#map rect[data-object]").first
    name = band.get_attribute("data-object")
    band.click()
    expect(tab.page).to_have_url(re.compile(f"/object/{name}$"))
    tab.page.go_back()
    chart = tab.page.locator("#map")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    tab.page.mouse.click(box["x"] + box["width"] * 0.97, box["y"] + 30)
    expect(tab.page).to_have_url(re.compile(r"/turn/(30|31)\?branch=main$"))


def test_charts_are_zoomed_by_keys(tab: Tab, shown: Shown) -> None:
    tab.page.goto(shown.link)
    for name in ("#map", "#money"):
        drawn = tab.page.locator(name)
        drawn.locator("..").focus()
        before = drawn.bounding_box()
        tab.page.keyboard.press("+")
        after = drawn.bounding_box()
        assert before is not None
        assert after is not None
        assert after["width"] > 1.4 * before["width"]


def test_keys_move_through_the_turns(tab: Tab, shown: Shown) -> None:
    tab.page.goto(f"{shown.link}/turn/20?branch=main")
    tab.page.keyboard.press("n")
    expect(tab.page.locator("h1")).to_contain_text("Turn 21")
    tab.page.keyboard.press("p")
    expect(tab.page.locator("h1")).to_contain_text("Turn 20")


def test_keys_work_before_a_page_is_loaded_completely(tab: Tab, shown: Shown) -> None:
    tab.page.route("**/page.js", lambda route: None)  # so a script that runs after loading never does
    tab.page.goto(f"{shown.link}/turn/24?branch=main", wait_until="commit")
    expect(tab.page.locator("h1")).to_contain_text("Turn 24")
    tab.page.keyboard.press("n")
    expect(tab.page.locator("h1")).to_contain_text("Turn 25")


def test_opened_block_shows_its_full_text_and_executes_none_of_it(tab: Tab, shown: Shown) -> None:
    tab.page.goto(f"{shown.link}/turn/3?branch=main&sent=client")
    block = tab.page.locator("li.block", has_text="tool result").first
    block.locator("summary").click()
    expect(block.locator("pre")).to_contain_text("<script>alert")
    assert tab.page.locator("main img").count() == 0
    assert tab.said == []


def test_conversation_unfolds_an_item_and_keys_jump_to_a_prompt(tab: Tab, shown: Shown) -> None:
    tab.page.goto(f"{shown.link}/conversation")
    result = tab.page.locator("article.result").last
    expect(result.locator("pre")).not_to_contain_text("step_29_100")
    result.get_by_text("Show all of it").click()
    expect(result.locator(".content pre")).to_contain_text("step_29_100")
    expect(result.locator(".first")).to_be_hidden()
    tab.page.keyboard.press("p")
    tab.page.wait_for_url("**at=*")
    tab.page.keyboard.press("j")
    expect(tab.page.locator("article.prompt")).to_be_focused()
    result.get_by_role("link", name="JSON").click()
    expect(tab.page.locator("pre")).to_contain_text('"tool_use_id":"toolu_')
    assert tab.said == []


def test_activity_is_listed_as_it_happens_without_a_reload(tab: Tab, shown: Shown) -> None:
    tab.page.goto(shown.link)
    expect(tab.page.locator("#live")).to_have_text("Live")
    newest = tab.page.locator("#happenings + div tbody tr").first
    expect(newest).not_to_contain_text("seen by a test")
    name = first_object(tab.page, shown)
    tab.page.evaluate("window.same = true")
    for command in (["pin", name, "--reason", "seen by a test"], ["unpin", name, "--reason", "no more"]):
        shown.command(*command, "--session", shown.session)
        expect(newest).to_contain_text(command[-1])
    assert tab.page.evaluate("window.same")
    assert tab.said == []


def test_button_pins_and_unpins_an_object(tab: Tab, shown: Shown) -> None:
    tab.page.goto(f"{shown.link}/object/{first_object(tab.page, shown)}")
    tab.page.get_by_role("button", name="Pin").click()
    expect(tab.page.locator("dl.pairs")).to_contain_text("on the page")
    tab.page.get_by_role("button", name="Unpin").click()
    expect(tab.page.locator("dl.pairs")).not_to_contain_text("on the page")
    assert tab.said == []


def test_other_policy_is_simulated_and_its_map_shown_next_to_the_recorded_one(tab: Tab, shown: Shown) -> None:
    tab.page.goto(f"{shown.link}/what-if")
    tab.page.get_by_label("Policy").select_option("simple")
    tab.page.get_by_role("button", name="Simulate").click()
    expect(tab.page.locator("#simulated rect.L0").first).to_be_visible()
    expect(tab.page.locator("#map rect.L0").first).to_be_visible()
    expect(tab.page.get_by_role("rowheader", name="simulated: simple")).to_be_visible()
    assert tab.said == []


@pytest.mark.release
def test_page_of_a_recorded_session_of_many_turns_is_small(browser: Browser, recorded: Shown) -> None:
    with browser.new_context(base_url=recorded.url) as context:
        tab = open_tab(context, recorded)
        for path in (recorded.link, f"{recorded.link}/turn/100", f"{recorded.link}/conversation", "/-/"):
            response = tab.page.goto(path)
            assert response is not None
            assert response.ok
            assert len(response.body()) < 1_000_000
        assert tab.said == []


def test_page_reports_a_lost_database_or_sign_in_and_recovers(browser: Browser, shown: Shown) -> None:
    with browser.new_context(base_url=shown.url) as context:
        page = open_tab(context, shown).page
        page.goto(shown.link)
        live = page.locator("#live")
        expect(live).to_have_text("Live")
        page.evaluate("document.addEventListener('refreshed', () => { document.body.title = 'shown anew'; })")
        with taken_away(shown):
            expect(live).to_contain_text("The database is away")
            expect(page.locator("#map rect[data-object]").first).to_be_visible()
            context.clear_cookies()
            expect(live).to_contain_text("Run `mnemosyne open`")
        context.add_cookies([{"name": "mnemosyne", "value": shown.cookie, "url": f"{shown.url}/-/"}])
        expect(live).to_have_text("Live")
        expect(page.locator("body")).to_have_attribute("title", "shown anew")
