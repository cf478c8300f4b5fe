"""JSON that no client should send is read, and the result can be stored and written again."""

import json
from typing import Any

import pytest

from mnemosyne.domain.tools.memory_tools import SEARCH, RefusedCall, parse
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.message_bytes import as_valid, of_client, parse_blocks, role_of
from mnemosyne.domain.wire.reply import as_json


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'"a\\ud83d"', "a?"),
        (b'"\\uDE00b"', "?b"),
        (b'{"\\ud83d":["\\ud83d\\ud83d"]}', {"?": ["??"]}),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        (b'"\\\\ud83d"', "\\ud83d"),
        (b'"\xff\xfe"', "\N{REPLACEMENT CHARACTER}" * 2),
        (b'"\xed\xa0\xbd"', "\N{REPLACEMENT CHARACTER}" * 3),
        (b"[NaN,-Infinity,1e400,-1e400,1.5]", ["NaN", "-Infinity", "1e400", "-1e400", 1.5]),
        (b"[" + b"9" * 5000 + b",7]", ["9" * 5000, 7]),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_odd_json_is_read_as_a_value_that_a_database_accepts(raw: bytes, value: Any) -> None:
    assert json_values.read_storable(raw) == value
    json.dumps(json_values.read_storable(raw), ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("raw", [b"", b"{", b"tru", b'{"a" 1}'])
def test_text_that_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"(Expecting|delimiter)"):
        json_values.read(raw)


@pytest.mark.parametrize("value", [float("nan"), {"a": [float("inf")]}, ["\ud83d", float("-inf")], (1.5, float("nan"))])
def test_written_json_is_always_valid(value: Any) -> None:
    json_values.read_strict(as_json(value))


def test_a_half_surrogate_pair_is_written_as_it_was_read() -> None:
    assert as_json(json_values.read(b'["\\ud83d"]')) == b'["\\ud83d"]'


@pytest.mark.parametrize(
    "element",
    [
        b'{"role":"user","content":"a\xffb"}',
        b'{"role":"user","content":[{"type":"tool_use","input":{"x":NaN}}]}',
        b'{"role":"user","content":[{"type":"tool_use","input":{"x":-Infinity}}]}',
    ],
)
def test_an_invalid_element_is_sent_as_valid_json_and_a_valid_one_keeps_its_bytes(element: bytes) -> None:
    json_values.read_strict(of_client(element))
    assert of_client(of_client(element)) == of_client(element)
    valid = b'{"role":"user", "content":[{"type":"text","text":"NaN \\ud83d \xc3\xa9","n":1e400}]}'
    assert as_valid(valid) == valid


@pytest.mark.parametrize(
    ("element", "role", "text"),
    [
        (b'{"role":"user","content":"a","content":"b"}', "user", "b"),
        (b'{"role":"assistant","role":"user","content":"b"}', "user", "b"),
        (b'{"content":"a","role":"user","content":[{"type":"text","text":"b"}]}', "user", "b"),
    ],
)
def test_the_last_of_repeated_members_counts_as_in_every_parser(element: bytes, role: str, text: str) -> None:
    sent = of_client(element)
    assert (role_of(sent), [block["text"] for block in parse_blocks(sent)]) == (role, [text])
    assert json.loads(sent)["content"] == parse_blocks(sent)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "9" * 5000, "1" * 400 + ".5"])
def test_a_number_that_parsers_read_differently_is_refused_in_a_memory_call(number: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_values.read_strict(f'{{"limit":[{number}]}}')
    assert isinstance(parse(SEARCH, f'{{"query":"words","limit":{number}}}'), RefusedCall)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("1.5", 1.5),
        ("-0.0", -0.0),
        ("1e308", 1e308),
        ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("12345678901234567890123", 12345678901234567890123),
    ],
)
def test_an_ordinary_number_is_read_as_python_reads_it(number: str, value: float) -> None:
    for read in (json_values.read, json_values.read_strict):
        [number_read] = read(f"[{number}]")
        assert (repr(number_read), type(number_read)) == (repr(value), type(value))


@pytest.mark.parametrize("odd", ["NaN", "1e400", "9" * 5000, '"\\ud83d"'])
def test_odd_values_do_not_change_how_other_values_are_read(odd: str) -> None:
    *usual, _ = json_values.read(f'[1.25,-7,1e3,12345678901234567890123,{{"a":[null,true]}},{odd}]')
    assert usual == [1.25, -7, 1000.0, 12345678901234567890123, {"a": [None, True]}]
    value, end = json_values.read_first(f"  [1.5,{odd}] 7", 2)
    assert (value[0], end) == (1.5, len(odd) + 8)


@pytest.mark.parametrize(
    ("raw", "valid"), [(b'["NaN",1e400]', True), (b"[NaN]", False), (b'["\xff"]', False), (b"[-Infinity]", False)]
)
def test_only_json_by_the_rfc_is_valid_and_numbers_may_be_of_any_size(raw: bytes, valid: bool) -> None:
    assert json_values.is_valid(raw) is valid
