"""A completion without memory calls passes byte for byte, at every cut; any other reaches the client as one message
without them.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne.domain.tools.memory_tools import NAMES, QUERY
from mnemosyne.domain.wire.chat_reply import ChatReply
from mnemosyne.domain.wire.history import Round
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.http.chat_rewriter import ChatRewriter
from mnemosyne.http.chat_splicing import RULES, splice_completion
from mnemosyne.http.rewriters import Rewriter, make_rewriter
from mnemosyne.http.splicing import EndOfReply, EndOfRound, FailedBeforeOutput, Next
from mnemosyne.http.sse import FrameReader, event_of
from mnemosyne.http.whole_reply import WholeReply
from tests.domain.wire.dialects import WRITTEN, Call, ModelReply
from tests.http.rounds import play
from tests.http.streams import cut

Json = dict[str, Any]

CHAT = next(each for each in WRITTEN if each.dialect.name == "chat")
RUN = Call("call_run", "bash", {"command": "ls"})
RUN_TOO = Call("call_too", "bash", {"command": "pwd"})
ASK = Call("call_ask", QUERY, {"question": "what?"})
TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"

PLAIN = CHAT.stream(ModelReply("I look there.", "Hm, let me see.", [RUN, RUN_TOO]))
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


@given(st.lists(st.integers(0, len(PLAIN))))
def test_stream_without_memory_calls_passes_byte_for_byte_at_every_cut(places: list[int]) -> None:
    played = play(ChatRewriter(NAMES), [PLAIN], lambda raw: cut(raw, places))
    assert played.raw == PLAIN
    assert isinstance(played.outputs[-1], EndOfReply)


@given(st.binary())
def test_bytes_that_are_no_event_stream_pass_unchanged(garbage: bytes) -> None:
    rewriter = ChatRewriter(NAMES)
    assert b"".join(each.raw for each in [*rewriter.feed(garbage), *rewriter.close()]) == garbage


@given(st.integers(0, len(PLAIN)))
def test_broken_stream_passes_up_to_its_last_byte(place: int) -> None:
    rewriter = ChatRewriter(NAMES)
    assert b"".join(each.raw for each in [*rewriter.feed(PLAIN[:place]), *rewriter.close()]) == PLAIN[:place]


@pytest.mark.parametrize("rounds", [SPLICED, [TAGGED]], ids=["hidden calls", "a cleanup block"])
@given(places=st.lists(st.integers(0, max(map(len, SPLICED)))))
def test_message_of_several_rounds_does_not_depend_on_the_cuts(rounds: list[bytes], places: list[int]) -> None:
    played = play(ChatRewriter(NAMES), rounds, lambda raw: cut(raw, places))
    assert played.raw == play(ChatRewriter(NAMES), rounds).raw


def test_several_rounds_are_one_message_without_memory_calls() -> None:
    played = play(ChatRewriter(NAMES), SPLICED)
    completion = read(played.raw)
    assert b"memory_" not in played.raw
    assert message_of(completion)["content"] == "Let me recall. Now I know."
    assert message_of(completion)["reasoning_content"] == "What was it?"
    assert [call["id"] for call in message_of(completion)["tool_calls"]] == ["call_run", "call_too"]
    assert completion["choices"][0]["finish_reason"] == "tool_calls"
    assert [(end.next, [call.id for call in end.calls]) for end in played.ends] == [
        (Next.CONTINUE, ["call_ask"]),
        (Next.END, ["call_ask"]),
    ]
    assert json.loads(played.ends[0].calls[0].input_json) == {"question": "what?"}


def test_usage_has_the_prompt_of_the_last_round_and_the_output_of_all() -> None:
    used = read(play(ChatRewriter(NAMES), SPLICED).raw)["usage"]
    assert (used["prompt_tokens"], used["completion_tokens"], used["total_tokens"]) == (112, 18, 130)


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


def test_cleanup_block_is_removed_from_a_text() -> None:
    completion = read(play(ChatRewriter(NAMES), [TAGGED]).raw)
    assert message_of(completion)["content"] == "Done.\nAnd more."
    assert [call["id"] for call in message_of(completion)["tool_calls"]] == ["call_run"]


def test_reply_of_hidden_calls_alone_says_so_when_it_is_ended() -> None:
    rewriter = ChatRewriter(NAMES)
    raw = b"".join(each.raw for each in [*rewriter.feed(SPLICED[0]), *rewriter.close(), *rewriter.end_now()])
    assert read(raw)["choices"][0]["finish_reason"] == "stop"
    rewriter = ChatRewriter(NAMES)
    asked = CHAT.stream(ModelReply("", "", [ASK]))
    raw = b"".join(each.raw for each in [*rewriter.feed(asked), *rewriter.close(), *rewriter.end_now()])
    assert message_of(read(raw))["content"] == NO_CONTENT


def test_error_before_any_output_is_plain_and_after_output_a_chunk() -> None:
    error = b'{"error":{"message":"full","type":"server_error"}}'
    [failed] = ChatRewriter(NAMES).feed(b"data: " + error + b"\n\n")
    assert isinstance(failed, FailedBeforeOutput)
    assert failed.error == error
    rewriter = ChatRewriter(NAMES)
    rewriter.feed(SPLICED[0])
    rewriter.next_round()
    [told] = rewriter.fail(error)
    assert told.raw == b"data: " + error + b"\n\n"
    assert rewriter.failed


def test_error_of_several_lines_is_one_frame() -> None:
    error = json.dumps({"error": {"message": "full", "type": "server_error"}}, indent=2).encode()
    rewriter = ChatRewriter(NAMES)
    rewriter.feed(SPLICED[0])
    rewriter.next_round()
    [told] = rewriter.fail(error)
    [frame] = FrameReader().feed(told.raw)
    assert event_of(frame) == json.loads(error)


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


def test_whole_completion_passes_unchanged_or_joins_its_rounds() -> None:
    plain = whole(ModelReply("I look there.", "Hm.", [RUN]))
    assert play(WholeReply(RULES, NAMES), [plain]).raw == plain
    played = play(
        WholeReply(RULES, NAMES),
        [whole(ModelReply("Let me recall. ", "", [ASK])), whole(ModelReply("Now.", "", [RUN, ASK]))],
    )
    completion = json.loads(played.raw)
    assert message_of(completion)["content"] == "Let me recall. Now."
    assert [call["id"] for call in message_of(completion)["tool_calls"]] == ["call_run"]
    assert (completion["usage"]["prompt_tokens"], completion["usage"]["completion_tokens"]) == (112, 18)


def test_first_reply_that_is_no_completion_passes_and_a_later_one_is_an_error() -> None:
    assert play(WholeReply(RULES, NAMES), [b"nonsense"]).raw == b"nonsense"
    rewriter = WholeReply(RULES, NAMES)
    rewriter.feed(whole(ModelReply("", "", [ASK])))
    rewriter.close()
    rewriter.next_round()
    rewriter.feed(b"nonsense")
    [failed] = rewriter.close()
    assert isinstance(failed, FailedBeforeOutput)


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
