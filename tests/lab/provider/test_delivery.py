"""Framing and compression change the cuts between bytes, never the bytes."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne_lab.provider.delivery import Chunk, Cut, Head, Step, Wait, compress, frame

_STEPS = st.lists(st.builds(Chunk, st.binary(max_size=20)) | st.just(Wait(1)), max_size=12)
_FRAMING = st.sampled_from(["frame", "byte", "whole"]) | st.lists(st.integers(1, 7), min_size=1, max_size=3)


def joined(steps: list[Step]) -> list[bytes]:
    """The bytes between waits."""
    parts = [b""]
    for step in steps:
        if isinstance(step, Chunk):
            parts[-1] += step.data
        else:
            parts.append(b"")
    return parts


@given(_STEPS, _FRAMING)
def test_framing_keeps_all_bytes_and_never_moves_one_across_a_wait(steps: list[Step], framing: str | list[int]) -> None:
    assert joined(list(frame(steps, framing))) == joined(steps)  # type: ignore[arg-type]


def test_each_framing_cuts_at_its_places() -> None:
    steps: list[Step] = [Chunk(b"abc"), Chunk(b"de"), Cut()]
    assert list(frame(steps, "frame")) == steps
    assert list(frame(steps, "whole")) == [Chunk(b"abcde"), Cut()]
    assert list(frame(steps, "byte")) == [*(Chunk(bytes([c])) for c in b"abcde"), Cut()]
    assert list(frame(steps, [2, 1])) == [Chunk(b"ab"), Chunk(b"c"), Chunk(b"de"), Cut()]


@given(_STEPS)
def test_compressed_piece_can_be_read_as_soon_as_it_arrives(steps: list[Step]) -> None:
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    read = [reader.decompress(step.data) for step in compress(steps) if isinstance(step, Chunk)]
    assert read[:-1] == [step.data for step in steps if isinstance(step, Chunk)]
    assert reader.eof


def test_compression_replaces_the_length() -> None:
    [head, _] = compress([Head(200, [("content-length", "3"), ("x", "y")])])
    assert isinstance(head, Head)
    assert head.headers == [("x", "y"), ("content-encoding", "gzip")]
