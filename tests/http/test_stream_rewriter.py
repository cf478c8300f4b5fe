"""A stream without memory calls passes byte for byte, at every cut, with its end kept separate; any other reaches
the client as it would without them.
"""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING, visible, visible_blocks
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import Reply, ReplyBuilder
from mnemosyne.http.reply_copy import PassedStream
from mnemosyne.http.splicing import EndOfReply, EndOfRound, FailedBeforeOutput, Output, ToClient
from mnemosyne.http.stream_rewriter import StreamRewriter
from tests.http.rounds import HIDDEN, READ, RECALL, RESTORE, Round, call, events_of, play, text
from tests.http.streams import TEXT, THINKING, TOOL, cut, frame, message, stream
from tests.http.test_rewriters import joined
from tests.profiles import examples

WIRE = stream(message(THINKING, TEXT, TOOL, stop_reason="tool_use"))

MANAGED = pytest.mark.parametrize("hidden", [frozenset[str](), HIDDEN], ids=["observed", "managed"])


def rewritten(pieces: list[bytes], hidden: frozenset[str] = frozenset()) -> tuple[list[Output], Reply]:
    rewriter = StreamRewriter(hidden) if hidden else PassedStream(MESSAGES)
    outputs = [output for piece in pieces for output in rewriter.feed(piece)]
    return outputs + rewriter.close(), rewriter.reply.result()


