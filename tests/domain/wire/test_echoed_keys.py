"""A recorded error contains neither a key of the request nor anything that has the shape of a key."""

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from mnemosyne.domain.wire.echoed_keys import is_error, keys_in_body, without, without_in_text
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply, ReplyBuilder, as_json, describe

KEY = "a-gateway-s-own-key"
SHAPED = "sk-ant-api03-abcdefghijklmnopqrst"


def error(message: str) -> Reply:
    body: dict[str, Any] = {"type": "error", "error": {"type": "authentication_error", "message": message}}
    return describe(body, as_json(body), complete=True)


def test_the_keys_of_a_body_are_its_withheld_parts() -> None:
    raw = json.dumps({"mcp_servers": [{"authorization_token": KEY}], "messages": []}).encode()
    assert keys_in_body(raw, MESSAGES) == {KEY}


def test_the_keys_of_a_body_in_utf_16_are_returned_without_zero_bytes() -> None:
    raw = json.dumps({"mcp_servers": [{"authorization_token": KEY}], "messages": []}).encode("utf-16")
    assert keys_in_body(raw, MESSAGES) == {KEY}


@pytest.mark.parametrize("quoted", [f"invalid x-api-key: {KEY}", f"{KEY}{KEY}", f"you sent '{SHAPED}'"])
def test_a_quoted_key_is_masked_byte_by_byte(quoted: str) -> None:
    kept = without(error(quoted), {KEY}, status=401)
    assert KEY.encode() not in kept.body
    assert SHAPED.encode() not in kept.body
    assert len(kept.body) == len(error(quoted).body)
    assert json.loads(kept.body)["error"]["type"] == "authentication_error"


WRITTEN = {
    "escaped in JSON": "".join(f"\\u{ord(letter):04x}" if at % 2 else letter for at, letter in enumerate(KEY)),
    "a slash escaped": "a\\/key\\/with+slashes/in-it",
    "escaped for a URL": "?key=a%2Fkey%2fwith%2Bslashes%2Fin%2Dit&x=%20",
    "UTF-16 in JSON": "\\u0000".join(KEY),
    "Base64": b64encode(KEY.encode()).decode(),
    "Basic": b64encode(f"user:{KEY}".encode()).decode(),
    "Basic of another length": b64encode(f"user2:{KEY}".encode()).decode(),
    "Basic with an empty password": b64encode(f"{KEY}:".encode()).decode(),
    "Basic before another word": b64encode(f"{KEY}:\xff".encode("latin-1")).decode(),
    "Base64 for URLs": urlsafe_b64encode(b"a\xff\xfe" + KEY.encode()).decode(),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_a_key_is_found_in_every_encoding(way: str) -> None:
    body = f'{{"error": {{"type": "x", "message": "é\\n\\"bad\\" {WRITTEN[way]} \\u00e9."}}}}'.encode()
    reply = describe(json.loads(body), body, complete=True)
    kept = without(reply, {KEY, "a/key/with+slashes/in-it"}, status=400).body
    assert len(kept) == len(body)
    message = json.loads(kept)["error"]["message"]
    assert (message[:8], message[-3:]) == ('é\n"bad" ', " é.")
    assert sum(letter.isalnum() for letter in message[8:-3].removeprefix("?key=").removesuffix("&x=%20")) <= 12


def test_a_key_is_masked_completely_after_any_text() -> None:
    for before in ("", "a" * 21, "%41" * 5, "é"):
        assert without_in_text(f"{before}{KEY * 2}.", {KEY}) == f"{before}{'*' * len(KEY) * 2}."


def test_a_key_quoted_in_utf_16_is_masked_with_its_zero_bytes() -> None:
    wide = KEY.encode("utf-16-le").decode()
    assert without_in_text(f"<{wide}>", {KEY}) == f"<{'*' * len(wide)}>"


def test_a_key_with_escapes_in_the_body_is_found_with_and_without_them() -> None:
    (key,) = keys_in_body(b'{"x_token": "one\\/two\\/three", "messages": []}', MESSAGES)
    for quoted in ("one/two/three", "one\\/two\\/three"):
        assert without_in_text(f"<{quoted}>", {key}) == f"<{'*' * len(quoted)}>"


def test_a_prefix_of_a_key_is_masked_to_its_end() -> None:
    kept = without(error("bad key abcdefghijklmnopqrst..."), {"abcdefghijklmnopqrstuvwxyz"}, status=401)
    assert json.loads(kept.body)["error"]["message"] == f"bad key {'*' * 20}..."


def test_a_reply_that_is_not_an_error_is_unchanged() -> None:
    message = {"id": "msg", "type": "message", "content": [{"type": "text", "text": f"{KEY} {SHAPED}"}]}
    reply = describe(message, as_json(message), complete=True)
    assert without(reply, {KEY}, status=200) is reply
    assert not is_error(200, reply)


def test_only_the_error_of_an_interrupted_reply_is_searched_for_key_shapes() -> None:
    building = ReplyBuilder()
    building.take({"type": "message_start", "message": {"id": "msg", "content": []}})
    building.take({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": SHAPED}})
    building.take({"type": "error", "error": {"type": "overloaded_error", "message": f"for {SHAPED} and {KEY}"}})
    kept = json.loads(without(building.result(), {KEY}, status=200).body)
    assert kept["content"][0]["text"] == SHAPED
    assert kept["error"]["message"] == f"for {'*' * len(SHAPED)} and {'*' * len(KEY)}"


def test_an_error_page_of_a_gateway_is_searched_completely() -> None:
    page = describe({}, f"<h1>502</h1> x-api-key: {SHAPED}".encode(), complete=True)
    assert SHAPED.encode() not in without(page, (), status=502).body


def test_a_message_of_the_proxy_is_masked_in_the_same_way() -> None:
    assert without_in_text(f"é {KEY} {SHAPED}", {KEY}) == f"é {'*' * len(KEY)} {'*' * len(SHAPED)}"
