"""Two messages have the same digest exactly if the provider's prefix check treats them as equal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire import normal_form
from mnemosyne.domain.wire.normal_form import Echo, compare_blocks, message_digest
from tests.blocks import result, text


def digest(message: Any) -> bytes:
    return message_digest(json.dumps(message).encode())[1]


def call(**arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": "n", "input": arguments}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hi", [text("hi")]),
        ([text("hi")], [text(" hi\n", cache_control={"type": "ephemeral"})]),
        ([text("hi"), text(" ")], [text("hi")]),
        ([call(a=1, b=2.0)], [call(b=2, a=1.0)]),
        ([result("t", "x")], [result("t", [text("x", cache_control={})])]),
        (
            [{"type": "document", "source": {"content": [text("x")]}}],
            [{"source": {"content": [text("x", cache_control=1)]}, "type": "document"}],
        ),
    ],
)
def test_differences_that_do_not_count(one: Any, other: Any) -> None:
    assert digest({"role": "user", "content": one}) == digest({"content": other, "role": "user"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([call(a=1)], [call(a=True)]),
        ([call(a="1")], [call(a=1)]),
        ([call(a=2**60)], [call(a=2**60 + 1)]),
        ([call(cache_control=1)], [call()]),
        ([call(text=" x")], [call(text="x")]),
        ([result("t", " x")], [result("t", "x")]),
        ([text("a"), text("b")], [text("ab")]),
        ("a  b", "a b"),
        ("\ud800", "\udc00"),
        ("é", "e"),
    ],
)
def test_differences_that_count(one: Any, other: Any) -> None:
    assert digest({"role": "user", "content": one}) != digest({"role": "user", "content": other})
    assert digest({"role": "user", "content": one}) != digest({"role": "assistant", "content": one})


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_anything_but_a_message_is_compared_by_its_bytes(one: bytes, other: bytes) -> None:
    assert (message_digest(b"x" + one) == message_digest(b"x" + other)) == (one == other)


def test_values_nested_too_deep_are_compared_by_their_bytes() -> None:
    raw = b'{"role":"user","content":[' + b"[" * 150 + b"]" * 150 + b"]}"
    assert message_digest(raw)[0] == ""
    assert message_digest(raw) != message_digest(raw + b" ")
    assert message_digest(b"[" * 100_000)[0] == ""


def test_a_missing_content_is_not_an_empty_one() -> None:
    assert digest({"role": "user"}) != digest({"role": "user", "content": None})


THINKING = {"type": "thinking", "thinking": "", "signature": "s"}


@pytest.mark.parametrize(
    ("echoed", "reply", "expected"),
    [
        ([call(t=60000)], [call(t=60000.0)], Echo.SAME),
        ([call(t=2**60)], [call(t=2**60 + 1)], Echo.SAME),
        ([text("a")], [THINKING, text(""), text("a", citations=None)], Echo.SAME),
        ([THINKING, text("a")], [THINKING, text("a")], Echo.SAME),
        ([], [text(" ")], Echo.SAME),
        ([], [], Echo.SAME),
        ([text("a")], [text("a"), call()], Echo.TRIMMED),
        ([text("ab")], [text("abc"), call()], Echo.TRIMMED),
        (
            [{"type": "thinking", "thinking": "ab"}],
            [{"type": "thinking", "thinking": "abc", "signature": "s"}],
            Echo.TRIMMED,
        ),
        ([], [text("a")], Echo.TRIMMED),
        ([text("ab"), call()], [text("abc"), call()], Echo.REWRITTEN),
        ([text("a"), call()], [text("a")], Echo.REWRITTEN),
        ([call(a=1)], [call(a=2)], Echo.REWRITTEN),
        ([text("b")], [], Echo.REWRITTEN),
        (["b"], [text("b")], Echo.REWRITTEN),
    ],
)
def test_an_echo_is_compared_with_the_reply(echoed: list[Any], reply: list[Any], expected: Echo) -> None:
    assert compare_blocks(echoed, reply) is expected


def test_a_number_beyond_any_double_is_compared_without_an_error() -> None:
    assert compare_blocks([call(a=10**400)], [call(a=10**400)]) is Echo.SAME


def test_an_echo_nested_too_deep_is_compared_without_an_error() -> None:
    deep: Any = []
    for _ in range(normal_form.DEEPEST + 5):
        deep = [deep]
    assert compare_blocks([call(a=deep)], [call(a=deep)]) is Echo.SAME


def test_system_and_tools_are_digested_without_markers() -> None:
    assert normal_form.system_digest("x") == normal_form.system_digest([text("x", cache_control={})])
    assert normal_form.tools_digest([{"name": "a", "cache_control": {}}]) == normal_form.tools_digest([{"name": "a"}])
    assert normal_form.tools_digest([{"name": "a"}, {"name": "b"}]) != normal_form.tools_digest(
        [{"name": "b"}, {"name": "a"}]
    )
