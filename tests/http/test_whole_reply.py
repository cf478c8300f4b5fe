"""A reply that is no stream passes as it came; only its last chunk waits."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.http.stream_rewriter import EndOfReply, ToClient
from mnemosyne.http.whole_reply import WholeReply


@given(st.lists(st.binary(min_size=1)))
def test_outputs_joined_are_what_was_fed_and_the_end_comes_last(chunks: list[bytes]) -> None:
    reading = WholeReply()
    outputs = [output for chunk in chunks for output in reading.feed(chunk)] + reading.close()
    assert b"".join(output.raw for output in outputs) == b"".join(chunks)
    assert [type(output) for output in outputs[:-1]] == [ToClient] * (len(outputs) - 1)
    assert isinstance(outputs[-1], EndOfReply)
    assert reading.reply.result().body == b"".join(chunks)


def test_an_error_body_is_read() -> None:
    reading = WholeReply()
    reading.feed(b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')
    reading.close()
    assert reading.reply.result().error_type == "overloaded_error"
