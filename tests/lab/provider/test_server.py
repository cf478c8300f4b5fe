"""The server on loopback: routes, faults, framing, the record; also with a clock that jumps over silences."""

import gzip
import json
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import MockClock

from mnemosyne_lab.provider import open_standin
from mnemosyne_lab.provider.script import ScriptedReply
from tests.lab.provider.building import (
    HEADERS,
    LOOK,
    TOOL,
    TWO_BLOCKS,
    Json,
    always,
    assistant,
    body,
    call,
    datas,
    post,
    result,
    streamed,
    user,
)


async def test_usage_is_that_of_the_prompt_cache_and_adds_up() -> None:
    request = body(user({"type": "text", "text": "word " * 1000, "cache_control": {"type": "ephemeral"}}, "tail"))
    async with open_standin() as server:
        first, second = [(await post(server.url, request)).json()["usage"] for _ in range(2)]
    assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"] > 0
    assert second["cache_creation_input_tokens"] == first["cache_read_input_tokens"] == 0
    assert second["input_tokens"] == first["input_tokens"] > 0


async def test_loop_follows_the_rounds_in_the_request_so_a_retry_gets_the_same_reply() -> None:
    async with open_standin({"rules": [{"replies": [LOOK, LOOK, {"text": "done"}]}]}) as server:
        said = [user("go")]
        for _ in range(2):
            message = (await post(server.url, body(*said))).json()
            again = (await post(server.url, body(*said))).json()
            assert [b["name"] for b in message["content"]] == [b["name"] for b in again["content"]] == ["Look"]
            said += [assistant(*message["content"]), user(result(message["content"][0]["id"]))]
        assert (await post(server.url, body(*said))).json()["content"][0]["text"] == "done"
        said += [assistant("done"), user("thanks")]
        assert (await post(server.url, body(*said))).json()["stop_reason"] == "tool_use"


async def test_rules_are_tried_in_order_and_can_pass() -> None:
    script = {
        "rules": [
            {"name": "busy", "times": 2, "reply": {"failure": {"status": 529, "retry_after": 0.5}}},
            {"when": {"prompt": "help"}, "reply": {"text": "by prompt"}},
            {"when": {"model": "*haiku*"}, "reply": {"text": "by model"}},
            {"when": {"lane": "agent"}, "reply": {"text": "by lane"}},
            {"when": {"request": 6}, "reply": {"text": "by number"}},
        ]
    }
    async with open_standin(script) as server:
        busy = [await post(server.url, body()) for _ in range(2)]
        assert [(reply.status_code, reply.headers["retry-after"]) for reply in busy] == [(529, "0.5")] * 2
        asked = [body(user("help")), body(model="claude-haiku-4-5"), body(), body(), body()]
        agent = {"x-claude-code-agent-id": "a1"}
        texts = []
        for number, request in enumerate(asked):
            reply = await post(server.url, request, **(agent if number == 2 else {}))
            texts.append(reply.json()["content"][0]["text"])
        assert texts[:4] == ["by prompt", "by model", "by lane", "by number"]
        assert "no rule" in texts[4]
        assert [exchange.rule for exchange in server.exchanges][:3] == ["busy", "busy", "rules[1]"]


@pytest.mark.parametrize("reset", [True, False])
async def test_cut_breaks_the_connection_in_the_middle_of_an_event(reset: bool) -> None:
    cut = {"kind": "cut", "at": "content_block_stop", "inside": 9, "reset": reset}
    async with open_standin(always({"text": "hello", "faults": [cut]})) as server:
        with pytest.raises(httpx2.TransportError):
            await post(server.url, body(stream=True))
        exchange = server.exchanges[0]
        assert exchange.payload.endswith(b"\n\nevent: co")
        assert not exchange.complete
        assert not exchange.wire.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("reset", [True, False])
async def test_reset_is_an_error_to_the_client_and_a_plain_cut_an_end(reset: bool) -> None:
    script = always({"faults": [{"kind": "cut_before_reply", "reset": reset}]})
    async with open_standin(script) as server, await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        content = json.dumps(body()).encode()
        head = b"POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: k\r\nanthropic-version: 1\r\n"
        await stream.send_all(head + b"content-length: %d\r\n\r\n" % len(content) + content)
        if reset:
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some()
        else:
            assert await stream.receive_some() == b""


