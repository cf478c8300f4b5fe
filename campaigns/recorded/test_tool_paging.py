"""The tools of real clients are paged to the budget."""

import json

from mnemosyne.domain.tools.tool_paging import BYTES_PER_TOKEN, COMMON, loads_tools_itself, page_tools, tools_of
from mnemosyne.domain.wire import transcript
from tests.domain.recorded import captures, dumps
from tests.domain.tools.test_tool_paging import elements


def test_the_tools_of_real_clients_are_paged_to_the_budget() -> None:
    seen = set()
    for name, capture in captures():
        body = capture["body"]
        if not body.get("tools") or "input_schema" not in body["tools"][0] or dumps(body["tools"]) in seen:
            continue
        raw = dumps(body["tools"])
        seen.add(raw)
        read = transcript.read(dumps(body)).transcript
        assert tools_of(read) == raw, name
        everything = page_tools(raw, 0)
        for budget in (2_000, 4_000):
            sent = page_tools(raw, budget)
            assert len(sent) <= max(budget * BYTES_PER_TOKEN + 200, len(everything)), (name, budget)
        for before, after in zip(elements(raw), elements(everything), strict=True):
            original = json.loads(before)
            if "defer_loading" in original or original["name"].lower() in COMMON:
                assert before == after, (name, original["name"])
            elif len(before) > 1_000:
                assert len(after) < 400, (name, original["name"])
    assert seen


def captured(run: str) -> bytes:
    return next(
        dumps(capture["body"]["tools"])
        for name, capture in captures()
        if name.startswith(f"{run}/") and capture["body"].get("tools")
    )


def test_a_real_client_that_loads_tools_itself_is_recognized() -> None:
    assert [loads_tools_itself(captured(run)) for run in ("cc-loop30", "cc197-think", "oc-loop30")] == [
        True,
        False,
        False,
    ]
