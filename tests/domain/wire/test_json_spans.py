"""The lexer finds the same boundaries as a JSON parser and returns a value for any bytes."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire import json_spans
from tests.not_none import not_none

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just('long \\ " é ' * 40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
layouts = st.sampled_from([(None, (",", ":")), (None, (", ", ": ")), (1, (",", ": "))])


def written(value: object, layout: tuple[int | None, tuple[str, str]], ascii_only: bool) -> bytes:
    text = json.dumps(value, indent=layout[0], separators=layout[1], ensure_ascii=ascii_only)
    return text.encode("utf-8", "surrogatepass")


@given(st.dictionaries(st.text(), json_values, max_size=5), layouts, st.booleans())
def test_members_are_where_a_parser_finds_them(value: dict[str, Any], layout: Any, ascii_only: bool) -> None:
    raw = written(value, layout, True) if ascii_only else b" \n" + written(value, layout, True)
    found = not_none(json_spans.members(raw))
    assert {member.key: json.loads(raw[member.value_start : member.value_end]) for member in found} == value
    assert all(raw[member.start : member.start + 1] == b'"' for member in found)


@given(st.lists(json_values, max_size=5), layouts)
def test_elements_are_where_a_parser_finds_them(value: list[Any], layout: Any) -> None:
    raw = written(value, layout, True)
    found = not_none(json_spans.elements(raw, 0))
    assert [json.loads(raw[start:end]) for start, end in found] == value


@given(st.lists(json_values, max_size=5) | json_values, st.dictionaries(st.text(), json_values, max_size=3), layouts)
def test_the_elements_of_a_requested_array_are_returned_with_the_members(
    asked: Any, others: dict[str, Any], layout: Any
) -> None:
    raw = written({**others, "asked": asked, "last": 1}, layout, True)
    plain, found = json_spans.members(raw), json_spans.members(raw, array="asked")
    assert plain is not None
    assert found is not None
    assert [attrs.evolve(member, elements=None) for member in found] == list(plain)
    for member in found:
        wanted = json_spans.elements(raw, member.value_start) if member.key == "asked" else None
        assert member.elements == wanted


def literals(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in [key, *literals(inner)]]
    if isinstance(value, list):
        return [text for inner in value for text in literals(inner)]
    return [value] if isinstance(value, str) else []


@given(json_values, layouts)
def test_long_literals_are_all_found_and_only_those(value: Any, layout: Any) -> None:
    raw = written(value, layout, True)
    expected = [json.dumps(text)[1:-1].encode() for text in literals(value)]
    found = [raw[start:end] for start, end in json_spans.long_literals(raw)]
    assert found == [literal for literal in expected if len(literal) >= json_spans.LONG]


@given(st.binary(max_size=200) | st.text('{}[]":,\\ a', max_size=60).map(str.encode))
def test_no_bytes_raise(raw: bytes) -> None:
    json_spans.members(raw)
    json_spans.elements(raw, 0)
    json_spans.value_end(raw, 0)
    for start, end in [
        *json_spans.long_literals(raw),
        *json_spans.credential_literals(raw),
        *json_spans.credential_literals_anywhere(raw),
    ]:
        assert 0 <= start < end <= len(raw)


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b'"{}"', b"\xef\xbb\xbf{}", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,}', b'{,"a":1}', b"{a:1}"],
)
def test_an_incomplete_object_has_no_members(raw: bytes) -> None:
    assert json_spans.members(raw) is None


def test_five_megabytes_on_one_line_and_deep_nesting_are_read() -> None:
    text = b"ab\\n" * 1_250_000
    raw = b'{"a":"' + text + b'","b":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    assert json_spans.members(raw) is not None
    assert json_spans.long_literals(raw) == [(6, 6 + len(text))]
    assert json_spans.members(raw[: 6 + len(text)]) is None, "a string that never ends"


def test_a_literal_is_long_by_its_bytes_not_by_its_characters() -> None:
    assert json_spans.long_literals(b'["' + b"\\n" * 127 + b'"]') == []
    assert json_spans.long_literals(b'["' + b"\\n" * 128 + b'"]') == [(2, 258)]
    assert json_spans.long_literals(b'["' + b"a" * 255 + b'","' + b"a" * 256 + b'"]') == [(260, 516)]


def test_credentials_are_string_values_of_their_keys_at_any_depth() -> None:
    raw = rb'{"x":[{"authorization_token":"t1"},"api_key",{"apiKey" : "t\"2"},{"password":{"type":1}}],"API-KEY":"t3"}'
    assert [raw[start:end] for start, end in json_spans.credential_literals(raw)] == [b"t1", rb"t\"2", b"t3"]


def test_text_that_mentions_credentials_is_not_one() -> None:
    raw = json.dumps({"text": 'set {"api_key": "x"}', "required": ["password", "secret"], "secret": ""}).encode()
    assert json_spans.credential_literals(raw) == []


def test_an_escaped_credential_key_is_recognised() -> None:
    raw = rb'{"p\u0061ssword":"hush"}'
    assert [raw[start:end] for start, end in json_spans.credential_literals(raw)] == [b"hush"]


def test_a_credential_is_found_in_broken_json_even_if_it_never_ends() -> None:
    raw = b'" {"api_key": "one", "client_secret":"tw'
    assert [raw[start:end] for start, end in json_spans.credential_literals_anywhere(raw)] == [b"one", b"tw"]


def test_credentials_in_invalid_json_are_found_by_name_and_by_shape() -> None:
    raw = b"api_key=hush&model=m&db-password=a%20b {not json} x-api-key: abcdefgh1 sk-ant-api03-abcdefghijklmnop"
    found = [raw[start:end] for start, end in json_spans.credential_literals_anywhere(raw)]
    assert found == [b"hush", b"a%20b", b"abcdefgh1", b"sk-ant-api03-abcdefghijklmnop"]


def test_xml_elements_and_form_parts_with_credential_names_are_credentials() -> None:
    raw = (
        b'<r><apiKey kind="x">one</apiKey><model>m</model></r> --b\r\n'
        b'content-disposition: form-data; name="password"\r\ncontent-type: text/plain\r\n\r\ntwo\r\n--b\r\n'
        b'content-disposition: form-data; name="model"\r\n\r\nm\r\n--b--'
    )
    assert [raw[start:end] for start, end in json_spans.credential_literals_anywhere(raw)] == [b"one", b"two"]


def test_headers_for_a_tool_server_are_credentials_but_a_parameter_named_headers_is_not() -> None:
    tools = [
        {"type": "mcp", "server_url": "https://h/mcp", "headers": {"X-Whatever": "one", "X-Other": "two"}},
        {"name": "fetch", "parameters": {"properties": {"headers": {"type": "object", "description": "Sent along."}}}},
    ]
    raw = json.dumps({"tools": tools}).encode()
    assert [raw[start:end] for start, end in json_spans.credential_literals(raw)] == [b"one", b"two"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be", "utf-32"])
def test_a_credential_in_utf_16_or_utf_32_is_found_completely(encoding: str) -> None:
    raw = '{"model":"é","pwd":"hush hush","input":"🙂 sk-ant-api03-abcdefghijklmnop"}'.encode(encoding)
    found = [
        raw[start:end].decode(encoding.removesuffix("-le").removesuffix("-be") + ("-be" if "be" in encoding else "-le"))
        for start, end in json_spans.credential_literals_anywhere(raw)
    ]
    assert found == ["hush hush", "sk-ant-api03-abcdefghijklmnop"]


def test_overlapping_finds_are_one_range() -> None:
    raw = b'{"api_key": "sk-ant-api03-abcdefghijklmnop and more"'
    assert [raw[start:end] for start, end in json_spans.credential_literals_anywhere(raw)] == [
        b"sk-ant-api03-abcdefghijklmnop and more"
    ]


def test_all_values_of_a_list_or_an_object_with_a_credential_s_name_are_found() -> None:
    raw = b'{"credentials":{"a":"1","b":["2",{"c":"3","d":4}],"e":""},"x":"y","api_keys":["5","6"],"secrets":{}}'
    found = json_spans.credential_literals(raw, lists=True)
    assert [raw[start:end] for start, end in found] == [b"1", b"2", b"3", b"4", b"5", b"6"]


@pytest.mark.parametrize("number", [b"1234", b"-7", b"0.5", b"12e+34", b"48151623"])
@pytest.mark.parametrize("before", [b'{"pin":', b'{"a":[{"max_tokens":5,"dbPass" : ', b'{"n":-1,"api_key_2":\n'])
def test_a_number_under_a_credential_s_name_is_one(before: bytes, number: bytes) -> None:
    raw = before + number + b',"b":2}'
    for found in (json_spans.credential_literals(raw), json_spans.credential_literals_anywhere(raw)):
        assert [raw[start:end] for start, end in found] == [number]
        assert [json_spans.is_number(raw, span) for span in found] == [True]


def test_quoted_digits_are_not_a_number() -> None:
    raw = b'{"pin":"1234","headers":{"a":"5"}}'
    found = json_spans.credential_literals(raw, lists=True)
    assert [(raw[start:end], json_spans.is_number(raw, (start, end))) for start, end in found] == [
        (b"1234", False),
        (b"5", False),
    ]


def test_a_value_that_looks_like_a_key_is_found_under_any_name() -> None:
    raw = b'{"metadata":{"user_id":"sk-ant-api03-abcdefghijklmnop"},"stop":["ghp_abcdefghijklmnopqrstuvwxyz0123","ok"]}'
    assert [raw[start:end] for start, end in json_spans.credential_literals(raw, shapes=True)] == [
        b"sk-ant-api03-abcdefghijklmnop",
        b"ghp_abcdefghijklmnopqrstuvwxyz0123",
    ]


@pytest.mark.parametrize(
    ("body", "secrets"),
    [
        (b'{"mcp_servers":[{"url":"https://h/sse","authorization_token":"KEY"}]}', [b"KEY"]),
        (b'{"mcp_servers":[{"url":"https://u:KEY@h/sse"}]}', [b"https://u:KEY@h/sse"]),
        (b'{"mcp_servers":[{"url":"https:\\/\\/h\\/?token=KEY"}]}', [rb"https:\/\/h\/?token=KEY"]),
        (b'{"fallback_credit_token":"KEY"}', [b"KEY"]),
        (b'{"tools":[{"input_schema":{"properties":{"token":{"type":"string"}},"required":["token"]}}]}', []),
    ],
)
def test_credentials_of_the_messages_api_are_found_and_schemas_that_name_them_are_not(
    body: bytes, secrets: list[bytes]
) -> None:
    assert [body[start:end] for start, end in json_spans.credential_literals(body)] == secrets


@pytest.mark.parametrize(
    "key",
    [
        b'"role"',
        b'""',
        b'"a]b[c!#"',
        b'"\\u0072ole"',
        b'"a\\"b"',
        b'"\x01"',
        b'"\n"',
        b'"\xff"',
        "é".join('""').encode(),
    ],
)
def test_a_key_is_decoded_like_a_parser_does(key: bytes) -> None:
    try:
        expected = json.loads(key)
    except ValueError:
        expected = None
    head = json_spans.member_head(key + b":1", 0)
    assert (head[0] if head else None) == expected


def count(value: Any) -> int:
    """Count the values within one; an empty array or object counts as if it held one."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else max(1, len(inner)) + sum(map(count, inner))


