"""A layout found from the previous one is the layout found alone; only the lexed range is smaller."""

from mnemosyne.domain.wire import body_layout, recipe
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.transcript import Message


def before(raw: bytes) -> body_layout.Before:
    layout = body_layout.lay_out(raw, None, 0, 0, MESSAGES)
    elements = [Message(start, end, "user", b"", b"") for start, end in layout.new]
    return body_layout.Before(raw=raw, members=layout.members, array_start=layout.array_start, elements=elements)


def again(old: bytes, new: bytes) -> body_layout.BodyLayout:
    head = recipe.common_prefix(old, new)
    tail = recipe.common_suffix(old, new, min(len(old), len(new)) - head)
    found = body_layout.lay_out(new, before(old), head, tail, MESSAGES)
    assert found.members == body_layout.lay_out(new, None, 0, 0, MESSAGES).members
    return found


OLD = b'{"model":"m","messages":[{"a":1},{"b":2},{"c":3}],"system":"s"}'


def test_an_added_message_is_all_that_is_lexed() -> None:
    new = OLD.replace(b'{"c":3}', b'{"c":3},{"d":4}')
    found = again(OLD, new)
    assert found.kept == 3
    assert [new[found.array_start + start : found.array_start + end] for start, end in found.new] == [b'{"d":4}']
    assert new[slice(*found.lexed)] == b',{"d":4}],'


def test_a_changed_message_leaves_those_around_it_alone() -> None:
    found = again(OLD, OLD.replace(b'{"b":2}', b'{"b":22}'))
    assert (found.kept, len(found.new), found.resumed, found.moved) == (1, 1, 2, 1)


def test_a_change_before_the_messages_moves_them_as_a_whole() -> None:
    found = again(OLD, OLD.replace(b'"m"', b'"model"'))
    assert (found.kept, found.new, found.resumed) == (3, (), None)


def test_a_new_first_message_keeps_those_after_the_next() -> None:
    # The new message begins as the old first one did, so the common ending begins within that.
    found = again(OLD, OLD.replace(b'[{"a"', b'[{"z":0},{"a"'))
    assert (found.kept, len(found.new), found.resumed, found.moved) == (0, 2, 1, 8)


def test_a_long_member_between_two_changes_is_taken_as_it_was() -> None:
    tools = b'"tools":["' + b"t" * 300 + b'"]'
    old = b'{"model":"m",' + tools + b',"user":1}'
    new = b'{"model":"other",' + tools + b',"user":2}'
    found = again(old, new)
    (unchanged,) = found.unchanged
    assert new[unchanged.start : unchanged.end] == tools == old[unchanged.was :][: len(tools)]
    assert not again(old, new.replace(b'tt"]', b'tu"]')).unchanged
    assert not again(old, new.replace(b'"tools"', b'"other"')).unchanged


def test_a_number_that_goes_on_is_not_kept() -> None:
    old, new = b'{"messages":[1,2]}', b'{"messages":[1,23]}'
    found = again(old, new)
    assert (found.kept, len(found.new)) == (1, 1)


def test_an_emptied_array_has_no_elements() -> None:
    found = again(OLD, b'{"model":"m","messages":[],"system":"s"}')
    assert (found.kept, found.new, found.resumed, found.opaque) == (0, (), None, None)


def test_withheld_ranges_are_those_of_the_whole_body() -> None:
    raw = b'{"messages":[{"secret":"kept"}],"x":{"secret":"hidden"}}'
    found = body_layout.lay_out(raw, None, 0, 0, MESSAGES)
    assert [raw[start:end] for start, end in found.withheld] == [b"hidden"]


def test_whole_lists_of_credentials_are_withheld_but_not_what_describes_a_parameter() -> None:
    raw = (
        b'{"credentials":{"a":["hidden"]},"tools":[{"token":{"type":"string"}}],"output_config":{"token":{"type":"s"}}}'
    )
    found = body_layout.lay_out(raw, None, 0, 0, MESSAGES)
    assert [raw[start:end] for start, end in found.withheld] == [b"hidden"]


def test_keys_among_the_settings_of_a_request_are_withheld_and_what_was_said_is_kept() -> None:
    key = b'"sk-ant-api03-abcdefghijklmnop"'
    raw = b'{"metadata":{"user_id":%b},"system":%b,"messages":[{"role":"user","content":%b}]}' % (key, key, key)
    found = body_layout.lay_out(raw, None, 0, 0, MESSAGES)
    assert [start for start, _ in found.withheld] == [raw.index(key) + 1]


def test_messages_that_are_no_list_are_settings_like_others() -> None:
    raw = b'{"messages":{"password":"hidden"}}'
    found = body_layout.lay_out(raw, None, 0, 0, MESSAGES)
    assert [raw[start:end] for start, end in found.withheld] == [b"hidden"]
