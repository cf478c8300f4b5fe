"""A completion without memory calls passes byte for byte, at every cut; any other reaches the client as one message
without them.
"""

import json
from typing import Any

import pytest

from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne.domain.tools.memory_tools import NAMES, QUERY
from mnemosyne.domain.wire.chat_reply import ChatReply
from mnemosyne.domain.wire.history import Round
from mnemosyne.http.chat_rewriter import ChatRewriter
from mnemosyne.http.chat_splicing import splice_completion
from mnemosyne.http.rewriters import Rewriter, make_rewriter
from mnemosyne.http.splicing import EndOfRound, FailedBeforeOutput
from mnemosyne.http.sse import FrameReader, event_of
from tests.domain.wire.dialects import WRITTEN, Call, ModelReply
from tests.http.rounds import play

Json = dict[str, Any]

CHAT = next(each for each in WRITTEN if each.dialect.name == "chat")
RUN = Call("call_run", "bash", {"command": "ls"})
RUN_TOO = Call("call_too", "bash", {"command": "pwd"})
ASK = Call("call_ask", QUERY, {"question": "what?"})
TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"

SPLICED = [
    CHAT.stream(ModelReply("Let me recall. ", "What was it?", [ASK])),
    CHAT.stream(ModelReply("Now I know.", "", [RUN, ASK, RUN_TOO])),
]
TAGGED = CHAT.stream(ModelReply(f"Done.\n{TAG}And more.", "", [RUN]))


def read(raw: bytes) -> Json:
    """The message that a client reads from a stream."""
    reply = ChatReply()
    for frame in FrameReader().feed(raw):
        event = event_of(frame)
        if event is not None:
            assert event["id"] == "chatcmpl-1"
            reply.take(event)
    assert raw.count(b"data: [DONE]") == 1
    return reply.message()


def message_of(completion: Json) -> Json:
    message: Json = completion["choices"][0]["message"]
    return message


def read_message(text: str) -> Json:
    return {"content": [{"token": text, "logprob": -0.5}]}


def as_llama_cpp(stream: bytes) -> bytes:
    """The stream with the extra fields of llama-cpp-python: each call repeated in the deprecated form, and the log
    probabilities of everything generated.
    """
    frames = []
    for frame in FrameReader().feed(stream):
        event = event_of(frame)
        for choice in (event or {}).get("choices", ()):
            calls = choice["delta"].get("tool_calls") or []
            choice["delta"] |= {"function_call": calls[0]["function"]} if calls else {}
            said = choice["delta"].get("content") or (calls and json.dumps(calls[0]["function"]))
            choice["logprobs"] = read_message(said) if said else None
        frames.append(b"data: " + json.dumps(event).encode() + b"\n\n" if event else frame.raw)
    return b"".join(frames)


def test_hidden_call_is_removed_in_every_form_that_servers_use() -> None:
    rounds = [as_llama_cpp(each) for each in SPLICED]
    assert rounds[0].count(b"memory_") == 3
    played = play(ChatRewriter(NAMES), rounds)
    assert b"memory_" not in played.raw
    completion = read(played.raw)
    assert [call["id"] for call in message_of(completion)["tool_calls"]] == ["call_run", "call_too"]
    likelihoods = completion["choices"][0]["logprobs"]["content"]
    assert "".join(each["token"] for each in likelihoods).startswith("Let me recall. Now I know.")
    assert b"drop: #" not in play(ChatRewriter(NAMES), [as_llama_cpp(TAGGED)]).raw


def test_whole_reply_keeps_log_probabilities_of_visible_texts_only() -> None:
    def whole(said: ModelReply) -> Json:
        native = CHAT.whole(said)
        [choice] = native["choices"]
        calls = choice["message"].get("tool_calls") or []
        old = {"function_call": calls[0]["function"]} if calls else {}
        return {
            **native,
            "choices": [{**choice, "message": choice["message"] | old, "logprobs": read_message(str(said))}],
        }

    asking, done, tagged = whole(ModelReply("", "", [ASK])), whole(ModelReply("It is there.")), whole(ModelReply(TAG))
    shown = splice_completion([asking, done], NAMES, itemized=False)["choices"][0]
    assert shown["logprobs"] == done["choices"][0]["logprobs"]
    ended = splice_completion([asking, asking], NAMES, itemized=False)["choices"][0]
    assert (ended["logprobs"], "function_call" in ended["message"]) == (None, False)
    assert splice_completion([tagged], NAMES, itemized=False)["choices"][0]["logprobs"] is None
    assert splice_completion([done], NAMES, itemized=False) == done


