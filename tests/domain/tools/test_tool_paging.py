"""The paged tools depend only on the client's tools and the budget, and tools that are not paged keep every byte."""

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
    LARGEST,
    LONGEST_LINE,
    WORTH,
    definitions,
    loads_tools_itself,
    page_tools,
)
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.wire import json_spans, transcript
from mnemosyne.domain.wire.messages import MESSAGES
from tests.domain.recorded import dumps
from tests.not_none import not_none

Json = dict[str, Any]

MARKER = {"type": "ephemeral"}
SPACES = st.sampled_from(["", " ", "\n  "])
WORDS = st.text(max_size=60)


def tool(name: str, size: int, **more: Any) -> Json:
    """Return a tool whose schema takes about this many bytes."""
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "x" * size}}}
    return {"name": name, "description": f"Does {name}. " + "Much more. " * 20, "input_schema": schema, **more}


def elements(tools: bytes) -> list[bytes]:
    ranges = not_none(json_spans.elements(tools, 0))
    return [tools[start:end] for start, end in ranges]


def names(tools: bytes) -> list[object]:
    return [tool.get("name") for tool in json.loads(tools)]


@st.composite
def definitions_of_any_kind(draw: st.DrawFn) -> Json:
    definition = tool(draw(st.text("abc_-", min_size=1, max_size=5)), draw(st.integers(0, 2_000)))
    definition["description"] = draw(WORDS) + definition["description"] + draw(WORDS)
    more: dict[str, st.SearchStrategy[Any]] = {
        "cache_control": st.just(MARKER),
        "eager_input_streaming": st.just(True),
        "type": st.sampled_from(["custom", "bash_20250124"]),
        "strict": st.just(True),
        "defer_loading": st.just(True),
        "input_examples": st.just([{"path": "a"}]),
    }
    for key in draw(st.sets(st.sampled_from(sorted(more)), max_size=2)):
        definition[key] = draw(more[key])
    for key in draw(st.sets(st.sampled_from(["description", "input_schema"]), max_size=1)):
        if draw(st.booleans()):
            del definition[key]
    return dict(draw(st.permutations(sorted(definition.items()))))


@st.composite
def arrays(draw: st.DrawFn) -> bytes:
    """Draw arrays of tools as some client might write them."""
    drawn = draw(st.lists(definitions_of_any_kind(), max_size=6))
    ascii_only, space = draw(st.booleans()), draw(SPACES)
    written = (json.dumps(definition, ensure_ascii=ascii_only, separators=(",", ":" + space)) for definition in drawn)
    text = "[" + space + f"{space},{space}".join(written) + space + "]"
    return text.encode("utf-8", "surrogatepass")


BUDGETS = st.integers(0, 4_000)


# Laws


@given(arrays(), BUDGETS)
def test_names_and_order_are_kept_and_unpaged_tools_keep_their_bytes(tools: bytes, budget: int) -> None:
    sent = page_tools(tools, budget)
    assert names(sent) == names(tools)
    for before, after in zip(elements(tools), elements(sent), strict=True):
        original, shown = json.loads(before), json.loads(after)
        if before == after:
            continue
        assert shown == original | {"description": shown["description"], "input_schema": shown["input_schema"]}
        assert list(shown) == list(original)
        assert shown["input_schema"] == {"type": "object", "additionalProperties": True}
        assert TOOL in shown["description"]
        assert len(shown["description"].split(" [")[0]) <= LONGEST_LINE
        assert original.get("type", "custom") == "custom"
        assert not {"strict", "defer_loading", "input_examples"} & original.keys()


@given(arrays(), BUDGETS)
def test_paged_tools_with_the_memory_tool_are_never_larger(tools: bytes, budget: int) -> None:
    sent = page_tools(tools, budget)
    assert sent == tools or len(sent) + len(b"," + TOOL_JSON) < len(tools)


@given(arrays(), BUDGETS)
def test_paging_paged_tools_changes_nothing(tools: bytes, budget: int) -> None:
    sent = page_tools(tools, budget)
    assert page_tools(sent, budget) == sent


@given(st.lists(st.tuples(st.integers(0, 2_000), st.booleans()), max_size=6), BUDGETS)
def test_markers_do_not_count_towards_the_budget(drawn: list[tuple[int, bool]], budget: int) -> None:
    """If a client moves a marker, the other tools must not change, or the whole cache would be lost."""
    bare = [tool(f"t{number}", size) for number, (size, _) in enumerate(drawn)]
    marked = [{**tool, "cache_control": MARKER} if mark else tool for tool, (_, mark) in zip(bare, drawn, strict=True)]
    paged = json.loads(page_tools(dumps(marked), budget))
    for definition in paged:
        definition.pop("cache_control", None)
    assert paged == json.loads(page_tools(dumps(bare), budget))


