"""The scripted provider compares the requests that it received, as the providers' pages on diagnostics describe."""

from typing import Any

import pytest

from mnemosyne_lab.provider import open_standin
from mnemosyne_lab.provider.diagnostics import MessagesDiagnostics, ResponsesDiagnostics
from tests.lab.provider.building import TOOL, Json, always, assistant, body, datas, post, user
from tests.lab.provider.building_openai import asked

FIRST = body(user("a " * 500), system="Be brief.", diagnostics={"previous_message_id": None})
LONGER = [user("a " * 500), assistant("yes"), user("go on")]
LONG = {"type": "text", "text": "a " * 500}


def _compare(later: Json, *betas: str) -> Any:
    known = MessagesDiagnostics()
    assert known.compare(FIRST, [], "msg_1") is None
    later = {**later, "diagnostics": {"previous_message_id": "msg_1", **later.get("diagnostics", {})}}
    return known.compare(later, [("anthropic-beta", name) for name in betas], "msg_2")


def _grown(**fields: Any) -> Json:
    return body(*fields.pop("messages", LONGER), **{"system": "Be brief.", **fields})


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (_grown(model="claude-haiku-5"), "model_changed"),
        (_grown(speed="fast"), "model_changed"),
        (_grown(tools=[TOOL, {**TOOL, "name": "More"}]), "tools_changed"),
        (_grown(tools=[], system="New."), "tools_changed"),
        (_grown(system="Be brief. It is noon."), "system_changed"),
        (_grown(messages=[user("b " * 500), *LONGER[1:]]), "messages_changed"),
        (_grown(messages=[user("go on")]), "messages_changed"),
        (_grown(tool_choice={"type": "auto"}), "unavailable"),
        (_grown(diagnostics={"previous_message_id": "msg_9"}), "previous_message_not_found"),
    ],
)
def test_reason_is_the_first_part_of_the_prompt_that_differs(later: Json, reason: str) -> None:
    found = _compare(later)["cache_miss_reason"]
    assert found["type"] == reason
    assert ("cache_missed_input_tokens" in found) == reason.endswith("_changed")


def test_missed_tokens_are_those_of_the_earlier_prompt_behind_the_change() -> None:
    whole = _compare(_grown(tools=[]))["cache_miss_reason"]["cache_missed_input_tokens"]
    rest = _compare(_grown(system="New."))["cache_miss_reason"]["cache_missed_input_tokens"]
    assert whole > rest > 300


@pytest.mark.parametrize(
    "later",
    [
        _grown(),
        _grown(messages=[user({**LONG, "cache_control": {"type": "ephemeral"}}), *LONGER[1:]]),
        _grown(system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]),
        _grown(max_tokens=5, messages=[{"role": "user", "content": "a " * 500}, *LONGER[1:]]),
    ],
)
def test_growth_and_moved_markers_are_no_difference(later: Json) -> None:
    assert _compare(later) is None


def test_other_betas_prevent_a_comparison_and_requests_without_the_field_are_not_stored() -> None:
    assert _compare(_grown(), "new-beta-1")["cache_miss_reason"] == {"type": "unavailable"}
    known = MessagesDiagnostics()
    assert known.compare(body(), [], "msg_1") is None
    found = known.compare(body(diagnostics={"previous_message_id": "msg_1"}), [], "msg_2")
    assert found == {"cache_miss_reason": {"type": "previous_message_not_found"}}


async def test_diagnostics_stand_in_both_forms_of_the_reply_and_are_refused_like_any_unknown_field() -> None:
    async with open_standin(always({"text": "ok"})) as server:
        first = (await post(server.url, FIRST)).json()
        assert first["diagnostics"] is None
        assert "diagnostics" not in (await post(server.url, body())).json()
        later = {**_grown(system="New."), "diagnostics": {"previous_message_id": first["id"]}}
        found = (await post(server.url, later)).json()["diagnostics"]["cache_miss_reason"]
        await post(server.url, {**later, "stream": True})
        assert datas(server.exchanges[-1])[0]["message"]["diagnostics"] == {"cache_miss_reason": found}
        wrong = await post(server.url, {**later, "diagnostics": {"previous_message_id": "chatcmpl-1"}})
        assert wrong.status_code == 400
        assert "must be the `id`" in wrong.text
    async with open_standin({**always({"text": "ok"}), "diagnostics": False}) as server:
        refused = await post(server.url, FIRST)
        assert refused.status_code == 400
        assert "diagnostics: Extra inputs are not permitted" in refused.text
    pending: Json = {"cache_miss_reason": None}
    async with open_standin(always({"text": "ok", "diagnostics": pending})) as server:
        assert (await post(server.url, FIRST)).json()["diagnostics"] == pending


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"type": "cache_hit"}),
        ({"model": "gpt-6.2-sol"}, "model_changed"),
        ({"prompt_cache_key": "other"}, "prompt_cache_key_changed"),
        ({"tools": []}, "tools_changed"),
        ({"reasoning": {"effort": "high"}}, "reasoning_effort_changed"),
        ({"instructions": "New."}, "input_changed"),
        ({"prompt_cache_options": {"comparison_response_id": "resp_9"}}, {"type": "comparison_response_not_found"}),
    ],
)
def test_responses_are_compared_with_the_response_that_the_request_names(fields: Json, expected: Any) -> None:
    known = ResponsesDiagnostics()
    said = {"role": "user", "content": "hello " * 500}
    assert known.compare(asked(said), "resp_1", 400) is None
    later = asked(said, {"role": "user", "content": "go on"})
    named = {"prompt_cache_options": {"comparison_response_id": "resp_1"}}
    found = known.compare({**later, **named, **fields}, "resp_2", 500)
    assert found is not None
    assert (found if isinstance(expected, dict) else found["reason"]) == expected
    assert found.get("comparison_reusable_tokens", 400) == 400 >= found.get("cache_missed_tokens", 0)