ODD: list[dict[str, Any]] = [
    {"type": "message_start", "message": {}},
    {"type": "message_start"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_start", "index": 7, "content_block": {"type": "tool_use", "name": ["memory_query"]}},
    {"type": "content_block_start", "index": [0], "content_block": None},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
    {"type": "content_block_delta", "index": {}},
    {"type": "content_block_stop"},
    {"type": "message_delta", "delta": None, "usage": 3},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
    {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
    {"type": "unheard_of", "memory": 1},
    {"type": ["odd"]},
]
HIDDEN_ODD: list[dict[str, Any]] = [
    {"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "name": "memory_query"}}
    for index in (0, None, "0")
]


def odd_frame(event: dict[str, Any]) -> bytes:
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + json.dumps(event).encode() + b"\n\n"


@MANAGED
@given(st.lists(st.sampled_from(ODD), max_size=8))
def test_events_in_any_order_and_shape_pass_byte_for_byte(hidden: frozenset[str], events: list[dict[str, Any]]) -> None:
    wire = b"".join(map(odd_frame, events))
    assert joined(rewritten([wire], hidden)[0]) == wire


@given(st.lists(st.lists(st.sampled_from([*ODD, *HIDDEN_ODD]), max_size=8), max_size=3))
def test_no_order_or_shape_of_events_breaks_the_rewriter_or_leaks_the_name(rounds: list[list[dict[str, Any]]]) -> None:
    rewriter = StreamRewriter(HIDDEN)
    outputs: list[Output] = []
    for events in rounds:
        rewriter.next_round()
        outputs += rewriter.feed(b"".join(map(odd_frame, events)))
        rewriter.visible()
        outputs += rewriter.close()
    if outputs and isinstance(outputs[-1], EndOfRound):
        outputs += rewriter.end_now()
    rewriter.visible()
    assert b'"name": "memory_query"' not in joined(outputs)


def test_last_frame_is_separate_so_the_reply_can_be_recorded_before_it_is_sent() -> None:
    outputs, _ = rewritten([WIRE])
    assert [type(output) for output in outputs] == [ToClient, EndOfReply]
    assert outputs[-1].raw == frame({"type": "message_stop"})


# With memory tools

LOOK, FOUND = text("Let me look."), text("It is in login.py.")


def managed(*rounds: Round) -> list[Output]:
    return play(StreamRewriter(HIDDEN), [round_.stream() for round_ in rounds]).outputs


def shown(outputs: list[Output]) -> list[str]:
    """A transcript: the client's output in short form, and the relay's signals in between."""
    lines: list[str] = []
    for output in outputs:
        match output:
            case EndOfRound():
                lines.append(f"-- {output.next.name} {[call.name for call in output.calls]}")
            case FailedBeforeOutput():
                lines.append("-- FAILED")
            case EndOfReply() | ToClient():
                lines += [
                    f"{event['type']} {event['index']}" if "index" in event else event["type"]
                    for event in events_of(output.raw)
                    if event["type"] != "content_block_delta"
                ]
    return lines


def test_nothing_is_output_before_the_first_visible_event_of_any_round() -> None:
    assert shown(managed(Round([RECALL], "tool_use"), Round([FOUND]))) == [
        "-- CONTINUE ['memory_query']",
        "message_start",
        "ping",
        "ping",
        "content_block_start 0",
        "content_block_stop 0",
        "message_delta",
        "-- END []",
        "message_stop",
    ]


def test_visible_frame_is_output_at_once_and_a_text_starts_with_its_first_words() -> None:
    rewriter = StreamRewriter(HIDDEN)
    opening, ping, start, first, *deltas = map(frame, message(TEXT)[:-3])
    assert [rewriter.feed(raw) for raw in (opening, ping, start)] == [[], [], []]
    assert rewriter.feed(first) == [ToClient(opening + ping + start + first)]
    assert [rewriter.feed(raw) for raw in deltas] == [[ToClient(raw)] for raw in deltas]


def test_unknown_events_are_not_delayed() -> None:
    """A stream in another dialect flows, too."""
    chunk = b'data: {"object":"chat.completion.chunk"}\n\n'
    assert StreamRewriter(HIDDEN).feed(b": aside\n\n" + chunk) == [ToClient(b": aside\n\n" + chunk)]


def test_frames_keep_their_bytes_except_for_changed_indexes() -> None:
    text_frames = [
        b': aside\r\nevent: content_block_start\r\ndata: {"content_block" : {"type":"text","text":"","index":9},'
        b'"index" : %d ,"type":"content_block_start","new":1.0}\r\n\r\n',
        b'event:content_block_stop\ndata:{"index":null,"type":"content_block_stop","index":%d}\n\n',
    ]
    hidden = message([call("memory_query"), {"type": "input_json_delta", "partial_json": "{}"}], stop_reason="tool_use")
    before = b"".join(frame_ % 0 for frame_ in text_frames)
    after = b"".join(frame_ % 2 for frame_ in text_frames)
    hidden_at_1 = b"".join(frame(event).replace(b'"index":0', b'"index":1') for event in hidden[2:-2])
    [sent] = StreamRewriter(HIDDEN).feed(frame(hidden[0]) + before + hidden_at_1 + after)
    assert sent.raw == frame(hidden[0]) + before + b"".join(frame_ % 1 for frame_ in text_frames)


@pytest.mark.parametrize(
    "odd",
    [b'event: content_block_stop\ndata: {"type":"content_block_stop",\ndata: "index":1}\n\n', odd_frame],
    ids=["in two lines", "in UTF-16"],
)
def test_frame_of_unusual_shape_is_renumbered_too(odd: Any) -> None:
    if callable(odd):
        event = {"type": "content_block_stop", "index": 1}
        odd = b"event: content_block_stop\ndata: " + json.dumps(event).encode("utf-16-be") + b"\n\n"
    wire = Round([RECALL, LOOK], "tool_use").stream()
    usual = frame({"type": "content_block_stop", "index": 1})
    assert usual in wire
    outputs = StreamRewriter(HIDDEN).feed(wire.replace(usual, odd))
    assert {"type": "content_block_stop", "index": 0} in events_of(joined(outputs))


def test_call_input_that_is_no_json_is_output_as_text() -> None:
    broken = {**RECALL, "input": '{"text": "log'}
    [end] = [output for output in managed(Round([broken], "tool_use")) if isinstance(output, EndOfRound)]
    assert [call.input_json for call in end.calls] == ['{"text": "log']
    assert json.loads(end.reply.body)["content"][0]["input"] == '{"text": "log'


def test_final_frame_keeps_its_bytes_if_it_is_correct() -> None:
    odd = b'event:message_delta\ndata: {"usage":{}, "delta":{"stop_reason":"tool_use"},"type":"message_delta"}\n\n'
    last = Round([READ, RECALL], "tool_use")
    wire = last.stream().replace(frame(last.events()[-2]), odd)
    assert joined(play(StreamRewriter(HIDDEN), [wire]).outputs).endswith(odd + frame({"type": "message_stop"}))


def test_changed_final_frame_keeps_its_unknown_fields() -> None:
    """In two frames here, of which the client gets one."""
    odd: list[dict[str, Any]] = [
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "new": 1}, "usage": {"output_tokens": 9}},
        {"type": "message_delta", "delta": {"newer": 2}, "more": 3, "usage": {"output_tokens": 20, "speed": "fast"}},
    ]
    last = Round([FOUND], "tool_use")
    wire = last.stream().replace(frame(last.events()[-2]), b"".join(frame(event) for event in odd))
    outcome = events_of(joined(play(StreamRewriter(HIDDEN), [Round([RECALL], "tool_use").stream(), wire]).outputs))
    assert [event for event in outcome if event["type"] == "message_delta"] == [
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "new": 1, "newer": 2},
            "usage": {**last.usage, "output_tokens": 25, "speed": "fast"},
            "more": 3,
        }
    ]


ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize("earlier", [[], [Round([RECALL], "tool_use")]], ids=["first round", "later round"])
def test_error_before_any_output_can_be_a_plain_http_error(earlier: list[Round]) -> None:
    failing = b"".join(map(frame, [*Round([]).events()[:2], ERROR]))
    outputs = play(StreamRewriter(HIDDEN), [*(round_.stream() for round_ in earlier), failing]).outputs
    assert isinstance(outputs[-1], FailedBeforeOutput)
    assert json.loads(outputs[-1].error) == ERROR
    assert [event["type"] for event in events_of(outputs[-1].raw) if event["type"] != "ping"] == [
        "message_start",
        "error",
    ]