async def test_cut_before_the_reply_sends_no_byte() -> None:
    async with open_standin(always({"faults": [{"kind": "cut_before_reply"}]}, times=1)) as server:
        with pytest.raises(httpx2.TransportError):
            await post(server.url, body())
        assert server.exchanges[0].status is None
        assert server.exchanges[0].wire == b""
        assert (await post(server.url, body())).status_code == 200


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ({"status": 429, "retry_after": 3}, "rate_limit_error"),
        ({"status": 500}, "api_error"),
        ({"status": 401}, "authentication_error"),
        ({"status": 413}, "request_too_large"),
        ({"status": 400, "message": "prompt is too long: 9 tokens > 8 maximum"}, "invalid_request_error"),
        ({"status": 400, "type": "odd_error"}, "odd_error"),
    ],
)
async def test_scripted_failure_has_the_format_of_the_api(failure: Json, kind: str) -> None:
    async with open_standin(always({"failure": failure})) as server:
        reply = await post(server.url, body(stream=True))
    assert reply.status_code == failure["status"]
    assert reply.headers["request-id"] == reply.json()["request_id"]
    assert reply.json()["error"]["type"] == kind
    assert reply.json()["type"] == "error"


async def test_prompt_beyond_the_window_is_refused_with_both_sizes() -> None:
    async with open_standin({"window": 100}) as server:
        reply = await post(server.url, body(user("word " * 200)))
        counted = (await post(server.url, body(user("word " * 200)), "/v1/messages/count_tokens")).json()
    assert reply.status_code == 400
    assert reply.json()["error"]["message"] == f"prompt is too long: {counted['input_tokens']} tokens > 100 maximum"


async def test_silence_lasts_as_long_as_scripted(loopback_clock: MockClock) -> None:
    faults = [{"kind": "silence", "at": 2, "seconds": 100}, {"kind": "silence", "seconds": 50}]
    pace = {"first": 7, "between": 1, "characters": 1}
    async with open_standin(always({"text": "abc", "pace": pace, "faults": faults})) as server:
        before = trio.current_time()
        await post(server.url, body(stream=True))
        assert trio.current_time() - before == pytest.approx(160)


@pytest.mark.parametrize("framing", ["byte", "whole", [10, 1, 500]])
async def test_framing_changes_the_chunks_and_not_the_stream(framing: Any) -> None:
    plain = await streamed(always(TWO_BLOCKS))
    cut = await streamed(always({**TWO_BLOCKS, "transport": {"framing": framing}}))
    assert cut.payload == plain.payload
    assert cut.wire != plain.wire
    sizes = [int(line, 16) for line in bytes(cut.wire).split(b"\r\n\r\n", 1)[1].split(b"\r\n")[:2:2]]
    assert sizes == [{"byte": 1, "whole": len(plain.payload)}.get(str(framing), 10)]


async def test_reply_is_compressed_if_the_client_accepts_it() -> None:
    async with open_standin(always({"text": "hello", "transport": {"gzip": True}})) as server:
        packed = await post(server.url, body(stream=True), accept_encoding="gzip")
        plain = await post(server.url, body(stream=True), accept_encoding="identity")
        assert gzip.decompress(bytes(server.exchanges[0].payload)) == packed.content
        assert server.exchanges[1].payload == plain.content
        assert packed.headers["content-encoding"] == "gzip"


async def test_idle_connection_may_be_closed_silently_after_a_response() -> None:
    script = always({"text": "x", "transport": {"close_after": True}}, times=1)
    async with open_standin(script) as server, await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        request = json.dumps(body()).encode()
        head = "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 1\r\ncontent-length: "
        await stream.send_all(head.encode() + str(len(request)).encode() + b"\r\n\r\n" + request)
        received = b"".join([part async for part in stream])
        assert received == server.exchanges[0].wire
        assert b"connection: close" not in received.lower()
        assert server.exchanges[0].complete


async def test_raw_reply_is_literal_and_a_redirect_is_one() -> None:
    raw = {"status": 307, "reason": "Over There", "headers": [["Location", "/elsewhere"], ["X-Odd", "1"]], "body": "go"}
    async with open_standin(always({"raw": raw})) as server:
        reply = await post(server.url, body())
        assert (reply.status_code, reply.headers["location"]) == (307, "/elsewhere")
        assert server.exchanges[0].wire == (
            b"HTTP/1.1 307 Over There\r\nLocation: /elsewhere\r\nX-Odd: 1\r\ncontent-length: 2\r\n\r\ngo"
        )


async def test_strict_mode_refuses_a_violation_and_lenient_mode_only_records_it() -> None:
    broken = body(user("go"), assistant(call("a")), user("no"))
    for strict, status in ((True, 400), (False, 200)):
        async with open_standin(strict=strict) as server:
            reply = await post(server.url, broken, x_session_id="s1")
            assert reply.status_code == status
            [noted] = server.violations
            assert (noted.request, noted.session, noted.violation.rule) == (1, "s1", "R2")


