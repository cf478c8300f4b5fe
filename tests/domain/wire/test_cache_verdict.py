"""Asking a provider why its cache missed, reading its answer, and hiding it from a client that did not ask."""

import json
from typing import Any

import pytest

from mnemosyne.domain.wire.cache_verdict import IN_MESSAGES, IN_RESPONSES, CacheVerdict, Compared
from tests.not_none import not_none


def _changed(kind: str, **counted: object) -> dict[str, Any]:
    return {"diagnostics": {"cache_miss_reason": {"type": kind, **counted}}}


@pytest.mark.parametrize(
    ("reply", "compared", "missed"),
    [
        ({}, Compared.SAME, None),
        ({"diagnostics": None}, Compared.SAME, None),
        ({"diagnostics": {"cache_miss_reason": None}}, Compared.PENDING, None),
        (_changed("tools_changed", cache_missed_input_tokens=7), Compared.TOOLS, 7),
        (_changed("model_changed", cache_missed_input_tokens="7"), Compared.MODEL, None),
        (_changed("previous_message_not_found"), Compared.NOT_FOUND, None),
        (_changed("unavailable"), Compared.UNAVAILABLE, None),
        (_changed("a_reason_of_next_year"), Compared.OTHER, None),
        ({"diagnostics": {"cache_miss_reason": "odd"}}, Compared.PENDING, None),
        ({"diagnostics": {"cache_miss_reason": ["odd", {"type": 7}], "z": 1}}, Compared.PENDING, None),
    ],
)
def test_verdict_of_the_messages_api(reply: dict[str, Any], compared: Compared, missed: int | None) -> None:
    asked = {"diagnostics": {"previous_message_id": "msg_1"}}
    found = not_none(IN_MESSAGES.read_verdict(asked.get, reply))
    assert (found.compared, found.missed, found.named) == (compared, missed, "msg_1")


def test_verdict_of_the_responses_api() -> None:
    asked = {"prompt_cache_options": {"comparison_response_id": "resp_1", "ttl": "30m"}}
    miss = {"type": "cache_miss", "reason": "reasoning_effort_changed", "cache_missed_tokens": 1280}
    expected = CacheVerdict(Compared.SETTINGS, "resp_1", "reasoning_effort_changed", 1280)
    assert IN_RESPONSES.read_verdict(asked.get, {"prompt_cache_diagnostics": miss}) == expected
    hit = not_none(IN_RESPONSES.read_verdict(asked.get, {"prompt_cache_diagnostics": {"type": "cache_hit"}}))
    assert hit.compared is Compared.SAME


@pytest.mark.parametrize("asked", [{}, {"diagnostics": None}, {"diagnostics": {"previous_message_id": None}}])
def test_request_that_names_no_reply_gets_no_verdict(asked: dict[str, Any]) -> None:
    assert IN_MESSAGES.read_verdict(asked.get, _changed("tools_changed")) is None


def test_question_is_added_to_the_clients_own_options() -> None:
    assert IN_MESSAGES.write(None, "") == b'{"previous_message_id":null}'
    assert IN_RESPONSES.write(None, "") is None
    added = IN_RESPONSES.write(b'{ "ttl":"30m" }', "resp_1")
    assert json.loads(added or b"") == {"ttl": "30m", "comparison_response_id": "resp_1"}
    assert IN_RESPONSES.write(b"{ }", "resp_1") == b'{"comparison_response_id":"resp_1"}'
    assert IN_RESPONSES.write(b"null", "resp_1") is None


def test_reply_of_another_provider_is_not_named() -> None:
    assert IN_MESSAGES.write(None, "gen-1") == IN_MESSAGES.write(None, "")
    assert IN_RESPONSES.write(None, "msg_1") is None


def test_only_the_verdict_is_hidden_and_not_a_text_that_looks_like_it() -> None:
    text = '"diagnostics":{"cache_miss_reason":1}'
    reply = json.dumps({"content": [{"text": text, "diagnostics": {"a": 1}}], "id": "m", "diagnostics": {"b": [2]}})
    for whole in (reply.encode(), b'{"message":' + reply.encode() + b"}"):
        assert IN_MESSAGES.hide(whole) == whole.replace(b'{"b": [2]}', b"null")
        assert IN_MESSAGES.hide_in(json.loads(whole)) == json.loads(IN_MESSAGES.hide(whole))
    assert IN_MESSAGES.hide(b'{"diagnostics":{"cut') == b'{"diagnostics":{"cut'


@pytest.mark.parametrize(
    ("model", "takes"),
    [("gpt-5.6", True), ("gpt-6.2-sol", True), ("gpt-6", True), ("gpt-5.5", False), ("gpt-4o", False), ("", False)],
)
def test_earlier_models_of_the_responses_api_are_not_asked(model: str, takes: bool) -> None:
    assert IN_RESPONSES.takes(model) is takes