@given(arrays(), BUDGETS)
def test_every_paged_definition_is_available_in_full(tools: bytes, budget: int) -> None:
    whole = definitions(tools)
    for before, after in zip(elements(tools), elements(page_tools(tools, budget)), strict=True):
        if before != after:
            original = json.loads(before)
            candidates = [tool for tool in json.loads(tools) if tool["name"] == original["name"]]
            definition = json.loads(whole[original["name"]])
            assert definition.keys() == {"name", "description", "input_schema"}
            assert any(definition.items() <= tool.items() for tool in candidates)
            assert tool_paging.tokens(whole[original["name"]]) <= LARGEST // BYTES_PER_TOKEN


@given(st.binary(max_size=200), BUDGETS)
def test_anything_but_an_array_of_tools_is_unchanged(raw: bytes, budget: int) -> None:
    assert page_tools(raw, budget) == raw
    definitions(raw)


@pytest.mark.parametrize("raw", [b"", b"null", b'["a",1,null,{}]', b'[{"name":1}]', b"[" * 10_000 + b"]" * 10_000])
def test_malformed_tools_are_unchanged(raw: bytes) -> None:
    assert page_tools(raw, 0) == raw
    assert definitions(raw) == {}


# The rule


def test_the_largest_tools_are_paged_until_the_rest_fits() -> None:
    tools = dumps([tool("small", 500), tool("large", 6_000), tool("middle", 2_000)])

    def kept_whole(budget: int) -> list[str]:
        pairs = zip(elements(tools), elements(page_tools(tools, budget)), strict=True)
        return [json.loads(before)["name"] for before, after in pairs if before == after]

    assert kept_whole(len(tools)) == ["small", "large", "middle"]
    assert kept_whole(1_600) == ["small", "middle"]
    assert kept_whole(700) == ["small"]
    assert kept_whole(0) == []


def test_common_tools_are_not_paged_but_count_towards_the_budget() -> None:
    tools = dumps([tool("Bash", 9_000), tool("edit", 4_000), tool("Workflow", 2_000)])
    sent = page_tools(tools, len(tools) // BYTES_PER_TOKEN - 10)
    assert [TOOL in tool["description"] for tool in json.loads(sent)] == [False, False, True]
    assert page_tools(tools, 0) == sent


def test_provider_tools_and_deferred_tools_do_not_displace_others() -> None:
    """The provider does not compare deferred tools, so one that appears later must change nothing."""
    own = [tool("one", 3_000), tool("two", 2_000)]
    budget = len(dumps(own)) // BYTES_PER_TOKEN + 1
    for other in (tool("late", 9_000, defer_loading=True), tool("bash", 9_000, type="bash_20250124")):
        both = dumps([*own, other])
        assert page_tools(both, budget) == both


def test_the_first_of_equally_large_tools_are_paged() -> None:
    tools = dumps([tool(name, 3_000) for name in "abc"])
    sent = page_tools(tools, len(tools) // 2 // BYTES_PER_TOKEN)
    assert [len(element) > 3_000 for element in elements(sent)] == [False, False, True]


def test_a_tool_that_saves_little_or_is_too_large_to_restore_is_not_paged() -> None:
    little = {"name": "little", "description": "Does.", "input_schema": {"x": "y" * (WORTH - 100)}}
    huge = tool("huge", LARGEST)
    tools = dumps([little, huge])
    assert page_tools(tools, 0) == tools


# In a request


def request(tools: list[Json]) -> transcript.Transcript:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Go on."}]}]
    return transcript.read(dumps({"model": "claude-opus-5-5", "tools": tools, "messages": messages})).transcript


def sent_of(read: transcript.Transcript, budget: int | None) -> list[Json]:
    history = upstream_history.begin(read)
    body = upstream_history.body(read, history, tools_json(MESSAGES), hour=True, tool_budget=budget)
    tools: list[Json] = json.loads(body)["tools"]
    return tools


def test_the_memory_tool_is_last_and_only_present_if_another_is_paged() -> None:
    marked = tool("Look", 4_000, cache_control=MARKER)
    read = request([marked])
    own = [json.loads(definition) for definition in tools_json(MESSAGES)]
    assert sent_of(read, None) == sent_of(read, 10_000) == [{**marked, "cache_control": HOUR}, *own]
    paged_tool, *behind = sent_of(read, 0)
    assert behind == [*own, json.loads(TOOL_JSON)]
    assert paged_tool["cache_control"] == HOUR
    assert TOOL in paged_tool["description"]


HOUR = {**MARKER, "ttl": "1h"}


def test_the_head_is_measured_with_paged_tools() -> None:
    read = request([tool("Look", 9_000)])
    whole, small = (Estimator.of(None).tokens(head_of(read, budget)) for budget in (None, 0))
    assert small < whole / 3
    assert head_of(read, 100_000) == head_of(read)
    assert head_of(request([]), 0) == head_of(request([]))


@pytest.mark.parametrize("more", [{"defer_loading": True}, {"type": "tool_search_tool_regex_20251119"}])
def test_one_deferred_tool_or_a_tool_search_is_enough(more: Json) -> None:
    assert loads_tools_itself(dumps([tool("a", 9), {**tool("b", 9), **more}]))
    assert not loads_tools_itself(dumps([tool("a", 9), {**tool("b", 9), "defer_loading": False}]))
