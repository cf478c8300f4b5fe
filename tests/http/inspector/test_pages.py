"""Every page shows its service's result, as HTML and as JSON, to authorized visitors only."""

import gzip
import json
import re
from functools import partial
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne import times
from mnemosyne.app.pages import OpenPageContext
from mnemosyne.app.simulations import Simulations
from mnemosyne.app.storage import open_storage
from mnemosyne.figures import plural
from mnemosyne.http.inspector.access import Access
from mnemosyne.http.inspector.pages import create_pages
from mnemosyne.page_links import PageLinks, PageRole
from mnemosyne.services.checkpoints import name
from mnemosyne.services.forgetting import forget
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.savings import read_savings
from mnemosyne.services.usage import read_usage
from tests.adapters.log_support import query
from tests.http.inspector.conftest import ShownLog
from tests.http.inspector.shown import NASTY, NOW, TITLE, TOKEN, Pages, fill, open_pages, session, settings
from tests.scripted_helper import Answer, open_endpoint, says

LOOKED_AT = (
    "/-/",
    "/-/?q=date+parser",
    "/-/?by=agent&order=cost",
    "/-/session/{session}",
    "/-/session/{session}/conversation",
    "/-/session/{session}/conversation?at=0",
    "/-/session/{session}/window",
    "/-/session/{session}/window?turn=20&all",
    "/-/session/{session}/what-if",
    "/-/session/{session}/compare",
    "/-/session/{session}/compare?with={session}",
    "/-/session/{session}/turn/20",
    "/-/session/{session}/turn/20?sent=client",
    "/-/session/{session}/turn/20.1-1",
    "/-/session/{session}/turn/19/to/20",
    "/-/session/{session}/turn/20/block/3",
    "/-/session/{session}/turn/20/block/3?raw",
    "/-/session/{session}/object/{object}",
    "/-/search",
    "/-/search?q=date+parser",
    "/-/search?q=date+parser&session={session}",
    "/-/known",
    "/-/known?day=2026-01-01&prompt=why+is+the+date+parser+slow",
    "/-/savings",
    "/-/server",
)


async def an_object(pages: Pages, session: str) -> str:
    page = await pages.json(f"/-/session/{session}.json")
    return str(
        next(span["object"]["id"] for span in page["view"]["map"]["spans"] if span["object"]["kind"] == "file_context")
    )


async def test_every_page_is_served_as_json_and_as_html_that_escapes_session_content(
    pages: Pages, shown: ShownLog
) -> None:
    about = {"session": shown.session, "object": await an_object(pages, shown.session)}
    for page in (path.format(**about) for path in LOOKED_AT):
        status, text = await pages.get(page)
        assert (page, status, "Traceback" in text) == (page, 200, False)
        found = Elements(text)
        assert (page, found.running) == (page, [])
        assert "img" not in found.tags, page
        assert not {"\x1b", "\u202e"} & set(text), page
        where, _, asked = page.partition("?")
        as_json = "/-/sessions.json" if where == "/-/" else f"{where}.json"
        assert await pages.json(f"{as_json}?{asked}")


async def test_every_page_says_that_models_err_and_a_session_s_page_that_it_was_compacted(
    pages: Pages, shown: ShownLog
) -> None:
    for page in ("/-/", "/-/known", f"/-/session/{shown.session}"):
        assert "Models make mistakes: check their summaries and answers." in (await pages.get(page))[1]
    _, text = await pages.get(f"/-/session/{shown.session}")
    compacted = (await pages.json(f"/-/session/{shown.session}.json"))["view"]["rewrites"]
    assert f"Compacted {plural(len(compacted), 'time')}: requests to the model shorten or omit older content." in text


