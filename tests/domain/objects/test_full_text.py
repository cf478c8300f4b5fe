"""The text of an object's blocks equals the text that segmentation gave it."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.full_text import full_text, list_attached
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage
from mnemosyne.domain.text.stubs import LONGEST
from tests.domain.segmenting_support import Talk


def blocks_of(draft: Draft, messages: Sequence[SeenMessage]) -> bytes:
    """The blocks of a draft as consecutive JSON, as a client writes them."""
    found = (messages[place.message].content[place.block] for place in draft.places)
    return b"".join(json.dumps(block).encode() for block in found)


def test_call_precedes_its_results_wherever_the_blocks_are() -> None:
    talk = Talk().assistant(
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "tool_use", "id": "1", "name": "Grep", "input": {"pattern": "first"}},
        {"type": "tool_use", "id": "2", "name": "Grep", "input": {"pattern": "second"}},
    )
    talk.results(("2", "answer two"), ("1", [{"type": "text", "text": "answer one"}]))
    content = b",".join(json.dumps(block).encode() for message in talk.messages for block in message.content)
    assert full_text(content) == "pattern: second\nanswer two\npattern: first\nanswer one"


def test_a_string_is_a_text_and_a_call_may_be_unanswered() -> None:
    assert full_text(b'"said"') == "said"
    assert full_text(b'{"type": "tool_use", "id": "1", "name": "n", "input": {"a": "b"}}') == "a: b\n"
    assert full_text(b"") == ""


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "1" * 4301, "NaN", "-Infinity", "1e400"])
def test_number_outside_the_float_range_leaves_an_object_readable(number: str) -> None:
    given = f'{{"n":{number},"command":"make"}}'
    call = f'{{"type":"tool_use","id":"a","name":"bash","input":{given}}}'
    text = full_text(f'{call},{{"type":"tool_result","tool_use_id":"a","content":"done {number}"}}'.encode())
    assert text == f"n: {number}\ncommand: make\ndone {number}"


def test_unpaired_surrogate_can_be_stored() -> None:
    assert full_text(rb'"a\ud83d"') == "a?"


@pytest.mark.parametrize("content", [b"{", b"nothing", b"[" * 100_000])
def test_invalid_json_is_rejected(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"Expecting|deep"):
        full_text(content)


@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_json_has_a_text(value: object) -> None:
    full_text(json.dumps(value).encode()).encode()


def test_attached_image_is_returned_unchanged_and_named_by_its_call_and_type() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    words = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "It says so itself."}}
    asked = {"type": "tool_use", "id": "1", "name": "shot", "input": {"page": "/a\n--- data", "more": "x" * 5_000}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "Here."}, image, words]}
    pasted = {**image, "cache_control": {"type": "ephemeral"}}
    content = b",".join(json.dumps(block).encode() for block in (asked, result, pasted))
    assert [each.block for each in list_attached(content)] == [image, image]
    assert "It says so itself." in full_text(content)
    of_call, unnamed = (each.name for each in list_attached(content))
    assert of_call.startswith("page: /a --- data more: xxx")
    assert of_call.endswith("\n[image png, 9 B]")
    assert len(of_call) == LONGEST + len("\n[image png, 9 B]")
    assert unnamed == "[image png, 9 B]"
