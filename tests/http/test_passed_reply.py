"""A reply passes unchanged in every dialect; only its last bytes are output separately."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.http.reply_copy import PassedStream, copy_raw
from mnemosyne.http.splicing import EndOfReply, ToClient
from tests.domain.wire.dialects import WRITTEN, Written, replies
from tests.http.streams import cut


@given(st.lists(st.binary(min_size=1)))
def test_joined_outputs_equal_the_input_and_the_end_is_last(chunks: list[bytes]) -> None:
    reading = copy_raw(MESSAGES)
    outputs = [output for chunk in chunks for step in reading.feed(chunk) for output in step] + reading.close()
    assert b"".join(output.raw for output in outputs) == b"".join(chunks)
    assert [type(output) for output in outputs[:-1]] == [ToClient] * (len(outputs) - 1)
    assert isinstance(outputs[-1], EndOfReply)
    assert reading.reply.result().body == b"".join(chunks)


def test_error_body_is_read() -> None:
    reading = copy_raw(MESSAGES)
    list(reading.feed(b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'))
    reading.close()
    assert reading.reply.result().error_type == "overloaded_error"


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.dialect.name)
@given(places=st.lists(st.integers(0, 4_000)))
def test_stream_passes_and_reads_alike_at_every_network_cut(written: Written, places: list[int]) -> None:
    for said in replies():
        raw = written.stream(said)
        uncut, pieces = PassedStream(written.dialect), PassedStream(written.dialect)
        early, end = uncut.feed(raw)
        assert (type(early), type(end)) == (ToClient, EndOfReply), "what precedes the end does not wait for it"
        outputs = [output for piece in cut(raw, places) for output in pieces.feed(piece)]
        assert b"".join(output.raw for output in [*outputs, *pieces.close()]) == raw
        assert [type(output) for output in outputs].count(EndOfReply) == 1
        assert pieces.reply.result() == uncut.reply.result()


def test_reply_without_the_last_frame_is_complete_at_some_servers() -> None:
    chat = next(each for each in WRITTEN if each.dialect.name == "chat")
    raw = chat.stream(replies()[-1]).removesuffix(b"data: [DONE]\n\n")
    reading = PassedStream(chat.dialect)
    reading.feed(raw)
    assert reading.close() == [EndOfReply(b"")]
    cut_short = PassedStream(chat.dialect)
    cut_short.feed(raw[:200])
    assert not any(isinstance(output, EndOfReply) for output in cut_short.close())
