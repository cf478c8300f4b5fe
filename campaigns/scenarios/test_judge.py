"""The judge finds each forbidden behaviour when it is produced on purpose."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from campaigns.scenarios.judge import ProviderOutput, faults_of
from campaigns.scenarios.spoken import Json, prompt_of, read_reply
from campaigns.scenarios.stories import IMAGE, searched
from tests.http.rounds import text, thinking

MARKER = {"type": "ephemeral"}
READ: Json = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
QUERY: Json = {**READ, "name": "memory_query"}
CALL: Json = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"x": 1}}
HIDDEN: Json = {"type": "tool_use", "id": "toolu_2", "name": "memory_query", "input": {"question": "?"}}
REMINDER = text("<system-reminder>Use tabs.</system-reminder>")


def result(call: str, content: Any = "seen") -> Json:
    return {"type": "tool_result", "tool_use_id": call, "content": content}


def client() -> Json:
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "system": [{**text("You are an agent."), "cache_control": MARKER}],
        "tools": [READ],
        "messages": [
            {"role": "user", "content": [REMINDER, text("Go.")]},
            {"role": "system", "content": [text("Never push.")]},
            {"role": "assistant", "content": [thinking("Hm."), CALL, *searched(1)]},
            {"role": "user", "content": [result("toolu_1", [text("seen"), IMAGE]), text("Now?")]},
        ],
    }


def sent() -> Json:
    """A legal managed version of it: memory tools, and the hidden call next to the client's call."""
    body = client()
    body["tools"].append(QUERY)
    body["messages"][2]["content"].insert(2, HIDDEN)
    body["messages"][3]["content"].insert(1, result("toolu_2"))
    return body


def model_reply() -> ProviderOutput:
    found = ProviderOutput()
    found.add([*sent()["messages"][2]["content"]])
    return found


def found_in(change: Callable[[Json], object]) -> list[str]:
    body = deepcopy(sent())  # provider output is shared by all checks
    change(body)
    return list(faults_of(body, client(), model_reply()))


def test_correct_request_has_no_faults() -> None:
    assert found_in(lambda _: None) == []


def at(body: Json, message: int) -> list[Json]:
    content: list[Json] = body["messages"][message]["content"]
    return content


WRONG: dict[str, Callable[[Json], object]] = {
    "the operator shortened": lambda body: at(body, 1)[0].update(text="Never."),
    "a reminder gone": lambda body: at(body, 0).pop(0),
    "what is new shortened": lambda body: at(body, 3)[0].update(content="[#abc1234 left]"),
    "thinking changed": lambda body: at(body, 2)[0].update(thinking="Ah."),
    "a hidden call changed": lambda body: at(body, 2)[2].update(input={}),
    "a search changed": lambda body: at(body, 2)[4]["content"].pop(),
    "an image changed": lambda body: at(body, 3)[0]["content"][1]["source"].update(data="AAAA"),
    "another model": lambda body: body.update(model="claude-haiku-4-5"),
    "another system prompt": lambda body: body.update(system=[text("You are another.")]),
    "a tool of the client's gone": lambda body: body["tools"].pop(0),
    "a tool of nobody": lambda body: body["tools"].append({**READ, "name": "Other"}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_forbidden_change_of_a_request_is_found(wrong: str) -> None:
    assert found_in(WRONG[wrong]) != []


def test_prompts_are_compared_without_markers_and_with_every_word() -> None:
    marked, changed = sent(), sent()
    at(marked, 3)[2]["cache_control"] = MARKER
    at(changed, 3)[2]["text"] = "Now!"
    assert prompt_of(marked) == prompt_of(sent()) != prompt_of(changed)


def frames(*events: Json) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


START: Json = {"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {"output_tokens": 1}}}
OPEN: Json = {"type": "content_block_start", "index": 0, "content_block": text("")}
DELTA: Json = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}}
CLOSE: Json = {"type": "content_block_stop", "index": 0}
TOLD: Json = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
STOP: Json = {"type": "message_stop"}
GOOD = (START, OPEN, DELTA, CLOSE, TOLD, STOP)


def stream_faults(raw: bytes, *, cut: bool = False) -> list[str]:
    return read_reply(200, {"content-type": "text/event-stream"}, raw, cut=cut).faults


def test_correct_stream_has_no_faults() -> None:
    reply = read_reply(200, {"content-type": "text/event-stream"}, frames(*GOOD))
    assert (reply.faults, reply.content, reply.ended) == ([], [text("Hi.")], True)


@pytest.mark.parametrize(
    "events",
    [
        (START, *GOOD),
        GOOD[1:],
        (START, {**OPEN, "index": 1}, DELTA, CLOSE, TOLD, STOP),
        (START, OPEN, OPEN, DELTA, CLOSE, TOLD, STOP),
        (START, DELTA, TOLD, STOP),
        (START, OPEN, {**DELTA, "index": 1}, CLOSE, TOLD, STOP),
        (START, OPEN, DELTA, TOLD, CLOSE, STOP),
        (START, OPEN, DELTA, CLOSE, STOP),
        (*GOOD, OPEN),
        (*GOOD, STOP),
        GOOD[:-1],
    ],
)
def test_stream_that_breaks_clients_is_found(events: tuple[Json, ...]) -> None:
    assert stream_faults(frames(*events)) != []
