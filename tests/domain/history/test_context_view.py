import json
from typing import Any

from mnemosyne.domain.cost.tokens import Estimator, features_of_block
from mnemosyne.domain.history.context_view import compare, no_blocks, reply_blocks, view
from mnemosyne.domain.wire.messages import MESSAGES

MARKER = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def _body(messages: list[dict[str, Any]], **members: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages} | members).encode()


TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Look at this."},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s" * 400},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "a\nb\x1b[2J"}]},
            {"type": "image", "source": {"type": "base64", "data": "A" * 4000}, **MARKER},
        ],
    },
]


def test_each_block_has_its_location_kind_and_origin() -> None:
    seen = view(
        _body(TALK, system="Be brief.", tools=[{"name": "Bash", "input_schema": {}}], max_tokens=5), [1, 2, 2], MESSAGES
    )
    assert [
        (block.section, block.message, block.role, block.kind, block.name or block.tool_id) for block in seen.blocks
    ] == [
        ("tools", None, None, "tool", "Bash"),
        ("system", None, None, "text", None),
        ("messages", 0, "user", "text", None),
        ("messages", 1, "assistant", "thinking", None),
        ("messages", 1, "assistant", "tool_use", "Bash"),
        ("messages", 2, "user", "tool_result", "toolu_1"),
        ("messages", 2, "user", "image", None),
    ]
    assert [block.origin for block in seen.blocks] == [None, None, 1, 2, 2, 2, 2]
    assert [block.marker for block in seen.blocks] == [None] * 6 + ["1h"]
    assert seen.settings == {"model": "m", "max_tokens": 5}
    assert seen.blocks[5].preview.isprintable()
    assert seen.blocks[5].preview.startswith("a b")


def test_size_counts_bytes_and_tokens_estimate_text() -> None:
    body = _body(TALK)
    blocks = view(body, [1, 1, 1], MESSAGES).blocks
    assert [json.loads(body[slice(*block.span)]) for block in blocks[1:]] == [
        block for message in TALK[1:] for block in message["content"]
    ]
    assert all(block.size == block.span[1] - block.span[0] for block in blocks)
    content = [{"type": "text", "text": "Look at this."}, *TALK[1]["content"], TALK[2]["content"][0]]
    estimator = Estimator.of("m")
    assert [block.tokens for block in blocks[:-1]] == [estimator.tokens(features_of_block(each)) for each in content]
    assert blocks[-1].tokens is None  # an image has no text


def test_cached_blocks_of_a_request_are_reused_and_equal() -> None:
    known = no_blocks()
    grown = _body([TALK[0], *TALK, TALK[0]], system="Be brief.")
    for body, origins in ((_body(TALK), [1, 2, 2]), (grown, [1, 1, 2, 2, 3]), (_body(TALK, model="n"), [4, 4, 4])):
        assert view(body, origins, MESSAGES, known) == view(body, origins, MESSAGES)
        read = len(known.values())
        assert view(body, origins, MESSAGES, known) == view(body, origins, MESSAGES)
        assert len(known.values()) == read
    assert read == 2 * len(TALK)  # per model; a message in two places is cached once


def test_a_body_that_is_no_conversation_has_no_blocks() -> None:
    assert view(b"not JSON", [], MESSAGES).opaque == "not a JSON object"
    assert view(b'{"messages":7,"system":null}', [], MESSAGES).blocks[0].section == "system"
    assert reply_blocks(b"<html>", MESSAGES) == ()
    assert [block.kind for block in reply_blocks(b'{"content":[{"type":"text","text":"x"}]}', MESSAGES)] == ["text"]


def test_a_moved_marker_or_a_string_for_a_block_is_no_change() -> None:
    before = view(_body([{"role": "user", "content": [{"type": "text", "text": "Hi", **MARKER}]}]), [1], MESSAGES)
    after = view(_body([{"role": "user", "content": "Hi"}]), [1], MESSAGES)
    assert compare(before, after).changes == ()
    assert compare(before, after).same == 1


def test_added_removed_and_changed_blocks_are_reported() -> None:
    old = [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "3"},
    ]
    new = [old[0], {"role": "assistant", "content": "Other."}, *old[2:], {"role": "assistant", "content": "Four."}]
    tools = [{"name": "a"}, {"name": "b"}]
    found = compare(
        view(_body(old, tools=tools, max_tokens=1), [1, 2, 2], MESSAGES),
        view(_body(new, tools=tools[:1], max_tokens=2), [1, 2, 2, 3], MESSAGES),
    )
    assert [
        (change.what, shown.kind, shown.preview) for change in found.changes if (shown := change.after or change.before)
    ] == [("removed", "tool", ""), ("changed", "text", "Other."), ("added", "text", "Four.")]
    assert found.settings == {"max_tokens": (1, 2)}
    assert found.same == 3