def test_error_after_output_passes_unchanged() -> None:
    failing = b"".join(map(frame, [*Round([]).events()[:2], ERROR]))
    outputs = play(StreamRewriter(HIDDEN), [Round([LOOK, RECALL], "tool_use").stream(), failing]).outputs
    assert outputs[-1].raw.endswith(frame(ERROR))
    assert not any(isinstance(output, EndOfReply | FailedBeforeOutput) for output in outputs)


@pytest.mark.parametrize("kept", range(0, 1000, 150))
def test_later_round_that_breaks_off_ends_with_an_error_and_no_partial_frame(kept: int) -> None:
    rewriter = StreamRewriter(HIDDEN)
    broken = Round([FOUND, RESTORE], "tool_use").stream()
    assert kept < len(broken)
    outputs = play(rewriter, [Round([LOOK, RECALL], "tool_use").stream(), broken[:kept]]).outputs
    assert events_of(joined(outputs))[-1]["error"]["type"] == "api_error"
    assert b"memory" not in joined(outputs)
    assert rewriter.close() == []
    assert not rewriter.visible().complete
    assert json.loads(rewriter.visible().body)["content"][0] == LOOK


def test_next_round_refused_over_http_is_an_error_event_or_a_plain_error() -> None:
    refusal = b'{"type":"error",\n"error":{"type":"rate_limit_error","message":"slow down"}}'
    quiet, begun = StreamRewriter(HIDDEN), StreamRewriter(HIDDEN)
    play(quiet, [Round([RECALL], "tool_use").stream()])
    play(begun, [Round([LOOK, RECALL], "tool_use").stream()])
    [failed], [event] = quiet.fail(refusal), begun.fail(refusal)
    assert isinstance(failed, FailedBeforeOutput)
    assert failed.error == refusal
    assert event == ToClient(
        b'event: error\ndata: {"type":"error",\ndata: "error":{"type":"rate_limit_error","message":"slow down"}}\n\n'
    )


def test_ping_releases_held_output_and_is_silent_before_a_reply() -> None:
    rewriter = StreamRewriter(HIDDEN)
    assert rewriter.ping() == b""
    rewriter.feed(Round([RECALL], "tool_use").stream())
    assert [event["type"] for event in events_of(rewriter.ping())] == ["message_start", "ping", "ping"]
    assert [event["type"] for event in events_of(rewriter.ping())] == ["ping"]
    rewriter.next_round()
    outputs = rewriter.feed(Round([FOUND]).stream())
    assert shown(outputs)[:2] == ["ping", "content_block_start 0"]
    assert rewriter.ping() == b""


def test_ping_never_splits_a_frame() -> None:
    rewriter = StreamRewriter(HIDDEN)
    wire = Round([LOOK]).stream()
    sent = b""
    for place in range(len(wire)):
        sent += joined(rewriter.feed(wire[place : place + 1])) + rewriter.ping()
    pings = sum(event["type"] == "ping" for event in events_of(sent))
    assert pings > len(events_of(wire))