async def test_a_question_has_the_same_answer_in_the_api_and_on_the_search_page(pages: Pages, shown: ShownLog) -> None:
    async def ask(client: Any, session: str, question: str) -> tuple[int, Any]:
        body = json.dumps({"question": question})
        response = await client.post(f"/-/api/v1/sessions/{session}/ask", data=body)
        return response.status_code, await response.get_json()

    status, found = await ask(pages.client, shown.session, "what does step_7_20 return?")
    assert (status, found["answered"], found["helper"]) == (200, True, None)
    assert "def step_7_20(value): return value + 20" in found["quotes"][0]["text"]
    about = f"?session={shown.session}&q=what+does+step_7_20+return?"
    shown_answer = (await pages.json(f"/-/search.json{about}"))["answer"]
    assert [each["quote"]["text"] for each in shown_answer["cited"]] == [each["text"] for each in found["quotes"]]
    assert "def step_7_20(value): return value + 20" in (await pages.get(f"/-/search{about}"))[1]
    assert "Not in memory." in (await pages.get(f"/-/search?session={shown.session}&q=who+won+the+regatta?"))[1]
    assert f'name="session" value="{shown.session}"' in (await pages.get(f"/-/session/{shown.session}"))[1]
    refused = [await ask(pages.client, "nowhere", "why?"), await ask(pages.client, shown.session, " ")]
    refused.append(await ask(pages.app.test_client(), shown.session, "why?"))
    assert [status for status, _ in refused] == [404, 400, 401]


STEP = "def step_7_20(value): return value + 20"


async def test_only_a_request_of_its_owner_asks_a_helper_model_which_is_recorded(shown: ShownLog) -> None:
    def reply(path: str, body: Any) -> Answer:
        passages = re.split(r"\n[0-9a-f]{24} passage \d+: ", body["messages"][-1]["content"])
        number = next(number for number, passage in enumerate(passages) if number and STEP in passage)
        sentence = {"text": "Step 20 adds 20.", "passage": number, "quote": STEP}
        return says(path, json.dumps({"sentences": [sentence], "look_for": ""}))

    question = {"question": "what does step_7_20 return?"}
    form = {"q": question["question"], "session": shown.session}
    recorded = "select count(*) from mnemosyne.stored_events where topic = 'session.helper_asked.v2'"
    async with open_endpoint(reply) as endpoint:
        url = f"{endpoint.url}/v1"
        role = PageRole.OWNER
        async with open_pages(
            shown.dsn, shown.folder, role, helper="openai", helper_model="m", helper_url=url
        ) as pages:
            _, text = await pages.get(f"/-/search?session={shown.session}&q=what+does+step_7_20+return?")
            address = f"/-/api/v1/sessions/{shown.session}/ask"
            found = await (await pages.client.post(address, data=json.dumps(question))).get_json()
            assert (found["helper"], found["answered"]) == (None, True)
            assert (await pages.client.post("/-/search", form=form)).status_code == 403
            assert (endpoint.requests, query(shown.dsn, recorded)) == ([], [(0,)])
            assert "Ask the helper model" in text
            (word,) = set(re.findall(r'name="word" value="([^"]+)"', text))
            response = await pages.client.post("/-/search", form={**form, "word": word})
            assert (response.status_code, query(shown.dsn, recorded)) == (200, [(1,)])
            assert "Step 20 adds 20." in await response.get_data(as_text=True)
            headers = {"Authorization": f"Bearer {TOKEN}"}
            found = await (await pages.client.post(address, data=json.dumps(question), headers=headers)).get_json()
            assert [each["sentence"] for each in found["quotes"]] == ["Step 20 adds 20."]
            assert (len(endpoint.requests), query(shown.dsn, recorded)) == (2, [(2,)])


@pytest.mark.release
async def test_a_session_s_page_links_its_checkpoints_and_their_differences(pages: Pages, shown: ShownLog) -> None:
    page = f"/-/session/{shown.session}"
    await pages.get(page)  # the first answer is cached until there are more turns
    async with open_storage(settings(shown.dsn, shown.folder)) as storage:
        for turn, called in ((12, "before"), (18, "after")):
            await name(storage, shown.session, called, branch="main", turn=turn, stamp=WriteStamp(NOW, "c"))
    _, text = await pages.get(page)
    assert "<mark>before</mark>" in text
    assert "<mark>after</mark>" in text
    between = re.search(r'href="([^"]+/turn/12/to/18[^"]*)"', text)
    assert between is not None
    assert (await pages.get(between[1]))[0] == 200
    _, named = await pages.get(f"{page}/turn/12")
    assert "<h1>Turn 12 <mark>before</mark>" in named
    assert f"<code>mnemosyne fork {shown.session[:8]} --at 12 --data-dir &#39;/a log&#39;</code>" in named, (
        "it runs as it is"
    )
    points = (await pages.json(f"{page}.json"))["checkpoints"]
    assert {(each["name"], each["turn"]) for each in points} >= {("before", 12), ("after", 18)}


