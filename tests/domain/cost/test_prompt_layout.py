"""A body is laid out as the provider's cache sees it, both alone and from the previous body."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.prompt import Tier
from mnemosyne.domain.cost.prompt_layout import PromptLayout, lay_out
from mnemosyne.domain.wire import transcript
from tests.blocks import text
from tests.domain.recorded import dumps
from tests.not_none import not_none

MARKER = {"type": "ephemeral"}
TOOL = {"name": "Bash", "input_schema": {"type": "object"}}
Json = dict[str, Any]


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def body(*messages: Json, **members: Any) -> bytes:
    return dumps({"model": "claude-opus-5-5", "messages": list(messages), **members})


def laid(raw: bytes, before: PromptLayout | None = None) -> PromptLayout:
    return not_none(lay_out(transcript.read(raw, before.read if before else None).transcript, before))


def contents_of(layout: PromptLayout) -> tuple[Any, ...]:
    """Return everything in a layout that is compared."""
    return layout.prompt, layout.markers, layout.head, layout.ends, layout.typed, layout.image


def test_blocks_are_ordered_by_tier_and_each_message_ends_with_its_blocks() -> None:
    layout = laid(body(user(text("a"), text("b")), assistant(text("c")), system="Be good.", tools=[TOOL, TOOL]))
    assert [step.block.tier for step in layout.prompt] == [Tier.TOOLS] * 2 + [Tier.SYSTEM] + [Tier.MESSAGES] * 3
    assert (layout.head, layout.ends) == (3, (5, 6))
    assert [layout.up_to(count) for count in range(3)] == [3, 5, 6]


def test_the_clients_own_markers_are_found_wherever_they_are() -> None:
    system = [text("one", cache_control=MARKER), text("two", cache_control={**MARKER, "ttl": "1h"})]
    messages = [user(text("a", cache_control=MARKER), text("b")), assistant(text("c")), user(text("d"))]
    assert laid(body(*messages, system=system)).markers == {0: "5m", 1: "1h", 2: "5m"}
    assert laid(body(*messages, cache_control=MARKER)).markers == {0: "5m", 3: "5m"}


def test_a_marker_mentioned_in_text_is_not_a_marker() -> None:
    call = {"type": "tool_use", "id": "t", "name": "Write", "input": {"cache_control": MARKER}}
    spoken = text('{"cache_control": {"type": "ephemeral"}}')
    assert laid(body(user(spoken), assistant(call))).markers == {}


def test_a_billing_line_before_the_system_prompt_is_not_part_of_the_prompt() -> None:
    billing = [text("x-anthropic-billing-header: cch=1"), text("Be good.")]
    assert laid(body(user(text("a")), system=billing)).prompt == laid(body(user(text("a")), system="Be good.")).prompt


def test_models_that_do_not_keep_thinking_drop_that_of_earlier_exchanges() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    opening = [user(text("a")), assistant(thought, text("b"))]
    asks = user({"type": "tool_result", "tool_use_id": "t", "content": "r"})
    first = laid(body(*opening, asks, model="claude-sonnet-4-5"))
    then = laid(body(*opening, asks, assistant(text("c")), user(text("d")), model="claude-sonnet-4-5"), first)
    assert "thinking" in [step.block.kind for step in first.prompt]
    assert "thinking" not in [step.block.kind for step in then.prompt]
    kept = laid(body(*opening, user(text("d"))))
    assert "thinking" in [step.block.kind for step in kept.prompt]


def test_parameters_that_change_the_cached_prompt_are_in_its_keys() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    plain = laid(body(user(text("a"))))
    for other in (
        body(user(text("a")), model="claude-sonnet-5-5"),
        body(user(text("a")), thinking={"type": "adaptive"}),
        body(user(text("a")), tool_choice={"type": "any"}),
        body(user(text("a")), user(image)),
    ):
        assert laid(other, plain).prompt[0].digest != plain.prompt[0].digest
    assert laid(body(user(text("a")), max_tokens=7), plain).prompt == plain.prompt


def test_a_body_that_is_not_a_conversation_has_no_layout() -> None:
    for raw in (b"{", b'{"messages": 1}', dumps({"model": "m", "messages": []}), dumps({"input": "x"})):
        assert lay_out(transcript.read(raw).transcript) is None


BLOCKS = st.sampled_from(
    [
        text("said"),
        text("more", cache_control=MARKER),
        text(" "),
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_result", "tool_use_id": "t", "content": "done"},
        {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
        {"strange": [1, {"cache_control": 2}]},
    ]
)
MESSAGES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant"]),
        st.lists(BLOCKS, max_size=3) | st.text(max_size=3),
    ),
    min_size=1,
    max_size=6,
)
HEADS = st.sampled_from(
    [
        {},
        {"system": "Be good."},
        {"tools": [TOOL]},
        {"tools": [{**TOOL, "cache_control": MARKER}], "system": [text("a")]},
    ]
)
MODELS = st.sampled_from(["claude-opus-5-5", "claude-sonnet-4-5"])


@given(MESSAGES, MESSAGES, st.integers(0, 6), HEADS, HEADS, MODELS, MODELS)
def test_a_previous_body_does_not_change_the_layout(
    one: list[Json], other: list[Json], shared: int, head: Json, then: Json, model: str, later: str
) -> None:
    before = laid(body(*one, **head, model=model))
    raw = body(*one[:shared], *other, **then, model=later)
    assert contents_of(laid(raw, before)) == contents_of(laid(raw))


@pytest.mark.parametrize("strange", [None, 3, {"a": 1}, [1, None]])
def test_malformed_tools_and_system_prompts_are_ignored(strange: object) -> None:
    layout = lay_out(transcript.read(body(user(text("a")), tools=strange, system=strange)).transcript)
    assert layout is None or layout.head == 0
