"""A stored reply comes back byte for byte and shares its long texts with the request that echoes it."""

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.json_spans import LONG
from mnemosyne.domain.wire.recipe import Recipe, Withheld
from mnemosyne.domain.wire.reply import ReplyBuilder
from tests.domain.recorded import dumps
from tests.profiles import examples

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.text(alphabet='ab"\\é\n', min_size=LONG),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


def check_round_trip(body: bytes) -> None:
    encoded, contents = transcript.store_reply(body, ())
    held = dict(contents)
    assert len(held) == len(contents), "each content is stored once"
    assert all(sha256(data).digest() == digest and data for digest, data in contents)
    change = recipe.decode(encoded)
    assert (change.head, change.tail) == (0, 0)
    pieces = recipe.apply(Recipe(), change).pieces
    assert not any(isinstance(piece, Withheld) for piece in pieces)
    assert recipe.assemble(pieces, held.__getitem__) == body
    assert transcript.store_reply(body, held.keys()) == (encoded, ())


@given(st.binary(max_size=2000))
@example(b"")
@example(b'"' + b"a" * 600)
@example(b'"' + b"a" * 600 + b'""' + b"a" * 600 + b'"')
def test_any_bytes_come_back(body: bytes) -> None:
    check_round_trip(body)


@given(json_values)
def test_any_json_comes_back(value: Any) -> None:
    check_round_trip(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


texts = st.text(alphabet='x"\\\n\té…', min_size=2 * LONG, max_size=3 * LONG)


@pytest.mark.parametrize("kind", ["text", "thinking", "tool_use"])
@examples(40)
@given(text=texts)
def test_a_long_text_is_stored_once_for_the_reply_and_its_echo(kind: str, text: str) -> None:
    blocks: dict[str, dict[str, Any]] = {
        "text": {"type": "text", "text": text},
        "thinking": {"type": "thinking", "thinking": text, "signature": "s"},
        "tool_use": {"type": "tool_use", "id": "t", "name": "n", "input": {"command": text}},
    }
    block = blocks[kind]
    encoded, contents = transcript.store_reply(_streamed(block), ())
    first = dumps({"messages": [{"role": "user", "content": "go"}]})
    second = dumps(
        {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [block]},
                {"role": "user", "content": "more"},
            ]
        }
    )
    known = {digest for digest, _ in contents}
    reading = transcript.read(second, transcript.read(first).transcript, known=known)
    literal = dumps(text)[1:-1]
    assert any(data == literal for _, data in contents)
    assert not any(literal in data for _, data in reading.contents)
    assert sha256(literal).digest() in recipe.decode(encoded).digests


def _streamed(block: dict[str, Any]) -> bytes:
    """Return the reply assembled from a stream with this block."""
    builder = ReplyBuilder()
    builder.take({"type": "message_start", "message": {"id": "msg", "content": []}})
    start: dict[str, Any] = {
        key: {} if key == "input" else "" if key in ("text", "thinking") else block[key] for key in block
    }
    builder.take({"type": "content_block_start", "index": 0, "content_block": start})
    for field, delta, part in (
        ("text", "text_delta", "text"),
        ("thinking", "thinking_delta", "thinking"),
        ("input", "input_json_delta", "partial_json"),
    ):
        if field in block:
            whole = block[field] if field != "input" else json.dumps(block[field])
            for piece in (whole[:7], whole[7:]):
                builder.take({"type": "content_block_delta", "index": 0, "delta": {"type": delta, part: piece}})
    return builder.result().body
