"""A layout computed from the previous one equals the layout computed alone, but a smaller range is lexed."""

import pytest

from mnemosyne.domain.wire import body_layout, recipe
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.transcript import Message


def layout_before(raw: bytes) -> body_layout.Before:
    layout = body_layout.lay_out(raw, None, 0, 0, MESSAGES)
    elements = [Message(start, end, "user", b"", b"") for start, end in layout.new]
    return body_layout.Before(raw=raw, members=layout.members, array_start=layout.array_start, elements=elements)


def lay_out_again(old: bytes, new: bytes) -> body_layout.BodyLayout:
    head = recipe.common_prefix(old, new)
    tail = recipe.common_suffix(old, new, min(len(old), len(new)) - head)
    layout = body_layout.lay_out(new, layout_before(old), head, tail, MESSAGES)
    assert layout.members == body_layout.lay_out(new, None, 0, 0, MESSAGES).members
    return layout


OLD = b'{"model":"m","messages":[{"a":1},{"b":2},{"c":3}],"system":"s"}'


def test_only_an_added_message_is_lexed() -> None:
    new = OLD.replace(b'{"c":3}', b'{"c":3},{"d":4}')
    layout = lay_out_again(OLD, new)
    assert layout.kept == 3
    assert [new[layout.array_start + start : layout.array_start + end] for start, end in layout.new] == [b'{"d":4}']
    assert new[slice(*layout.lexed)] == b',{"d":4}],'


def test_a_change_before_the_messages_moves_them_all() -> None:
    layout = lay_out_again(OLD, OLD.replace(b'"m"', b'"model"'))
    assert (layout.kept, layout.new, layout.resumed) == (3, (), None)


def test_a_new_first_message_keeps_those_after_the_next() -> None:
    # The new message begins like the old first one, so the common suffix begins within that message.
    layout = lay_out_again(OLD, OLD.replace(b'[{"a"', b'[{"z":0},{"a"'))
    assert (layout.kept, len(layout.new), layout.resumed, layout.moved) == (0, 2, 1, 8)


def test_a_long_member_between_two_changes_is_adopted() -> None:
    tools = b'"tools":["' + b"t" * 300 + b'"]'
    old = b'{"model":"m",' + tools + b',"user":1}'
    new = b'{"model":"other",' + tools + b',"user":2}'
    layout = lay_out_again(old, new)
    (unchanged,) = layout.unchanged
    assert new[unchanged.start : unchanged.end] == tools == old[unchanged.was :][: len(tools)]
    assert not lay_out_again(old, new.replace(b'tt"]', b'tu"]')).unchanged
    assert not lay_out_again(old, new.replace(b'"tools"', b'"other"')).unchanged


def test_an_emptied_array_has_no_elements() -> None:
    layout = lay_out_again(OLD, b'{"model":"m","messages":[],"system":"s"}')
    assert (layout.kept, layout.new, layout.resumed, layout.opaque) == (0, (), None, None)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[{"secret":"kept"}],"x":{"secret":"hidden"}}',
        b'{"credentials":{"a":["hidden"]},"tools":[{"token":{"type":"string"}}],"output_config":{"token":{"type":"s"}}}',
        b'{"messages":{"password":"hidden"}}',
    ],
    ids=["from the start of the body", "a list of credentials, and no schema", "messages that are no list"],
)
def test_only_credentials_outside_the_conversation_are_withheld(raw: bytes) -> None:
    layout = body_layout.lay_out(raw, None, 0, 0, MESSAGES)
    assert [raw[start:end] for start, end in layout.withheld] == [b"hidden"]


def test_keys_in_settings_are_withheld_and_keys_in_the_conversation_are_kept() -> None:
    key = b'"sk-ant-api03-abcdefghijklmnop"'
    raw = b'{"metadata":{"user_id":%b},"system":%b,"messages":[{"role":"user","content":%b}]}' % (key, key, key)
    layout = body_layout.lay_out(raw, None, 0, 0, MESSAGES)
    assert [start for start, _ in layout.withheld] == [raw.index(key) + 1]