def test_index_is_not_reused_after_a_gap() -> None:
    wire = Round([LOOK, FOUND, RECALL, READ], "tool_use").stream()
    for number in (3, 2, 1):
        wire = wire.replace(b'"index":%d' % number, b'"index":%d' % (number + 1))
    events = events_of(joined(StreamRewriter(HIDDEN).feed(wire)))
    assert [event["index"] for event in events if event["type"] == "content_block_start"] == [0, 2, 3]


def test_round_abandoned_in_mid_frame_does_not_spoil_the_next() -> None:
    rewriter = StreamRewriter(HIDDEN)
    rewriter.feed(Round([RECALL], "tool_use").stream() + b'data: {"half')
    rewriter.next_round()
    [_, end, _] = rewriter.feed(Round([FOUND], id="msg_2").stream())
    assert isinstance(end, EndOfRound)
    assert end.reply.message_id == "msg_2"


def test_final_frame_without_data_ends_the_reply() -> None:
    [*_, end] = StreamRewriter(HIDDEN).feed(b"event: message_stop\ndata\n\n")
    assert end == EndOfReply(b"event: message_stop\ndata\n\n")


def test_final_frame_of_unknown_shape_is_replaced_by_a_known_one() -> None:
    last = Round([LOOK, RECALL, READ], "max_tokens")
    wire = last.stream().replace(frame(last.events()[-2]), frame({"type": "message_delta", "delta": None, "usage": 3}))
    [*_, outcome, _] = events_of(joined(play(StreamRewriter(HIDDEN), [wire]).outputs))
    assert outcome == {
        "type": "message_delta",
        "delta": {"stop_reason": None},
        "usage": {**last.usage, "output_tokens": 1},
    }


def test_only_calls_that_the_client_would_answer_are_hidden() -> None:
    server = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "memory_query", "input": {}}
    wire = Round([server]).stream()
    assert joined(play(StreamRewriter(HIDDEN), [wire]).outputs) == wire


# With cleanup tags

TAG = f"{OPENING}\ndrop: #abc2345\n{CLOSING}\n"

tagged = (TAG, TAG, TAG[:-1], OPENING, f"{OPENING}\n", "drop: #abc2345\n", f"{CLOSING}\n", "anchor: #abc2345\n")
plain = ("\n", " ", "<", "<mem", "```\n", "> ", "Hello", "zwölf ☕\n", "\r\n")
texts = st.lists(st.sampled_from((*tagged, *plain)), max_size=7).map("".join)
places = st.lists(st.integers(0, 400), max_size=6)


def pieces(said: str, cuts: list[int]) -> list[dict[str, Any]]:
    """A text block as streamed by a provider that cuts it at these places."""
    edges = sorted({0, len(said), *(cut % (len(said) + 1) for cut in cuts)})
    deltas = [said[start:end] for start, end in itertools.pairwise(edges)]
    return [{"type": "text", "text": ""}, *({"type": "text_delta", "text": each} for each in deltas)]


blocks = st.one_of(
    st.builds(pieces, texts, places), st.builds(pieces, texts, places), st.sampled_from([THINKING, TOOL])
)  # fmt: skip


def read_back(raw: bytes) -> dict[str, Any]:
    """The message that a reader makes of a stream; blocks have consecutive indexes, and each starts and ends once."""
    builder, expected, is_open = ReplyBuilder(), 0, False
    for event in events_of(raw):
        builder.take(event)
        match event["type"]:
            case "content_block_start":
                assert (event["index"], is_open) == (expected, False)
                is_open = True
            case "content_block_stop":
                assert (event["index"], is_open) == (expected, True)
                expected, is_open = expected + 1, False
            case "content_block_delta":
                assert (event["index"], is_open) == (expected, True)
    return builder.message()