@pytest.mark.release
async def test_events_of_a_session_are_chosen_by_time_and_by_actor(pages: Pages, shown: ShownLog) -> None:
    page = f"/-/session/{shown.session}"
    by_model = (await pages.json(f"{page}.json?by=model"))["happenings"]
    assert {each["by"] for each in by_model} == {"model"}
    at = times.utc(by_model[-1]["at"]).isoformat()
    older = (await pages.json(f"{page}.json?until={quote(at)}"))["happenings"]
    assert older
    assert all(each["at"] <= by_model[-1]["at"] for each in older)
    assert (await pages.json(f"{page}.json?since=2999-01-01"))["happenings"] == []
    status, text = await pages.get(f"{page}?by=provider")
    assert status == 200
    assert "<option selected>provider</option>" in text
    assert (await pages.get(f"{page}?by=nobody"))[0] == 400


async def test_costs_of_the_session_list_are_those_of_the_commands(pages: Pages, shown: ShownLog) -> None:
    models = pages.page_context.models
    whole = (await read_usage(models, "session", None)).groups
    saved = (await read_savings(models)).sessions
    page = await pages.json("/-/sessions.json?by=model&order=cost")
    total = sum(use.nanodollars for use in whole.values())
    assert page["periods"]["Spent"]["nanodollars"] == sum(use["nanodollars"] for _, use in page["spent"]) == total > 0
    assert [each["cost"] or 0 for each in page["sessions"]] == sorted(
        (saved[key].nanodollars for key in saved), reverse=True
    )
    filtered = await pages.json("/-/sessions.json?q=nothing+else")
    assert (filtered["sessions"], filtered["periods"]["Spent"]["replies"]) == ([], 0)
    one = await pages.json(f"/-/sessions.json?q={shown.other}")
    assert one["periods"]["Spent"]["nanodollars"] == whole[UUID(shown.other)].nanodollars


@pytest.mark.release
async def test_each_row_of_the_window_links_to_its_object_or_block(pages: Pages, shown: ShownLog) -> None:
    _, text = await pages.get(f"/-/session/{shown.session}/window?turn=20")
    contents = text[text.index('class="contents"') : text.index('aria-label="Turns of the window"')]
    links = {link.replace("&amp;", "&") for link in re.findall(r'href="(/[^"]+)"', contents)}
    assert len(re.findall('<th scope="row">', contents)) == len(
        re.findall('<th scope="row">(?=.*(?:href|<details))', contents)
    )
    assert {"object", "turn"} == {link.split("/")[4] for link in links}
    for link in links:
        page, _, anchor = link.partition("#")
        status, found = await pages.get(page)
        assert (status, not anchor or f'id="{anchor}"' in found) == (200, True), link


async def test_the_window_is_part_of_the_session_s_page_and_counted_as_in_its_turn(
    pages: Pages, shown: ShownLog
) -> None:
    page = f"/-/session/{shown.session}"
    (window, last) = (await pages.json(f"{page}.json"))["window"], await pages.json(f"{page}/window.json")
    assert window.items() <= last.items()
    assert (last["turn"], last["counted"]) == (31, False)
    before = await pages.json(f"{page}/window.json?turn=12")
    assert before["turn"] == 12
    files = next(kind for kind in before["kinds"] if kind["kind"] == "files")
    assert files["groups"][0]["label"].startswith("/src/app/part")
    assert (await pages.get(f"{page}/window.json?turn=99"))[0] == 404
    assert "has turns 1 to 31, and not 99" in (await pages.get(f"{page}/window?turn=99"))[1]


async def test_settings_are_shown_as_text(pages: Pages) -> None:
    page = {name: each["value"] for name, each in (await pages.json("/-/server.json"))["settings"].items()}
    assert page["tenant_keys"] == "none"
    assert not {"None", "", "()"} & set(page.values())
    assert "dsn" not in page


