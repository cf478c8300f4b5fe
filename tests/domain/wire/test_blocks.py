"""Blocks of any JSON that a client sends, and their texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.blocks import (
    Block,
    attachments,
    is_any_call,
    is_any_result,
    is_call,
    is_prompt,
    is_result,
    text_of,
    type_of,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "content", "x"]), inner),
    max_leaves=8,
)
TYPES = st.sampled_from(["text", "tool_use", "tool_result", "image", "server_tool_use", "web_search_tool_result"])
BLOCKS = st.fixed_dictionaries(
    {}, optional={"type": TYPES | JSON, "text": JSON, "content": JSON, "input": JSON, "source": JSON}
)


@given(BLOCKS)
def test_any_block_is_read(block: Block) -> None:
    assert isinstance(type_of(block), str)
    assert isinstance(text_of(block), str)
    assert all(isinstance(name, str) for name in attachments(block))


@given(BLOCKS)
def test_a_block_is_a_call_or_a_result_or_neither(block: Block) -> None:
    assert not (is_any_call(block) and is_any_result(block))
    assert is_any_call(block) or not is_call(block)
    assert is_any_result(block) or not is_result(block)


def test_a_call_that_the_provider_runs_needs_no_result_from_the_client() -> None:
    call, result = {"type": "server_tool_use"}, {"type": "web_search_tool_result"}
    assert (is_any_call(call), is_call(call)) == (True, False)
    assert (is_any_result(result), is_result(result)) == (True, False)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "text", "text": "said"}, "said"),
        ({"type": "thinking", "thinking": "hm"}, ""),
        ({"type": "tool_use", "input": {"path": "a.py", "limit": 3}}, "path: a.py\nlimit: 3"),
        ({"type": "tool_result", "content": "out"}, "out"),
        ({"type": "tool_result", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"type": "tool_result"}, ""),
        ({"type": "document", "source": {"type": "text", "data": "page"}}, "page"),
        ({"type": "unheard_of", "x": 1}, '{"type": "unheard_of", "x": 1}'),
    ],
)
def test_the_text_of_a_block(block: Block, text: str) -> None:
    assert text_of(block) == text


def test_images_in_a_result_are_described_like_other_images() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    assert attachments({"type": "tool_result", "content": [image]}) == attachments(image) != []


@pytest.mark.parametrize(
    ("role", "content", "prompt"),
    [
        ("user", [{"type": "text", "text": "Go on."}], True),
        ("user", [{"type": "image", "source": {}}], True),
        ("user", [{"type": "tool_result", "content": "3"}, {"type": "text", "text": "Go on."}], False),
        ("assistant", [{"type": "text", "text": "Go on."}], False),
        (None, [], False),
    ],
)
def test_a_prompt_has_the_users_role_and_no_results(role: str | None, content: list[Block], *, prompt: bool) -> None:
    assert is_prompt(role, content) is prompt
