"""A stream that holds nothing of ours passes byte for byte, at every cut, and its end is told apart."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.reply import Reply
from mnemosyne.http.stream_rewriter import EndOfReply, Output, StreamRewriter, ToClient
from tests.http.streams import TEXT, THINKING, TOOL, cut, frame, message, stream

WIRE = stream(message(THINKING, TEXT, TOOL, stop_reason="tool_use"))


def rewritten(pieces: list[bytes]) -> tuple[list[Output], Reply]:
    rewriter = StreamRewriter()
    outputs = [output for piece in pieces for output in rewriter.feed(piece)]
    return outputs + rewriter.close(), rewriter.reply.result()


def joined(outputs: list[Output]) -> bytes:
    return b"".join(output.raw for output in outputs)


@given(st.lists(st.integers(0, len(WIRE))))
def test_a_stream_passes_byte_for_byte_wherever_it_was_cut(places: list[int]) -> None:
    outputs, reply = rewritten(cut(WIRE, places))
    assert joined(outputs) == WIRE
    assert reply == rewritten([WIRE])[1]


@given(st.binary())
def test_bytes_that_are_no_event_stream_pass_too(garbage: bytes) -> None:
    assert joined(rewritten([garbage])[0]) == garbage


def test_the_last_frame_is_told_apart_so_that_the_reply_can_be_recorded_before_it_leaves() -> None:
    outputs, _ = rewritten([WIRE])
    assert [type(output) for output in outputs] == [ToClient, EndOfReply]
    assert outputs[-1].raw == frame({"type": "message_stop"})


def test_every_frame_leaves_with_the_chunk_that_completes_it() -> None:
    rewriter = StreamRewriter()
    for event in message(TEXT)[:-1]:
        assert rewriter.feed(frame(event)) == [ToClient(frame(event))]


def test_a_stream_that_breaks_off_gives_back_what_was_held() -> None:
    rewriter = StreamRewriter()
    rewriter.feed(WIRE[:-5])
    assert joined(rewriter.close()) == frame({"type": "message_stop"})[:-5]
    assert not rewriter.reply.result().complete
