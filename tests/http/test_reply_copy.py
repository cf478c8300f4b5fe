"""The reader matches the reply: streams, whole bodies, and compressed ones, whose bytes pass compressed."""

import gzip
import resource
import zlib
from collections.abc import Callable

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.json_spans import MOST_VALUES
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import LONGEST_WHOLE, Reply
from mnemosyne.http.content_encoding import STEP, decoder_for
from mnemosyne.http.messages_route import readable_body
from mnemosyne.http.reply_copy import copy_for
from mnemosyne.http.splicing import EndOfReply, Output
from mnemosyne.zstd import ZstdCompressor
from tests.http.streams import TEXT, TOOL, cut, message, stream


def zstd_compress(data: bytes) -> bytes:
    return ZstdCompressor().compress(data, ZstdCompressor.FLUSH_FRAME)


WIRE = stream(message(TEXT, TOOL))
ENCODERS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd_compress}


def read(head: ReplyHead, pieces: list[bytes]) -> tuple[list[Output], Reply]:
    reading = copy_for(head, MESSAGES)
    outputs = [output for piece in pieces for step in reading.feed(piece) for output in step]
    return outputs + reading.close(), reading.reply.result()


def head(content_type: str, encoding: str = "") -> ReplyHead:
    headers = [(b"Content-Type", content_type.encode())]
    return ReplyHead(200, (*headers, (b"Content-Encoding", encoding.encode())) if encoding else tuple(headers))


@pytest.mark.parametrize("encoding", ENCODERS)
@given(places=st.lists(st.integers(0, 10_000)))
def test_compressed_stream_passes_compressed_and_is_read(encoding: str, places: list[int]) -> None:
    encoded = ENCODERS[encoding](WIRE)
    outputs, reply = read(head("text/event-stream; charset=utf-8", encoding), cut(encoded, places))
    assert b"".join(output.raw for output in outputs) == encoded
    assert reply == read(head("text/event-stream"), [WIRE])[1]
    assert reply.complete


def brotli_bomb() -> bytes:
    """A gigabyte in about a kilobyte."""
    compressor = brotli.Compressor(quality=5)
    zeros = bytes(1 << 24)
    return b"".join([*(compressor.process(zeros) for _ in range(64)), compressor.finish()])


@pytest.mark.release  # it decodes a gigabyte
def test_small_body_that_decodes_to_a_gigabyte_does_not_fill_memory() -> None:
    bomb = brotli_bomb()
    assert len(bomb) < 10_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert readable_body(((b"Content-Encoding", b"br"),), bomb) is None
    outputs, _ = read(head("application/json", "br"), [bomb])
    assert b"".join(output.raw for output in outputs) == bomb
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 800 * 1024  # KB: the bound is 256 MB, and the decoder may hold its output twice


@pytest.mark.parametrize("encoding", ENCODERS)
def test_few_compressed_bytes_with_a_large_output_are_decoded_in_short_steps(encoding: str) -> None:
    """So such a reply delays no other request."""
    many = b'event: ping\ndata: {"type":"ping"}\n\n' * 30_000
    decoder = decoder_for((encoding.encode(),))
    assert decoder is not None
    pieces = [*decoder.pieces(ENCODERS[encoding](many))]
    assert b"".join(pieces) == many
    assert max(map(len, pieces)) <= 2 * STEP  # a decoder may round up