class Elements(HTMLParser):
    """The elements of a page, and their attributes that a browser would execute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.running: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.running += [
            name for name, value in attrs if name.startswith("on") or (value or "").startswith("javascript:")
        ]
        if tag == "script" and "src" not in dict(attrs):
            self.running.append("inline script")


async def test_a_block_is_shown_in_full_on_request(pages: Pages, shown: ShownLog) -> None:
    blocks = (await pages.json(f"/-/session/{shown.session}/turn/3.json?sent=client"))["view"]["blocks"]
    number = next(each["number"] for each in blocks if each["block"]["kind"] == "tool_result")
    page = await pages.json(f"/-/session/{shown.session}/turn/3/block/{number}.json?sent=client")
    assert json.loads(page["text"])["content"].count(NASTY) == 119


async def test_a_reply_is_shown_in_full_on_request(pages: Pages, shown: ShownLog) -> None:
    reply = f"/-/session/{shown.session}/turn/3/reply"
    assert json.loads((await pages.json(f"{reply}/0.json"))["text"])["text"] == "I read part 2."
    assert json.loads((await pages.get(f"{reply}/1/whole"))[1])["name"] == "Read"
    assert (await pages.get(f"{reply}/9"))[0] == 404


@pytest.mark.release
async def test_a_megabyte_line_is_truncated_with_a_download_link(dsn: str, tmp_path: Path) -> None:
    line = (NASTY * (1_000_000 // len(NASTY) + 1))[:1_000_000]
    large = session(turns=1)
    large["messages"][2]["content"][0]["content"] = line
    (stream,) = await trio.to_thread.run_sync(fill, dsn, tmp_path, large)
    async with open_pages(dsn, tmp_path) as pages:
        own = f"/-/session/{stream}"
        blocks = (await pages.json(f"{own}/turn/2.json?sent=client"))["view"]["blocks"]
        held = next(each for each in blocks if each["block"]["kind"] == "tool_result")
        block = f"{own}/turn/2/block/{held['number']}"
        spans = (await pages.json(f"{own}.json"))["view"]["map"]["spans"]
        largest = max((span["object"] for span in spans), key=lambda each: int(each["tokens"]))["id"]
        for path in (
            own,
            f"{own}/conversation",
            f"{own}/turn/2",
            f"{own}/turn/1/to/2",
            f"{own}/object/{largest}",
            block,
        ):
            status, text = await pages.get(f"{path}?sent=client")
            assert (path, status) == (path, 200)
            assert len(text) < 200_000, path
            assert Elements(text).running == [], path
        assert f'<a href="{block}/whole?sent=client" download>' in (await pages.get(f"{block}?sent=client"))[1]
        assert json.loads((await pages.get(f"{block}/whole?sent=client"))[1])["content"] == line
        assert (await pages.get(f"{own}/object/{largest}/L0"))[1].count("<script>") == line.count("<script>")


async def test_the_bytes_of_a_request_can_be_downloaded_with_their_hash(pages: Pages, shown: ShownLog) -> None:
    response = await pages.client.get(f"/-/session/{shown.session}/turn/25/body")
    body = await response.get_data()
    assert response.headers["X-Sha256"] == sha256(body).hexdigest()
    page = (await pages.json(f"/-/session/{shown.session}/turn/25.json"))["view"]["context"]["rebuilt"]
    assert page["sha256"] == sha256(body).hexdigest()
    assert response.headers["Content-Disposition"].startswith("attachment")


async def test_a_turn_s_page_links_its_manifest(pages: Pages, shown: ShownLog) -> None:
    at = f"/-/session/{shown.session}/turn/25"
    _, text = await pages.get(at)
    assert f"{at}/manifest.json?branch=main" in text
    manifest, view = await pages.json(f"{at}/manifest.json"), (await pages.json(f"{at}.json"))["view"]
    assert manifest["request"]["sha256"] == view["context"]["rebuilt"]["sha256"]
    assert len(view["blocks"]) == 1 + max(number for page in manifest["pages"] for number in page["blocks"])


MISSING = {
    "/-/session/nobody": 404,
    "/-/session/{session}?branch=nobody": 404,
    "/-/session/{session}/turn/999": 404,
    "/-/session/{session}/turn/x": 404,
    "/-/session/{session}/turn/1x": 400,
    "/-/session/{session}/turn/3/block/99999": 404,
    "/-/session/{session}/object/nobody": 404,
    "/-/session/{session}/object/nobody/L0": 404,
    "/-/session/{session}/what-if?policy=nothing": 404,
    "/-/nothing": 404,
}


async def test_a_missing_page_is_reported_in_one_sentence(pages: Pages, shown: ShownLog) -> None:
    for path, status in MISSING.items():
        found, text = await pages.get(path.format(session=shown.session))
        assert (path, found) == (path, status)
        assert "<h1>Cannot show this page</h1>" in text, path
        where, _, asked = path.format(session=shown.session).partition("?")
        response = await pages.client.get(f"{where}.json?{asked}")
        assert response.status_code in (status, 404), path
        assert "error" in await response.get_json(), path


async def test_an_object_of_another_session_is_reported_with_its_session(tmp_path: Path, dsn: str) -> None:
    play = partial(fill, dsn, tmp_path, session("mine", 2), session("other", 3))
    mine, other = await trio.to_thread.run_sync(play)
    async with open_pages(dsn, tmp_path) as pages:
        spans = (await pages.json(f"/-/session/{mine}.json"))["view"]["map"]["spans"]
        key = next(span["object"]["id"] for span in spans)
        status, text = await pages.get(f"/-/session/{other}/object/{key}")
        assert (status, f"it belongs to session {mine}" in text) == (404, True)


async def test_a_visitor_without_credentials_sees_only_how_to_sign_in(pages: Pages, shown: ShownLog) -> None:
    stranger = pages.app.test_client()
    for path in ("/-/", f"/-/session/{shown.session}", "/-/events", f"/-/session/{shown.session}/turn/3/body"):
        response = await stranger.get(path)
        text = await response.get_data(as_text=True)
        assert response.status_code == 401
        assert "mnemosyne open" in text
        assert TITLE not in text
    assert (await stranger.get("/-/static/page.css")).status_code == 200


async def test_a_link_works_once_and_its_secret_is_removed_from_the_address(pages: Pages) -> None:
    secret = pages.access.links.make(PageRole.OWNER, NOW)
    browser = pages.app.test_client()
    first = await browser.get(f"/-/?q=x&token={secret}")
    assert (first.status_code, first.headers["Location"]) == (303, "/-/?q=x")
    assert {"HttpOnly", "SameSite=Strict", "Path=/-/"} <= set(first.headers["Set-Cookie"].split("; "))
    assert (await browser.get("/-/")).status_code == 200
    assert (await pages.app.test_client().get(f"/-/?token={secret}")).status_code == 403


async def test_every_response_has_the_content_security_policy(pages: Pages) -> None:
    for path in ("/-/", "/-/nothing", "/-/static/page.js", "/-/sessions.json"):
        policy = (await pages.client.get(path)).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


async def test_a_reader_can_view_but_not_change(shown: ShownLog) -> None:
    async with open_pages(shown.dsn, shown.folder, PageRole.READER) as pages:
        where = f"/-/session/{shown.session}/object/{await an_object(pages, shown.session)}"
        _, text = await pages.get(where)
        assert "<form" not in text
        assert (await pages.client.post(f"{where}/pin", form={"word": "guessed"})).status_code == 403


async def test_a_pin_is_recorded_before_the_page_shows_it_and_can_be_undone(pages: Pages, shown: ShownLog) -> None:
    where = f"/-/session/{shown.other}/object/{await an_object(pages, shown.other)}"
    _, text = await pages.get(where)
    word = re.search(r'name="word" value="(\w+)"', text)
    assert word is not None
    assert (await pages.client.post(f"{where}/pin", form={"word": "another"})).status_code == 403
    done = await pages.client.post(f"{where}/pin", form={"word": word[1], "reason": "needed"})
    assert (done.status_code, done.headers["Location"]) == (303, where)
    assert (await pages.json(f"{where}.json"))["view"]["object"]["pin"]["reason"] == "needed"
    await pages.client.post(f"{where}/unpin", form={"word": word[1]})
    assert (await pages.json(f"{where}.json"))["view"]["object"]["pin"] is None
    session = f"/-/session/{shown.other}"
    for switch, on in (("manage", True), ("off", False)):
        assert (await pages.client.post(f"{session}/{switch}", form={"word": word[1]})).status_code == 303
        assert (await pages.json(f"{session}.json"))["switched_on"] is on
        assert ("Stop managing" in (await pages.get(session))[1]) is on


async def test_an_evicted_object_shows_time_cause_savings_and_the_turn_s_changes(pages: Pages, shown: ShownLog) -> None:
    page = (await pages.json(f"/-/session/{shown.session}.json"))["view"]
    last = page["turns"][-1]["turn"]
    left = next(each for each in page["map"]["spans"] if each["last"] == last and each["fidelity"] == "L4")
    where = f"/-/session/{shown.session}/object/{left['object']['id']}"
    (departure,) = (await pages.json(f"{where}.json"))["view"]["departures"]
    assert departure["turn"] == left["first"]
    assert departure["turns"] == last - left["first"] + 1
    assert departure["tokens"] == left["object"]["tokens"]
    _, text = await pages.get(where)
    assert f"Evicted from main in turn {left['first']}, because" in text
    assert f"This made each of {departure['turns']} turns about" in text
    (other,) = re.findall(r'href="([^"?]+)[^"]*">What else changed', text)
    upstream, by_client = [
        {each["what"] for each in (await pages.json(f"{other}.json{asked}"))["found"]["changes"]}
        for asked in ("", "?sent=client")
    ]
    assert by_client == {"added"}  # a client only goes on
    assert upstream > by_client


async def test_an_evicted_object_can_be_restored_and_a_shown_one_released(pages: Pages, shown: ShownLog) -> None:
    spans = (await pages.json(f"/-/session/{shown.session}.json"))["view"]["map"]["spans"]
    files = dict.fromkeys(each["object"]["id"] for each in spans if each["object"]["kind"] == "file_context")
    views = [(await pages.json(f"/-/session/{shown.session}/object/{each}.json"))["view"] for each in files]
    gone = next(each["object"]["id"] for each in views if each["restore_to"] == {"main": "L1"})  # too large in full
    here = next(each["object"]["id"] for each in views if each["release_from"] == ["main"])
    _, text = await pages.get(f"/-/session/{shown.session}/object/{gone}")
    word = re.search(r'name="word" value="(\w+)"', text)
    assert word is not None
    form = {"word": word[1], "branch": "main"}

    async def post(object_id: str, what: str) -> int:
        where = f"/-/session/{shown.session}/object/{object_id}/{what}"
        return int((await pages.client.post(where, form=form)).status_code)

    assert (await post(gone, "restore"), await post(here, "release")) == (303, 303)
    # One is shown in full, the other evicted already.
    assert (await post(here, "restore"), await post(gone, "release")) == (400, 400)
    back = (await pages.json(f"/-/session/{shown.session}/object/{gone}.json"))["view"]
    away = (await pages.json(f"/-/session/{shown.session}/object/{here}.json"))["view"]
    assert back["requested"] == {"main": "L1"}
    assert (away["object"]["released"], away["release_from"]) == (True, [])


async def test_the_pages_of_a_tenant_show_no_other_tenant_s_sessions(shown: ShownLog) -> None:
    async with open_pages(shown.dsn, shown.folder, tenant="another") as pages:
        listed = await pages.json("/-/sessions.json?by=agent")
        assert (listed["sessions"], listed["spent"], listed["periods"]["Spent"]["replies"]) == ([], [], 0)
        assert (await pages.json("/-/savings.json"))["found"]["sessions"] == {}
        assert (await pages.json("/-/search.json?q=date+parser"))["found"]["found"] == []
        for path in ("", "/turn/3", "/turn/3/body", "/conversation", "/turn/2/to/3"):
            assert (await pages.get(f"/-/session/{shown.session}{path}"))[0] == 404
        assert (await pages.client.get(f"/-/events?session={shown.session}")).status_code == 404
        _, streams = await pages.page_context.beyond(0)
        assert streams == frozenset()  # nor does a client that follows all sessions get their events


async def test_a_page_reports_an_unavailable_database_and_retries(nursery: trio.Nursery, tmp_path: Path) -> None:
    page_context = OpenPageContext(settings("host=/nowhere", tmp_path), lambda: NOW, str, Simulations({}, ()))
    nursery.start_soon(page_context.keep_open)
    app = create_pages(page_context, Access(TOKEN, PageLinks(tmp_path), lambda: NOW))
    response = await app.test_client().get("/-/", headers={"Authorization": f"Bearer {TOKEN}", "Accept": "text/html"})
    text = await response.get_data(as_text=True)
    assert response.status_code == 503
    assert "The database is away" in text
    assert "data-again" in text


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/-/api/v1/recall"), ("POST", "/-/nowhere"), ("DELETE", "/-/session/x")]
)
async def test_no_response_starts_before_the_request_body_is_complete(tmp_path: Path, method: str, path: str) -> None:
    """The connection is reused, and a response in the middle of a body could block it."""
    page_context = OpenPageContext(settings("host=/nowhere", tmp_path), lambda: NOW, str, Simulations({}, ()))
    client: Any = create_pages(page_context, Access(TOKEN, PageLinks(tmp_path), lambda: NOW)).test_client()
    async with client.request(path, method=method) as connection:
        await connection.send(b"{}")
        await wait_all_tasks_blocked()
        assert connection.status_code is None
        await connection.send_complete()
        response = await connection.as_response()
    assert response.status_code == 401


async def test_a_forgotten_session_is_listed_without_content_and_its_turns_explain_why(
    dsn: str, tmp_path: Path
) -> None:
    (stream,) = await trio.to_thread.run_sync(fill, dsn, tmp_path, session(turns=3))
    async with open_pages(dsn, tmp_path) as pages:
        assert (await pages.json("/-/sessions.json"))["sessions"][0]["title"] == f"{TITLE}, please."
        await forget(pages.page_context.archive, stream, lambda: NOW, "a")
        listed = (await pages.json("/-/sessions.json"))["sessions"][0]
        assert (listed["forgotten"], listed["title"], listed["project"]) == (True, None, None)
        assert (await pages.get(f"/-/session/{stream}"))[0] == 200
        for path in ("turn/2", "window.json", "conversation.json"):
            assert (await pages.get(f"/-/session/{stream}/{path}"))[0] == 410


async def test_a_damaged_session_is_marked_and_counted_and_others_still_work(dsn: str, tmp_path: Path) -> None:
    sessions = session(turns=3), session("another", turns=2, said="nothing odd")
    hurt, whole = await trio.to_thread.run_sync(fill, dsn, tmp_path, *sessions)
    await trio.to_thread.run_sync(
        lambda: query(
            dsn,
            "update mnemosyne.stored_events set state = 'x' where originator_id = %s and originator_version = 4",
            hurt,
        )
    )
    async with open_pages(dsn, tmp_path) as pages:
        listed = (await pages.json("/-/sessions.json"))["sessions"]
        assert {each["stream"]: each["damage"] is not None for each in listed} == {str(hurt): True, str(whole): False}
        assert "event 4" in (await pages.get("/-/"))[1]
        assert "1 session" in (await pages.get("/-/server"))[1]
        assert (await pages.get(f"/-/session/{whole}"))[0] == 200


@pytest.mark.parametrize("path", ["/-/session/{session}", "/-/session/{session}.json", "/-/static/page.css"])
async def test_pages_are_compressed_if_the_client_accepts_gzip(pages: Pages, shown: ShownLog, path: str) -> None:
    page = path.format(session=shown.session)
    plain = await pages.client.get(page)
    packed = await pages.client.get(page, headers={"Accept-Encoding": "gzip, br"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    data = await packed.get_data()
    assert packed.headers.get("Content-Length") in (str(len(data)), None)  # none where the rest comes later
    assert gzip.decompress(data) == await plain.get_data()