async def test_tool_changes_within_a_session_are_recorded_and_not_refused() -> None:
    more = body(tools=[TOOL, {**TOOL, "name": "New"}])
    async with open_standin() as server:
        session = {"x-claude-code-session-id": "s1"}
        await post(server.url, body(), **session)
        await post(server.url, body(tools=[]), **session)
        await post(server.url, body(tools=[{**TOOL, "name": "Sub"}]), **session, **{"x-claude-code-agent-id": "a"})
        await post(server.url, body(), **{"x-claude-code-session-id": "s2"})
        assert server.violations == []
        assert (await post(server.url, more, **session)).status_code == 200
        [noted] = server.violations
        assert (noted.violation.rule, "New" in noted.violation.message) == ("R10", True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": "k"}, 400),
        ({"anthropic-version": "1"}, 401),
        ({"authorization": "Bearer k", "anthropic-version": "1"}, 200),
    ],
)
async def test_key_and_version_are_required(headers: dict[str, str], status: int) -> None:
    async with open_standin() as server, httpx2.AsyncClient() as client:
        assert (await client.post(server.url + "/v1/messages", json=body(), headers=headers)).status_code == status


async def test_body_over_32_megabytes_is_refused_and_the_connection_continues() -> None:
    async with open_standin() as server, httpx2.AsyncClient(headers=HEADERS) as client:
        reply = await client.post(server.url + "/v1/messages", content=b" " * (32 * 1024 * 1024 + 1))
        assert (reply.status_code, reply.json()["error"]["type"]) == (413, "request_too_large")
        assert (await client.post(server.url + "/v1/messages", json=body())).status_code == 200


async def test_compressed_body_is_accepted_and_invalid_one_refused() -> None:
    async with open_standin() as server, httpx2.AsyncClient(headers=HEADERS) as client:
        url, packed = server.url + "/v1/messages", gzip.compress(json.dumps(body()).encode())
        assert (await client.post(url, content=packed, headers={"content-encoding": "gzip"})).status_code == 200
        for content, encoding in ((b"{", "identity"), (b"[]", "identity"), (b"{", "gzip"), (packed, "zebra")):
            reply = await client.post(url, content=content, headers={"content-encoding": encoding})
            assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/api/hello", 200),
        ("HEAD", "/", 200),
        ("GET", "/v1/models?limit=1000", 200),
        ("GET", "/v1/models/claude-opus-5-5", 200),
        ("GET", "/v1/models/gpt-1", 404),
        ("GET", "/v1/messages", 405),
        ("POST", "/v1/complete", 404),
        ("GET", "/nowhere", 404),
    ],
)
async def test_every_other_route_answers_as_the_api(method: str, path: str, status: int) -> None:
    async with open_standin() as server, httpx2.AsyncClient() as client:
        reply = await client.request(method, server.url + path)
        assert reply.status_code == status
        assert reply.headers["request-id"] == "req_" + "1".zfill(24)
        if status >= 400:
            assert reply.json()["type"] == "error"


async def test_counting_runs_the_prefix_check() -> None:
    async with open_standin(
        always({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}]})
    ) as server:
        thought = (await post(server.url, body(user("go")))).json()["content"]
        for prompt, status in (("go", 200), ("stop", 400)):
            reply = await post(
                server.url, body(user(prompt), assistant(*thought), user("more")), "/v1/messages/count_tokens"
            )
            assert reply.status_code == status


async def test_dropped_block_is_reported_in_the_reply() -> None:
    beta = "thinking-binding-controls-2026-08-01"
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    async with open_standin(
        always({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}]})
    ) as server:
        thought = (await post(server.url, body(user("go")))).json()["content"]
        changed = body(user("stop"), assistant(*thought), user("more"), thinking=binding)
        reply = await post(server.url, changed, anthropic_beta=beta)
        report = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
        assert reply.json()["input_transformations"] == [report]
        await post(server.url, {**changed, "stream": True}, anthropic_beta=beta)
        assert datas(server.exchanges[-1])[0]["message"]["input_transformations"] == [report]


async def test_request_that_is_not_http_gets_400_and_the_server_continues() -> None:
    async with open_standin() as server, await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        await stream.send_all(b"nonsense\r\n\r\n")
        assert b"".join([part async for part in stream]).startswith(b"HTTP/1.1 400")
        assert (await post(server.url, body())).status_code == 200


async def test_default_model_answers_unmatched_requests_from_the_request_alone() -> None:
    def echo(asked: Mapping[str, Any]) -> ScriptedReply:
        return ScriptedReply(text=f"{len(asked['messages'])} messages")

    rules = {"rules": [{"when": {"prompt": "ping"}, "reply": {"text": "pong"}}]}
    async with open_standin(rules, model=echo) as server:
        replies = [
            (await post(server.url, request)).json()["content"][0]["text"]
            for request in (body(user("ping")), body(user("a"), assistant("b"), user("c")), body(user("a"), tools=[]))
        ]
        refused = await post(server.url, body(assistant("a"), user("b"), messages="none"))
    assert replies == ["pong", "3 messages", "Stand-in conversation"]
    assert refused.status_code == 400


async def test_only_the_last_exchanges_are_kept_on_request() -> None:
    async with open_standin(keep=2) as server:
        for _ in range(4):
            await post(server.url, body())
        assert [exchange.number for exchange in server.exchanges] == [3, 4]
