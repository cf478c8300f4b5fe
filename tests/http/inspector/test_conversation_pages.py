"""The page of a conversation shows what the client sent and the model answered, in order, and what became of it."""

from pathlib import Path

import pytest
import trio

from tests.http.inspector.conftest import ShownLog
from tests.http.inspector.shown import TITLE, Pages, fill, open_pages, session


async def test_items_are_in_order_with_the_turn_of_their_first_request(pages: Pages, shown: ShownLog) -> None:
    page = await pages.json(f"/-/session/{shown.other}/conversation.json")
    assert [(each["kind"], each["turn"], each["tool"]) for each, _ in page["items"]] == [
        ("prompt", 1, None),
        ("reply", 1, None),
        ("call", 1, "Read"),
        ("result", 2, "Read"),
        ("reply", 2, None),
        ("call", 2, "Read"),
        ("result", 3, "Read"),
        ("reply", 3, None),
    ]
    assert [each["block"]["preview"] for each in page["prompts"]] == [f"{TITLE}, please."]


async def test_later_fidelities_of_an_item_are_those_of_its_object(pages: Pages, shown: ShownLog) -> None:
    own = f"/-/session/{shown.session}"
    spans = (await pages.json(f"{own}.json?branch=main"))["view"]["map"]["spans"]
    items = [each for each, _ in (await pages.json(f"{own}/conversation.json?at=0"))["items"]]
    assert any(each["changes"] for each in items)
    for each in items:
        known = [span for span in spans if span["object"]["id"] == each["object"]]
        assert each["changes"] == known[1:]
    evicted = next(each for each in items if any(change["fidelity"] == "L4" for change in each["changes"]))
    _, text = await pages.get(f"{own}/conversation?at=0")
    assert f'href="{own}/object/{evicted["object"]}">evicted at turn ' in text


@pytest.mark.parametrize(("query", "first", "last"), [("", 12, 91), ("?at=0", 0, 79), ("?turn=20", 57, 91)])
async def test_page_begins_where_it_is_asked_to_and_by_default_shows_the_end(
    pages: Pages, shown: ShownLog, query: str, first: int, last: int
) -> None:
    page = await pages.json(f"/-/session/{shown.session}/conversation.json{query}")
    numbers = [each["number"] for each, _ in page["items"]]
    assert (numbers[0], numbers[-1], page["total"]) == (first, last, 92)


@pytest.mark.release
async def test_long_line_is_sent_in_part_and_its_block_is_one_link_away(dsn: str, tmp_path: Path) -> None:
    large = session(turns=1)
    large["messages"][2]["content"][0]["content"] = "<b>" * 2_000_000
    (stream,) = await trio.to_thread.run_sync(fill, dsn, tmp_path, large)
    async with open_pages(dsn, tmp_path) as pages:
        status, text = await pages.get(f"/-/session/{stream}/conversation")
        assert (status, "<b>" in text) == (200, False)
        assert len(text) < 50_000
        where = f"/-/session/{stream}/turn/2/block/5?branch=main&amp;sent=client"
        assert where in text
        status, block = await pages.get(where.replace("&amp;", "&"))
        assert status == 200
        assert "&lt;b&gt;" in block
        assert len(block) < 1_000_000
