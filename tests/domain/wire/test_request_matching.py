"""Two runs of the same work send the same requests, apart from what clients vary."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.request_matching import (
    RequestComparison,
    RequestDifference,
    compare,
    find_place,
    find_prompt,
)
from mnemosyne.domain.wire.responses import RESPONSES
from tests.domain.wire.dialects import TALK, WRITTEN, Exchange, Written, bodies

REQUEST: dict[str, Any] = {
    "model": "m",
    "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"}, {"type": "text", "text": "Be brief."}],
    "messages": [{"role": "user", "content": "Today is 2026-11-27."}],
    "metadata": {"user_id": "1"},
}


def changed(**members: Any) -> RequestComparison:
    return compare(REQUEST, {**REQUEST, **members})


@pytest.mark.parametrize(
    ("members", "ignored", "path"),
    [
        ({"metadata": {"user_id": "2"}}, "metadata", "metadata"),
        ({"prompt_cache_key": "k"}, "cache settings", "prompt_cache_key"),
        (
            {"messages": [{"role": "user", "content": "Today is 2026-11-28."}]},
            "ids, dates and times in texts",
            "messages[0].content",
        ),
        (
            {"system": [{"type": "text", "text": "x-anthropic-billing-header: 2"}, REQUEST["system"][1]]},
            "the billing line",
            "system[0]",
        ),
        ({"system": REQUEST["system"][1:]}, "the billing line", "system[0]"),
    ],
)
def test_what_clients_vary_is_ignored_and_named(members: dict[str, Any], ignored: str, path: str) -> None:
    assert changed(**members) == RequestComparison((), {ignored: path})


@pytest.mark.parametrize(
    "head", ["Chunk ID: 1a\nWall time: {} seconds", "Script completed\nWall time {} seconds\nOutput:\n"]
)
def test_time_that_a_command_of_codex_took_is_ignored(head: str) -> None:
    one, other = (
        {"input": [{"type": "custom_tool_call_output", "output": head.format(each)}]} for each in ("0.1", "0.2")
    )
    assert compare(one, other).differences == ()


def test_place_does_not_depend_on_the_messages_of_other_agents() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "wait_agent", "arguments": "{}"}
    report = {"type": "agent_message", "author": "/root/a", "content": [{"type": "input_text", "text": "Done."}]}
    assert find_place({"input": [call, report, report]}, RESPONSES) == find_place({"input": [call]}, RESPONSES)


def test_text_equals_a_block_of_it_with_a_cache_marker() -> None:
    block = {"type": "text", "text": REQUEST["messages"][0]["content"], "cache_control": {"type": "ephemeral"}}
    assert changed(messages=[{"role": "user", "content": [block]}]).differences == ()


def test_difference_is_shown_with_its_place_and_both_values() -> None:
    messages = [{"role": "user", "content": "Today is 2026-11-27. Hurry."}, {"role": "user", "content": "Now"}]
    assert changed(messages=messages, model=None).differences == (
        RequestDifference("model", '"m"', "nothing"),
        RequestDifference("messages[0].content", "Today is ….", "Today is …. Hurry."),
        RequestDifference("messages[1]", "nothing", '{"role": "user", "content": "Now"}'),
    )


def test_what_another_version_adds_is_the_only_difference() -> None:
    def ask(*lists: list[Any]) -> dict[str, Any]:
        return dict(zip(("messages", "tools"), lists, strict=True))

    talk = [each for number in range(3) for each in call_and_result(f"c{number}")]
    notice, tools = {"role": "system", "content": "1 token left"}, [{"name": name} for name in "abc"]
    recorded, now = ask(talk, tools), ask([*talk[:2], notice, *talk[2:]], tools[1:])
    assert compare(recorded, now).differences == (
        RequestDifference("messages[2]", "nothing", '{"role": "system", "content": "1 token l…'),
        RequestDifference("tools[0]", '{"name": "a"}', "nothing"),
    )


def call_and_result(call: str) -> list[Any]:
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "n", "input": {"of": call}}]}
    return [used, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "done"}]}]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_request_equals_itself_and_comparing_is_symmetric(first: Any, second: Any) -> None:
    assert compare(first, first) == RequestComparison((), {})
    there, back = compare(first, second), compare(second, first)
    assert bool(there.differences) == bool(back.differences)
    assert sorted(there.ignored) == sorted(back.ignored)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda each: each.dialect.name)
def test_place_is_the_calls_of_each_reply_so_far(written: Written) -> None:
    places = [find_place(json.loads(body), written.dialect) for body in bodies(written)]
    flat = [tuple(call for reply in place for call in reply) for place in places]
    assert flat[:4] == [(), ("call_1",), ("call_1", "call_2", "call_3"), ("call_1", "call_2", "call_3")]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda each: each.dialect.name)
def test_prompt_is_the_last_element_unless_that_is_a_result(written: Written) -> None:
    requests = [json.loads(body) for body in bodies(written)]
    found = [find_prompt(request, written.dialect) for request in requests]
    last = len(requests[0][written.dialect.array]) - 1
    assert found[:3] == [f"{written.dialect.array}[{last}]", None, None]
    other = json.loads(bodies(written, [Exchange("Something else?", TALK[0].replies)])[0])
    assert compare(requests[0], other).differs_in(found[0] or "")