@given(json_values, layouts, st.booleans())
def test_values_are_counted_as_a_parser_finds_them(value: Any, layout: Any, ascii_only: bool) -> None:
    raw = written(value, layout, ascii_only)
    assert json_spans.count_values(raw, most=10**6) == count(value)
    many = 1 + json_spans._SHORT // len(raw)  # counted by the thousand
    assert json_spans.count_values(b",".join([raw] * many), most=10**6) == many * count(value) + many - 1


def test_values_in_strings_are_not_counted_and_counting_ends_at_an_open_string() -> None:
    assert json_spans.count_values(rb'["[,{\",", {}, "\\", [0], "[,', most=10) == 7
    long = b'["' + b"[,{ " * 500_000 + b'"]'
    assert (json_spans.count_values(long, most=10), json_spans.count_values(long[:-2], most=10)) == (1, 1)


def test_counting_stops_after_too_many_values() -> None:
    zeros = b"[" + b"0," * 1_000_000 + b"0]"
    assert 5_000 < json_spans.count_values(zeros, most=5_000) <= 6_000
    assert json_spans.count_values(zeros, most=10**9) == 1_000_001


@pytest.mark.parametrize("key", ["a1b2c3d4e5f6a7b8c9d0", "gw-Key-0123456789abcdef", "0123456789abcdef" * 4])
def test_a_bare_key_as_a_user_s_id_is_a_credential(key: str) -> None:
    raw = json.dumps({"metadata": {"user_id": key}}).encode()
    assert [raw[start:end].decode() for start, end in json_spans.credential_literals(raw, shapes=True)] == [key]


@pytest.mark.parametrize(
    "user", ["8f14e45f-ceea-467f-a0e6-0c0e6a3b7c11", "ada", "user-1", '{"session_id": "s1", "device_id": "0f0f0f"}']
)
def test_a_user_id_that_is_not_a_key_is_kept(user: str) -> None:
    assert json_spans.credential_literals(json.dumps({"metadata": {"user_id": user}}).encode(), shapes=True) == []


@pytest.mark.parametrize("name", ["db_pass", "pin", "ssh_key", "main-dsn", "csrf", "dbPass", "session.pass", "DBPin_2"])
def test_members_with_short_credential_names_are_credentials(name: str) -> None:
    raw = json.dumps({"x": {name: "hush-hush", "bypass": "kept", "compat": "kept"}}).encode()
    assert [raw[start:end] for start, end in json_spans.credential_literals(raw)] == [b"hush-hush"]
    assert [raw[start:end] for start, end in json_spans.credential_literals_anywhere(raw)] == [b"hush-hush"]
