"""What is sent of a client's tools follows from them and the budget alone; what is not paged keeps every byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.segmentation.ingest import head_of
from mnemosyne.domain.tools import tool_paging
from mnemosyne.domain.tools.memory_tools import TOOL, TOOL_JSON, tools_json
from mnemosyne.domain.tools.tool_paging import (
    BYTES_PER_TOKEN,
    COMMON,
    LARGEST,
    LONGEST_LINE,
    WORTH,
    definitions,
    forecast_paging,
    loads_tools_itself,
    page_tools,
    tools_of,
)
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.wire import json_spans, transcript
from mnemosyne.domain.wire.messages import MESSAGES
from tests.domain.recorded import captures, dumps

Json = dict[str, Any]

MARKER = {"type": "ephemeral"}
SPACES = st.sampled_from(["", " ", "\n  "])
WORDS = st.text(max_size=60)


def tool(name: str, size: int, **more: Any) -> Json:
    """A tool whose schema takes about so many bytes."""
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "x" * size}}}
    return {"name": name, "description": f"Does {name}. " + "Much more. " * 20, "input_schema": schema, **more}


def elements(tools: bytes) -> list[bytes]:
    ranges = json_spans.elements(tools, 0)
    assert ranges is not None
    return [tools[start:end] for start, end in ranges]


def names(tools: bytes) -> list[object]:
    return [each.get("name") for each in json.loads(tools)]


@st.composite
def definitions_of_any_kind(draw: st.DrawFn) -> Json:
    found = tool(draw(st.text("abc_-", min_size=1, max_size=5)), draw(st.integers(0, 2_000)))
    found["description"] = draw(WORDS) + found["description"] + draw(WORDS)
    more: dict[str, st.SearchStrategy[Any]] = {
        "cache_control": st.just(MARKER),
        "eager_input_streaming": st.just(True),
        "type": st.sampled_from(["custom", "bash_20250124"]),
        "strict": st.just(True),
        "defer_loading": st.just(True),
        "input_examples": st.just([{"path": "a"}]),
    }
    for key in draw(st.sets(st.sampled_from(sorted(more)), max_size=2)):
        found[key] = draw(more[key])
    for key in draw(st.sets(st.sampled_from(["description", "input_schema"]), max_size=1)):
        if draw(st.booleans()):
            del found[key]
    return dict(draw(st.permutations(sorted(found.items()))))


@st.composite
def arrays(draw: st.DrawFn) -> bytes:
    """Tools as some client might write them."""
    found = draw(st.lists(definitions_of_any_kind(), max_size=6))
    ascii_only, space = draw(st.booleans()), draw(SPACES)
    written = (json.dumps(each, ensure_ascii=ascii_only, separators=(",", ":" + space)) for each in found)
    text = "[" + space + f"{space},{space}".join(written) + space + "]"
    return text.encode("utf-8", "surrogatepass")


BUDGETS = st.integers(0, 4_000)


# Laws


@given(arrays(), BUDGETS)
def test_names_and_order_are_the_clients_and_what_is_not_paged_keeps_its_bytes(tools: bytes, budget: int) -> None:
    sent = page_tools(tools, budget)
    assert names(sent) == names(tools)
    for before, after in zip(elements(tools), elements(sent), strict=True):
        said, shown = json.loads(before), json.loads(after)
        if before == after:
            continue
        assert shown == said | {"description": shown["description"], "input_schema": shown["input_schema"]}
        assert list(shown) == list(said)
        assert shown["input_schema"] == {"type": "object", "additionalProperties": True}
        assert TOOL in shown["description"]
        assert len(shown["description"].split(" [")[0]) <= LONGEST_LINE
        assert said.get("type", "custom") == "custom"
        assert not {"strict", "defer_loading", "input_examples"} & said.keys()


@given(arrays(), BUDGETS)
def test_what_is_sent_with_the_tool_that_asks_is_never_larger(tools: bytes, budget: int) -> None:
    sent = page_tools(tools, budget)
    assert sent == tools or len(sent) + len(b"," + TOOL_JSON) < len(tools)


@given(arrays(), BUDGETS)
def test_what_was_paged_once_is_left_alone(tools: bytes, budget: int) -> None:
    sent = page_tools(tools, budget)
    assert page_tools(sent, budget) == sent


@given(st.lists(st.tuples(st.integers(0, 2_000), st.booleans()), max_size=6), BUDGETS)
def test_a_marker_moves_nothing_in_or_out_of_the_budget(drawn: list[tuple[int, bool]], budget: int) -> None:
    """A client marks another tool, or none: the rest must stay what it was, or all of the cache would be lost."""
    bare = [tool(f"t{number}", size) for number, (size, _) in enumerate(drawn)]
    marked = [{**each, "cache_control": MARKER} if mark else each for each, (_, mark) in zip(bare, drawn, strict=True)]
    found = json.loads(page_tools(dumps(marked), budget))
    for each in found:
        each.pop("cache_control", None)
    assert found == json.loads(page_tools(dumps(bare), budget))


@given(arrays(), BUDGETS)
def test_every_paged_definition_can_be_had_whole(tools: bytes, budget: int) -> None:
    whole = definitions(tools)
    for before, after in zip(elements(tools), elements(page_tools(tools, budget)), strict=True):
        if before != after:
            said = json.loads(before)
            candidates = [each for each in json.loads(tools) if each["name"] == said["name"]]
            told = json.loads(whole[said["name"]])
            assert told.keys() == {"name", "description", "input_schema"}
            assert any(told.items() <= each.items() for each in candidates)
            assert tool_paging.tokens(whole[said["name"]]) <= LARGEST // BYTES_PER_TOKEN


@given(st.binary(max_size=200), BUDGETS)
def test_whatever_is_no_array_of_tools_stays_as_it_is(raw: bytes, budget: int) -> None:
    assert page_tools(raw, budget) == raw
    definitions(raw)


@pytest.mark.parametrize("raw", [b"", b"null", b'["a",1,null,{}]', b'[{"name":1}]', b"[" * 10_000 + b"]" * 10_000])
def test_strange_tools_stay_as_they_are(raw: bytes) -> None:
    assert page_tools(raw, 0) == raw
    assert definitions(raw) == {}


# The rule


def test_the_largest_leave_until_the_rest_fits() -> None:
    tools = dumps([tool("small", 500), tool("large", 6_000), tool("middle", 2_000)])

    def left_whole(budget: int) -> list[str]:
        pairs = zip(elements(tools), elements(page_tools(tools, budget)), strict=True)
        return [json.loads(before)["name"] for before, after in pairs if before == after]

    assert left_whole(len(tools)) == ["small", "large", "middle"]
    assert left_whole(1_600) == ["small", "middle"]
    assert left_whole(700) == ["small"]
    assert left_whole(0) == []


def test_what_every_session_calls_stays_whole_and_takes_its_part_of_the_budget() -> None:
    tools = dumps([tool("Bash", 9_000), tool("edit", 4_000), tool("Workflow", 2_000)])
    sent = page_tools(tools, len(tools) // BYTES_PER_TOKEN - 10)
    assert [TOOL in each["description"] for each in json.loads(sent)] == [False, False, True]
    assert page_tools(tools, 0) == sent


def test_a_tool_of_the_providers_or_a_deferred_one_pushes_none_out() -> None:
    """The provider does not compare those that are deferred: one that comes later breaks nothing, and so must we."""
    own = [tool("one", 3_000), tool("two", 2_000)]
    budget = len(dumps(own)) // BYTES_PER_TOKEN + 1
    for other in (tool("late", 9_000, defer_loading=True), tool("bash", 9_000, type="bash_20250124")):
        both = dumps([*own, other])
        assert page_tools(both, budget) == both


def test_of_tools_of_one_size_the_first_leave() -> None:
    tools = dumps([tool(name, 3_000) for name in "abc"])
    sent = page_tools(tools, len(tools) // 2 // BYTES_PER_TOKEN)
    assert [len(each) > 3_000 for each in elements(sent)] == [False, False, True]


def test_a_tool_that_is_hardly_shortened_or_too_large_to_come_back_stays_whole() -> None:
    little = {"name": "little", "description": "Does.", "input_schema": {"x": "y" * (WORTH - 100)}}
    huge = tool("huge", LARGEST)
    tools = dumps([little, huge])
    assert page_tools(tools, 0) == tools


# In a request


def request(tools: list[Json]) -> transcript.Transcript:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Go on."}]}]
    return transcript.read(dumps({"model": "claude-opus-5-5", "tools": tools, "messages": messages})).transcript


def sent_of(read: transcript.Transcript, budget: int | None) -> list[Json]:
    history = upstream_history.first(
        [read.message_bytes(number) for number in range(len(read.messages))], dialect=MESSAGES
    )
    body = upstream_history.body(read, history, tools_json(MESSAGES), hour=True, tool_budget=budget)
    found: list[Json] = json.loads(body)["tools"]
    return found


def test_the_tool_that_asks_stands_last_and_only_where_another_is_paged() -> None:
    marked = tool("Look", 4_000, cache_control=MARKER)
    read = request([marked])
    own = [json.loads(each) for each in tools_json(MESSAGES)]
    assert sent_of(read, None) == sent_of(read, 10_000) == [{**marked, "cache_control": HOUR}, *own]
    paged_tool, *behind = sent_of(read, 0)
    assert behind == [*own, json.loads(TOOL_JSON)]
    assert paged_tool["cache_control"] == HOUR
    assert TOOL in paged_tool["description"]


HOUR = {**MARKER, "ttl": "1h"}


def test_the_head_is_measured_as_it_is_sent() -> None:
    read = request([tool("Look", 9_000)])
    whole, small = (Estimator.of(None).tokens(head_of(read, budget)) for budget in (None, 0))
    assert small < whole / 3
    assert head_of(read, 100_000) == head_of(read)
    assert head_of(request([]), 0) == head_of(request([]))


# Real clients


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
            said = json.loads(before)
            if "defer_loading" in said or said["name"].lower() in COMMON:
                assert before == after, (name, said["name"])
            elif len(before) > 1_000:
                assert len(after) < 400, (name, said["name"])
    assert seen


def captured(run: str) -> bytes:
    """The tools of a recorded run of a client."""
    return next(
        dumps(capture["body"]["tools"])
        for name, capture in captures()
        if name.startswith(f"{run}/") and capture["body"].get("tools")
    )


def test_a_real_client_that_loads_tools_itself_is_told_from_those_that_send_them_all() -> None:
    assert [loads_tools_itself(captured(run)) for run in ("cc-loop30", "cc197-think", "oc-loop30")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("more", [{"defer_loading": True}, {"type": "tool_search_tool_regex_20251119"}])
def test_one_deferred_tool_or_one_that_searches_tools_is_enough(more: Json) -> None:
    assert loads_tools_itself(dumps([tool("a", 9), {**tool("b", 9), **more}]))
    assert not loads_tools_itself(dumps([tool("a", 9), {**tool("b", 9), "defer_loading": False}]))
    found = forecast_paging(request([tool("a", 9_000), {**tool("b", 9), **more}]), ())
    assert (found.saved, found.is_the_clients) == (0, True)


@pytest.mark.parametrize(("run", "least"), [("cc197-think", 10_000), ("oc-loop30", 1_000)])
def test_what_is_foretold_of_paging_is_what_paging_everything_does(run: str, least: int) -> None:
    tools = captured(run)
    read = request(json.loads(tools))
    found = forecast_paging(read, {"Read", "read", "WebFetch", "webfetch"})
    sent = page_tools(tools, 0)
    assert found.tools == len(definitions(tools))
    assert list(found.paged) == [each["name"] for each in json.loads(sent) if TOOL in each["description"]]
    assert {name.lower() for name in found.called} == {"webfetch"}
    whole, small = (Estimator.of(read.fields.model).tokens(head_of(read, budget)) for budget in (None, 0))
    assert least < found.saved
    assert whole - small - 100 < found.saved < whole - small


def test_nothing_is_foretold_where_nothing_is_paged() -> None:
    for tools in ([], [tool("a", 9)]):
        found = forecast_paging(request(tools), {"a"})
        assert (found.tools, found.paged, found.saved) == (len(tools), (), 0)