@pytest.mark.parametrize("encoding", ENCODERS)
def test_one_piece_of_many_frames_is_read_in_as_many_steps(encoding: str) -> None:
    many = WIRE + b": ping\n\n" * 100_000
    reading = copy_for(head("text/event-stream", encoding), MESSAGES)
    encoded = ENCODERS[encoding](many)
    steps = [*reading.feed(encoded)]
    assert len(steps) > len(many) // (2 * STEP)
    assert b"".join(output.raw for step in steps for output in step) == encoded
    assert reading.reply.result().complete


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("frame", [b": ping\n\n", b"one endless line"])
@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_reply_is_read_up_to_a_bound_and_passes_completely(
    kind: str, frame: bytes, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemosyne.http.reply_copy.LARGEST_REPLY", 3 * STEP)
    sent = frame * STEP
    encoded = gzip.compress(sent) if encoding else sent
    outputs, reply = read(head(kind, encoding), [encoded[:STEP], encoded[STEP:], b"more", b"and more"])
    assert b"".join(output.raw for output in outputs) == encoded + b"moreand more"
    assert len(reply.body) <= 3 * STEP
    assert not reply.complete


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_reply_with_too_many_values_passes_unread(kind: str) -> None:
    raw = b'{"id":"msg_7","type":"message_start","message":{"id":"msg_7"},"x":[' + b"0," * MOST_VALUES + b"0]}"
    sent = b"data: " + raw + b"\n\n" if "stream" in kind else raw
    outputs, reply = read(head(kind), [sent])
    assert b"".join(output.raw for output in outputs) == sent
    assert (reply.message_id, reply.body) == (None, b"{}" if "stream" in kind else raw)


def test_too_long_whole_reply_is_kept_and_not_parsed() -> None:
    raw = b'{"id":"msg_7","text":"' + b"a" * (LONGEST_WHOLE - 24) + b'"}'
    assert len(raw) == LONGEST_WHOLE
    assert read(head("application/json"), [raw])[1].message_id == "msg_7"
    _, reply = read(head("application/json"), [raw + b" "])
    assert (reply.message_id, reply.body, reply.complete) == (None, raw + b" ", True)


@pytest.mark.parametrize("encoding", ENCODERS)
@given(data=st.binary(max_size=3000), room=st.integers(1, 4000), places=st.lists(st.integers(0, 3000), max_size=5))
def test_reply_within_the_budget_is_decoded_and_a_larger_one_refused(
    encoding: str, data: bytes, room: int, places: list[int]
) -> None:
    bounded = decoder_for((encoding.encode(),), room - 1)
    assert bounded is not None
    pieces = [piece for piece in cut(ENCODERS[encoding](data), places) if piece]
    if len(data) < room:
        assert b"".join(map(bounded.decode, pieces)) == data
    else:
        with pytest.raises(ValueError, match="decoded body is too large"):
            b"".join(map(bounded.decode, pieces))


@pytest.mark.parametrize("encoding", ENCODERS)
def test_compressed_whole_reply_is_recorded_decoded(encoding: str) -> None:
    encoded = ENCODERS[encoding](b'{"id":"msg_7","usage":{"input_tokens":3}}')
    outputs, reply = read(head("application/json", encoding), [encoded])
    assert outputs == [EndOfReply(encoded)]
    assert (reply.message_id, reply.usage) == ("msg_7", {"input_tokens": 3})


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-zlib.MAX_WBITS)


def in_members(encode: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda data: encode(data[:50]) + encode(b"") + encode(data[50:])


UNUSUAL: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip in members": ("gzip", in_members(gzip.compress)),
    "gzip and padding": ("x-gzip", lambda data: gzip.compress(data) + b"\0" * 9),
    "zstd in frames": ("zstd", in_members(zstd_compress)),
    "zstd with a frame to be skipped": ("zstd", lambda data: b"\x50\x2a\x4d\x18\x02\0\0\0ab" + zstd_compress(data)),
    "deflate without a header": ("deflate", raw_deflate),
    "gzip twice": ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    "one in another": ("deflate,br", lambda data: brotli.compress(raw_deflate(data))),
    "identity beside it": (" Identity , GZIP", gzip.compress),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@given(places=st.lists(st.integers(0, 400), max_size=8))
def test_unusual_body_passes_unchanged_and_is_read_completely(kind: str, places: list[int]) -> None:
    encoding, encode = UNUSUAL[kind]
    for content_type, data in (("text/event-stream", WIRE), ("application/json", b'{"id":"m","a":"%s"}' % (b"x" * 90))):
        encoded = encode(data)
        outputs, reply = read(head(content_type, encoding), cut(encoded, places))
        assert b"".join(output.raw for output in outputs) == encoded
        assert any(isinstance(output, EndOfReply) for output in outputs)
        assert reply == read(head(content_type), [data])[1]


@pytest.mark.parametrize("kind", [kind for kind in UNUSUAL if kind != "gzip and padding"])
def test_whole_body_cut_in_its_compressed_data_has_no_end(kind: str) -> None:
    encoding, encode = UNUSUAL[kind]
    encoded = encode(b'{"id":"m"}' + b" " * 99)[:-3]
    outputs, _ = read(head("application/json", encoding), [encoded])
    assert b"".join(output.raw for output in outputs) == encoded
    assert not any(isinstance(output, EndOfReply) for output in outputs)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "lzma", "gzip, lzma", "gzip," * 9])
def test_body_that_is_not_in_its_stated_encoding_is_recorded_unchanged(encoding: str) -> None:
    data = b'{"id":"msg_7"}'
    outputs, reply = read(head("application/json", encoding), [data[:1], data[1:]])
    assert b"".join(output.raw for output in outputs) == data
    assert (reply.body, reply.complete) == (data, True)
