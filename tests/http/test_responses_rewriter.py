"""A response without memory calls passes byte for byte, at every cut; any other reaches the client without them and
with gapless numbering.
"""

import json

import pytest

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.http.responses_rewriter import ResponsesRewriter
from mnemosyne.http.responses_splicing import RULES
from mnemosyne.http.splicing import FailedBeforeOutput, Next, Output, ToClient
from mnemosyne.http.whole_reply import WholeReply
from tests.http.responses import OFFERED, OURS, RECALL, RESTORE, RUN, Json, Round, read_stream, text, thinking
from tests.http.rounds import Played, play

OFFERS = (OFFERED, *OURS)
SPLICED = [
    Round([thinking("What was it?"), RECALL], 1, OFFERS).stream(),
    Round([text("Now I know."), RESTORE, RUN], 2, OFFERS).stream(),
]


def shown(*rounds: Round) -> tuple[Played, Json]:
    played = play(ResponsesRewriter(NAMES), [each.stream() for each in rounds])
    return played, read_stream(played.raw)


def kinds(response: Json) -> list[str]:
    return [item["type"] for item in response["output"]]


def feed(rewriter: ResponsesRewriter, raw: bytes) -> list[Output]:
    return [*rewriter.feed(raw), *rewriter.close()]


def test_usage_has_the_last_input_and_the_output_of_all_rounds() -> None:
    rounds = [Round([thinking("What was it?"), RECALL], 1, OFFERS), Round([text("Now I know.")], 2, OFFERS)]
    produced = [json.loads(each.whole())["usage"]["output_tokens"] for each in rounds]
    _, response = shown(*rounds)
    usage = response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (200, sum(produced))
    assert usage["total_tokens"] == 200 + sum(produced)


def test_single_round_changes_only_by_removing_memory_tools_from_the_echoed_request() -> None:
    offered = (OURS[0], OFFERED, *OURS[1:])
    raw, bare = (Round([text("Hello.")], 1, tools).stream() for tools in (offered, (OFFERED,)))
    assert play(ResponsesRewriter(NAMES), [raw]).raw == bare


def test_whole_single_round_changes_only_by_removing_memory_tools() -> None:
    content = [text("Hello.")]
    played = play(WholeReply(RULES, NAMES), [Round(content, 1, (OURS[0], OFFERED, *OURS[1:])).whole()])
    assert json.loads(played.raw) == json.loads(Round(content).whole())
    assert b'"tools": [\n    {\n      "type": "function",\n      "name": "exec_command"' in played.raw
    only_ours = play(WholeReply(RULES, NAMES), [Round(content, 1, tuple(OURS)).whole()])
    assert json.loads(only_ours.raw)["tools"] == []


def test_hidden_calls_of_a_truncated_response_are_dropped() -> None:
    played, response = shown(Round([text("A."), RECALL], 1, OFFERS, stop_reason="max_tokens"))
    assert kinds(response) == ["message"]
    assert response["status"] == "incomplete"
    assert played.ends[0].calls == ()
    assert played.ends[0].next is Next.END


def test_round_that_fails_after_output_is_a_failed_response() -> None:
    rewriter = ResponsesRewriter(NAMES)
    outputs = feed(rewriter, Round([text("Wait."), RECALL], 1, OFFERS).stream())
    rewriter.next_round()
    outputs += rewriter.fail(b'{"error":{"message":"busy","type":"server_error","code":"overloaded"}}')
    response = read_stream(b"".join(each.raw for each in outputs))
    assert response["status"] == "failed"
    assert response["error"] == {"code": "overloaded", "message": "busy"}
    assert kinds(response) == ["message"]


def test_later_round_that_breaks_off_has_failed() -> None:
    rewriter = ResponsesRewriter(NAMES)
    outputs = feed(rewriter, Round([text("Wait."), RECALL], 1, OFFERS).stream())
    rewriter.next_round()
    outputs += feed(rewriter, Round([text("Now I know.")], 2, OFFERS).stream()[:-900])
    assert isinstance(outputs[-1], ToClient)
    assert b"event: response.failed" in outputs[-1].raw
    assert rewriter.failed


def test_failure_in_the_first_round_passes_unchanged() -> None:
    whole: Json = {"id": "resp_1", "status": "failed", "error": {"code": "server_is_overloaded", "message": "busy"}}
    event = {"type": "response.failed", "sequence_number": 0, "response": {**whole, "output": []}}
    raw = b"event: response.failed\ndata: " + json.dumps(event).encode() + b"\n\n"
    (failure,) = feed(ResponsesRewriter(NAMES), raw)
    assert isinstance(failure, FailedBeforeOutput)
    assert failure.raw == raw
    assert json.loads(failure.error)["error"]["code"] == "server_is_overloaded"


@pytest.mark.parametrize("rounds", [1, 2])
def test_failed_response_shows_no_memory_calls_either(rounds: int) -> None:
    whole = Round([text("I look."), RECALL, RUN], rounds, OFFERS)
    failing = whole.stream().replace(b"response.completed", b"response.failed").replace(b'"completed"', b'"failed"')
    rewriter = ResponsesRewriter(NAMES)
    played = play(rewriter, [SPLICED[0]] * (rounds - 1) + [failing])
    response = read_stream(played.raw)
    assert b"memory_" not in played.raw
    assert kinds(response) == ["reasoning"] * (rounds - 1) + ["message", "function_call"]
    assert (response["id"], response["status"]) == (f"resp_{1:024d}", "failed")
    assert rewriter.failed


def test_retry_of_a_later_round_continues_the_clients_numbering() -> None:
    rewriter = ResponsesRewriter(NAMES)
    outputs = feed(rewriter, Round([text("Wait."), RECALL], 1, OFFERS).stream())
    for _ in range(2):
        rewriter.next_round()
        assert not rewriter.shows_round
    outputs += feed(rewriter, Round([text("Now I know.")], 2, OFFERS).stream())
    assert kinds(read_stream(b"".join(each.raw for each in outputs))) == ["message", "message"]


def test_comment_keeps_the_connection_alive_once_the_reply_has_begun() -> None:
    rewriter = ResponsesRewriter(NAMES)
    assert rewriter.ping() == b""
    outputs = feed(rewriter, Round([RECALL], 1, OFFERS).stream())
    awake = rewriter.ping()
    assert awake.startswith(b"event: response.created")
    assert awake.endswith(b": ping\n\n")
    rewriter.next_round()
    outputs += feed(rewriter, Round([text("Now I know.")], 2, OFFERS).stream())
    read_stream(awake + b"".join(each.raw for each in outputs))
    assert rewriter.ping() == b""


@pytest.mark.parametrize("line", [b"\n", b"\r\n"])
def test_events_without_sequence_numbers_get_none(line: bytes) -> None:
    """A local server numbers nothing and writes only data lines."""
    names = ["response.created", "response.output_item.added", "response.output_item.done", "response.completed"]
    said: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    hidden: Json = {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "memory_query", "arguments": "{}"}

    def stream(item: Json) -> bytes:
        whole = {"id": "resp_1", "status": "completed", "output": [item]}
        data: list[Json] = [
            {"response": {"id": "resp_1"}},
            *[{"output_index": 0, "item": item}] * 2,
            {"response": whole},
        ]
        events = ({"type": name, **each} for name, each in zip(names, data, strict=True))
        return b"".join(b"data: " + json.dumps(each).encode() + line * 2 for each in events)

    played = play(ResponsesRewriter(NAMES), [stream(hidden), stream(said)])
    assert b"sequence_number" not in played.raw
    assert b"memory_" not in played.raw
