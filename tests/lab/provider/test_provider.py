"""The two dialects of OpenAI on the server: routes, errors, one script for all, the caches in usage."""

import gzip
import json

import httpx2
import pytest

from mnemosyne_lab.provider import LocalServer, open_standin
from tests.lab.provider.building import Json, always, body, post
from tests.lab.provider.building_openai import (
    CHAT,
    KEY,
    LOOK,
    RESPONSES,
    asked,
    chat,
    chat_result,
    chunks,
    item_result,
    send,
)

EMPTY: dict[str, Json] = {CHAT: chat(), RESPONSES: asked()}
LONG = "word " * 3000


def grow(path: str, reply: Json) -> list[Json]:
    """The client's additions to its history after a reply with a call."""
    if path == CHAT:
        message = reply["choices"][0]["message"]
        return [message, *(chat_result(call["id"]) for call in message["tool_calls"])]
    calls = [item for item in reply["output"] if item["type"] == "function_call"]
    return [*reply["output"], *(item_result(call["call_id"]) for call in calls)]


def ask(path: str, said: list[Json], **fields: object) -> Json:
    return chat(*said, **fields) if path == CHAT else asked(*said, **fields)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_loop_of_replies_follows_the_rounds_of_each_dialect(path: str) -> None:
    script = {
        "rules": [
            {"when": {"prompt": "go", "lane": "main"}, "replies": [{"content": [LOOK]}] * 3 + [{"text": "it is there"}]}
        ]
    }
    async with open_standin(script) as server:
        said: list[Json] = [{"role": "user", "content": "go"}]
        for _ in range(3):
            said += grow(path, (await send(server, path, ask(path, said))).json())
        reply = await send(server, path, ask(path, said))
        assert "it is there" in reply.text
        assert server.violations == []
        assert len(server.messages) == 4


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_rules_see_the_same_values_in_each_dialect(path: str) -> None:
    rules = [
        {"when": {"lane": "side"}, "reply": {"text": "by lane"}},
        {"when": {"system": "pirate"}, "reply": {"text": "by system"}},
        {"when": {"last": "seen"}, "reply": {"content": [{**LOOK, "input": {"n": "e"}}]}},
        {"when": {"stream": True}, "reply": {"text": "by stream"}},
        {"when": {"model": "tiny-*"}, "reply": {"text": "by model"}},
        {"when": {"tool": "Look", "prompt": "look"}, "reply": {"content": [LOOK]}},
    ]
    go: Json = {"role": "user", "content": "look"}
    async with open_standin({"rules": rules}) as server:
        called = grow(path, (await send(server, path, ask(path, [go]))).json())
        without = {key: value for key, value in ask(path, [go]).items() if key != "tools"}
        requests = [
            without,
            ask(path, [{"role": "developer", "content": "a pirate"}, go]),
            ask(path, [go, *called]),
            ask(path, [go], stream=True),
            ask(path, [go], model="tiny-1"),
        ]
        for request in requests:
            assert (await send(server, path, request)).status_code == 200
        assert [each.rule for each in server.exchanges] == ["rules[5]", *(f"rules[{number}]" for number in range(5))]
        assert '{\\"n\\":\\"e\\"}' in server.exchanges[3].payload.decode()


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_refusal_has_the_openai_format_and_is_recorded(path: str) -> None:
    async with open_standin() as server:
        refused = await send(server, path, {**EMPTY[path], "model": ""})
        assert refused.status_code == 400
        assert refused.json() == {
            "error": {
                "message": "Missing required parameter: 'model'.",
                "type": "invalid_request_error",
                "param": "model",
                "code": "missing_required_parameter",
            }
        }
        assert [noted.violation.rule for noted in server.violations] == ["O0"]
        both = await send(server, path, {**EMPTY[path], "messages": [], "input": "x"})
        assert both.status_code == 400


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_bad_requests_get_distinct_errors(path: str) -> None:
    async with open_standin({"window": 100}) as server, httpx2.AsyncClient() as client:
        url = server.url + path
        keyless = await client.post(url, json=EMPTY[path])
        assert (keyless.status_code, keyless.json()["error"]["param"]) == (401, None)
        assert (await client.post(url, content=b"{", headers=KEY)).status_code == 400
        assert (await client.post(url, content=b"[]", headers=KEY)).status_code == 400
        long = await client.post(url, json=ask(path, [{"role": "user", "content": LONG}]), headers=KEY)
        assert long.json()["error"]["code"] == "context_length_exceeded"
        packed = gzip.compress(json.dumps(EMPTY[path]).encode())
        assert (await client.post(url, content=packed, headers={**KEY, "content-encoding": "gzip"})).status_code == 200


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limit_exceeded"), (503, "server_is_overloaded"), (529, None)])
async def test_scripted_failure_has_the_format_of_the_dialect(status: int, code: str | None) -> None:
    async with open_standin(always({"failure": {"status": status, "retry_after": 2}})) as server:
        reply = await send(server, RESPONSES, asked(stream=True))
    assert (reply.status_code, reply.headers["retry-after"]) == (status, "2")
    assert reply.json()["error"]["code"] == code