def test_error_before_any_output_is_plain_and_after_output_one_chunk() -> None:
    error = b'{"error":{"message":"full","type":"server_error"}}'
    [failed] = ChatRewriter(NAMES).feed(b"data: " + error + b"\n\n")
    assert isinstance(failed, FailedBeforeOutput)
    assert failed.error == error
    rewriter = ChatRewriter(NAMES)
    rewriter.feed(SPLICED[0])
    rewriter.next_round()
    [outcome] = rewriter.fail(json.dumps(json.loads(error), indent=2).encode())
    [frame] = FrameReader().feed(outcome.raw)
    assert event_of(frame) == json.loads(error)
    assert rewriter.failed


def whole(said: ModelReply) -> bytes:
    return json.dumps(CHAT.whole(said)).encode()


def bare(calls: list[Json], *, streamed: bool) -> bytes:
    """A completion with these calls and the fewest possible fields."""
    made = CHAT.whole(ModelReply(calls=[ASK]))
    made["choices"][0]["message"]["tool_calls"] = calls
    if not streamed:
        return json.dumps(made).encode()
    delta = {"role": "assistant", "tool_calls": [{"index": number, **call} for number, call in enumerate(calls)]}
    said = {**made, "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
    return b"data: " + json.dumps(said).encode() + b"\n\ndata: [DONE]\n\n"


def asked(**members: Any) -> Json:
    return {"function": {"name": QUERY, "arguments": '{"question": "what?"}'}, **members}


def follow_up(end: EndOfRound) -> list[Json]:
    """The messages that go upstream after a round whose calls were answered."""
    native = json.loads(end.reply.body)
    results = {call.id: CHAT.dialect.write_result(call.id, "found", False) for call in end.calls}
    round_ = Round(tuple(CHAT.dialect.reply_content(native)), results, native)
    return [json.loads(each) for each in CHAT.dialect.history.next_round([], [round_], NAMES)]


def rewriter_of(streamed: bool) -> Rewriter:
    return make_rewriter(CHAT.dialect, NAMES, streamed=streamed, itemized=False)


STREAMED = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


@STREAMED
def test_hidden_call_without_a_type_is_answered_as_a_function(streamed: bool) -> None:
    rewriter = rewriter_of(streamed)
    played = play(rewriter, [bare([asked(id="call_1")], streamed=streamed)])
    assert played.raw == b""
    [message, result] = follow_up(played.ends[0])
    assert message["tool_calls"] == [asked(id="call_1", type="function")]
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "found"}


@STREAMED
@pytest.mark.parametrize("ids", [[None, None], ["", ""], ["call_0", "call_0"], ["call_1", None], [7, []]])
def test_each_hidden_call_is_answered_under_an_id_of_its_own(ids: list[Any], streamed: bool) -> None:
    calls = [asked(type="function", **({} if id_ is None else {"id": id_})) for id_ in ids]
    raw = bare(calls, streamed=streamed)
    ends = [play(rewriter_of(streamed), [raw]).ends[0] for _ in range(2)]
    assert ends[0] == ends[1]
    [message, *results] = follow_up(ends[0])
    given = [call["id"] for call in message["tool_calls"]]
    assert [each["tool_call_id"] for each in results] == given
    assert len(set(given)) == 2
    assert [each["content"] for each in results] == ["found", "found"]
    assert all(given)


@STREAMED
def test_client_call_keeps_the_id_that_it_shares_with_a_hidden_call(streamed: bool) -> None:
    run = {"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    played = play(rewriter_of(streamed), [bare([asked(id="call_0"), run], streamed=streamed)])
    [message, result] = follow_up(played.ends[0])
    assert message["tool_calls"][1] == run
    assert message["tool_calls"][0]["id"] == result["tool_call_id"] != "call_0"
    assert b"call_0" in played.raw


def test_streamed_call_of_a_custom_tool_reads_like_a_whole_one() -> None:
    pieces: list[Json] = [
        {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": ""}},
        {"custom": {"input": "*** Begin"}},
        {"custom": {"input": " Patch"}},
    ]
    reply = ChatReply()
    for piece in pieces:
        reply.take({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **piece}]}}]})
    whole = {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin Patch"}}
    assert message_of(reply.message())["tool_calls"] == [whole]
    [block] = CHAT.dialect.reply_content(reply.message())
    assert (block["id"], block["name"], block["input"]) == ("call_1", "patch", "*** Begin Patch")
