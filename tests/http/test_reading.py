"""The reader fits the reply: streams, whole bodies, and compressed ones, whose bytes pass compressed."""

import gzip
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.http.reading import reading_of
from mnemosyne.http.stream_rewriter import EndOfReply, Output
from mnemosyne.zstd import ZstdCompressor
from tests.http.streams import TEXT, TOOL, cut, message, stream


def zstd_compress(data: bytes) -> bytes:
    return ZstdCompressor().compress(data, ZstdCompressor.FLUSH_FRAME)


WIRE = stream(message(TEXT, TOOL))
ENCODERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd_compress,
}


def read(head: ReplyHead, pieces: list[bytes]) -> tuple[list[Output], Reply]:
    reading = reading_of(head)
    outputs = [output for piece in pieces for output in reading.feed(piece)]
    return outputs + reading.close(), reading.reply.result()


def head(content_type: str, encoding: str = "") -> ReplyHead:
    headers = [(b"Content-Type", content_type.encode())]
    return ReplyHead(200, (*headers, (b"Content-Encoding", encoding.encode())) if encoding else tuple(headers))


@pytest.mark.parametrize("encoding", ENCODERS)
@given(places=st.lists(st.integers(0, 10_000)))
def test_a_compressed_stream_passes_compressed_and_is_read(encoding: str, places: list[int]) -> None:
    encoded = ENCODERS[encoding](WIRE)
    outputs, reply = read(head("text/event-stream; charset=utf-8", encoding), cut(encoded, places))
    assert b"".join(output.raw for output in outputs) == encoded
    assert reply == read(head("text/event-stream"), [WIRE])[1]
    assert reply.complete


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_compressed_whole_reply_is_recorded_decoded(encoding: str) -> None:
    encoded = ENCODERS[encoding](b'{"id":"msg_7","usage":{"input_tokens":3}}')
    outputs, reply = read(head("application/json", encoding), [encoded])
    assert outputs == [EndOfReply(encoded)]
    assert (reply.message_id, reply.usage) == ("msg_7", {"input_tokens": 3})


def test_a_reply_in_an_unknown_encoding_passes_and_is_recorded_as_it_came() -> None:
    outputs, reply = read(head("text/event-stream", "snappy"), [b"\x01", b"\x02"])
    assert b"".join(output.raw for output in outputs) == reply.body == b"\x01\x02"


def test_a_reply_that_lies_about_its_encoding_still_passes() -> None:
    outputs, _ = read(head("text/event-stream", "gzip"), [WIRE])
    assert b"".join(output.raw for output in outputs) == WIRE