async def test_websocket_upgrade_is_refused_and_the_connection_continues() -> None:
    async with open_standin() as server, httpx2.AsyncClient(headers=KEY) as client:
        upgrade = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "x",
        }
        refused = await client.get(server.url + RESPONSES, headers=upgrade)
        assert refused.status_code == 405
        assert refused.json()["error"]["message"] == "Method Not Allowed"
        assert (await client.post(server.url + RESPONSES, json=asked())).status_code == 200


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_usage_reports_the_hits_of_the_automatic_cache(path: str) -> None:
    usage, details = (
        ("prompt_tokens", "prompt_tokens_details") if path == CHAT else ("input_tokens", "input_tokens_details")
    )
    async with open_standin() as server:
        request = ask(path, [{"role": "user", "content": LONG}])
        said = [(await send(server, path, request)).json()["usage"] for _ in range(2)]
        other = (await send(server, path, {**request, "prompt_cache_key": "k"})).json()["usage"]
    assert [each[details]["cached_tokens"] for each in (said[0], other)] == [0, 0]
    assert said[1][usage] - 128 < said[1][details]["cached_tokens"] <= said[1][usage]


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_local_server_keeps_the_reply_in_its_slot_and_reports_timings(path: str) -> None:
    script = {"rules": [{"replies": [{"content": [LOOK]}, {"text": "done"}]}]}
    async with open_standin(script, local=LocalServer(seconds_per_1k=1)) as server:
        said: list[Json] = [{"role": "user", "content": LONG}]
        first = (await send(server, path, ask(path, said))).json()
        said += grow(path, first)
        await send(server, path, ask(path, said, stream=True))
        last = chunks(server.exchanges[1])[-1]
    before, after = first["timings"], last.get("timings") or last["response"]["timings"]
    assert before["cache_n"] == 0
    assert abs(after["cache_n"] - before["prompt_n"] - before["predicted_n"]) <= 1
    assert after["prompt_ms"] == after["prompt_n"] < 50


async def test_message_of_another_agent_is_a_prompt_and_a_child_has_its_own_conversation() -> None:
    said: Json = {"type": "agent_message", "author": "/root", "content": [{"type": "input_text", "text": "child task"}]}
    async with open_standin(
        {"rules": [{"when": {"prompt": "child task", "lane": "agent"}, "reply": {"text": "done"}}]}
    ) as server:
        assert "done" in (await send(server, RESPONSES, asked(said), x_codex_parent_thread_id="t")).text
        assert server.exchanges[0].rule == "rules[0]"


async def test_local_server_also_speaks_the_messages_api() -> None:
    async with open_standin(local=LocalServer()) as server:
        request = body({"role": "user", "content": LONG})
        first, second = [(await post(server.url, request)).json() for _ in range(2)]
        await post(server.url, {**request, "stream": True})
        assert b'"timings":{"prompt_n":1,' in server.exchanges[2].payload
    assert first["usage"]["cache_read_input_tokens"] == 0
    assert second["usage"]["input_tokens"] == second["timings"]["prompt_n"] == 1