@given(st.lists(blocks, min_size=1, max_size=4), st.lists(st.integers(0, 5000)))
@examples(300)
def test_client_gets_the_visible_part_of_any_texts_and_nothing_else_changes(
    said: list[list[dict[str, Any]]], network: list[int]
) -> None:
    wire = b"".join(map(frame, message(*said)))
    rewriter = StreamRewriter(HIDDEN)
    played = play(rewriter, [wire], lambda raw: cut(raw, network))
    original = read_back(wire)
    seen = visible_blocks(original["content"])
    if seen != original["content"] and all(block["type"] == "thinking" for block in seen):
        seen.append(text(NO_CONTENT))
    assert read_back(played.raw) == {**original, "content": seen}
    assert json.loads(rewriter.visible().body)["content"] == seen
    [end] = played.ends
    assert json.loads(end.reply.body)["content"] == original["content"]
    assert played.raw == play(StreamRewriter(HIDDEN), [wire]).raw
    if seen == original["content"]:
        assert played.raw == wire


@given(texts, places, st.integers(0, 5000))
@examples(300)
def test_broken_stream_shows_the_visible_part_of_some_prefix(said: str, cuts: list[int], place: int) -> None:
    wire = b"".join(map(frame, message(pieces(said, cuts))))
    begun = wire[: place % len(wire)]
    raw = joined(rewritten([begun], HIDDEN)[0])
    outcome = "".join(texts_in(b"".join(raw.rpartition(b"\n\n")[:2])))
    fed = texts_in(wire)
    if outcome == NO_CONTENT:  # the reply is complete except for its last frame, and none of it is visible
        assert b"event: message_delta" in begun
        assert visible("".join(fed)) == ""
    else:
        assert outcome in {"", *(visible("".join(fed[:number])) for number in range(len(fed) + 1))}


def texts_in(raw: bytes) -> list[str]:
    events = events_of(raw) if raw else []
    return [event["delta"]["text"] for event in events if "text" in event.get("delta", {})]


def test_text_that_cannot_begin_a_block_passes_at_once_and_possible_beginnings_wait_briefly() -> None:
    deltas = ["Hello", " <b>\n", "<m", "y>", "\n", OPENING, " is", "\n> <", "\n```", "\n", f"{OPENING}\n", "drop"]
    events = message([{"type": "text", "text": ""}, *({"type": "text_delta", "text": each} for each in deltas)])
    rewriter = StreamRewriter(HIDDEN)
    sent = [joined(rewriter.feed(frame(event))) for event in events]
    waited = [event for event, raw in zip(events, sent, strict=True) if not raw]
    assert [event["delta"]["text"] for event in waited if "delta" in event] == ["<m", OPENING]
    assert b"".join(sent) == b"".join(map(frame, events))


def test_only_frames_whose_text_changes_are_rewritten() -> None:
    deltas = ["Well.\n", f"So.\n{OPENING}\ndr", "op: #abc2345\n", f"{CLOSING}\nDone", " now."]
    said = [{"type": "text", "text": ""}, *({"type": "text_delta", "text": each} for each in deltas)]
    wire = b"".join(map(frame, message(said)))
    changed = {"So.\n": deltas[1], "Done": deltas[3]}
    expected = wire.replace(frame(message(said)[5]), b"")
    for shown_text, delta in changed.items():
        before, after = (
            frame({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": each}})
            for each in (delta, shown_text)
        )
        assert before in expected
        expected = expected.replace(before, after)
    assert joined(rewritten([wire], HIDDEN)[0]) == expected


def test_events_during_a_held_text_keep_their_place_and_survive_a_hidden_block() -> None:
    ping, aside = frame({"type": "ping"}), b": aside\n\n"
    first, start, *rest = map(frame, message(pieces(TAG, [20]))[:1] + message(pieces(TAG, [20]))[2:])
    wire = first + start + ping + rest[0] + aside + b"".join(rest[1:])
    raw = joined(rewritten([wire], HIDDEN)[0])
    assert raw.startswith(first + ping + aside)
    assert read_back(raw.replace(aside, b""))["content"] == [text(NO_CONTENT)]
    odd = wire.replace(b"<memory_cleanup>", b"<memory cleanup>")
    assert joined(rewritten([odd], HIDDEN)[0]) == odd


def test_initial_text_of_a_block_is_read_like_its_deltas() -> None:
    begun = [{"type": "text", "text": f"{TAG}It "}, {"type": "text_delta", "text": "goes on."}]
    raw = joined(rewritten([b"".join(map(frame, message(begun)))], HIDDEN)[0])
    assert read_back(raw)["content"] == [text("It goes on.")]
