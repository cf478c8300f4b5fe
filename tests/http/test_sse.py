"""Frames follow the event-stream format, and no byte is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.http.sse import Frame, FrameReader, parse
from tests.http.streams import TEXT, THINKING, TOOL, cut, message, stream

LINES = st.lists(st.sampled_from([b"event: ping", b"data: {}", b": comment", b"data", b"\xe2\x80\xa8", b""]))
ENDINGS = st.sampled_from([b"\n", b"\r\n", b"\r"])
WIRE = st.lists(st.tuples(LINES, ENDINGS)).map(
    lambda groups: b"".join(line + end for lines, end in groups for line in lines)
)


def frames_of(pieces: list[bytes]) -> tuple[list[Frame], bytes]:
    reader = FrameReader()
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    return frames, reader.rest


@given(WIRE, st.lists(st.integers(0, 10_000)))
def test_frames_do_not_depend_on_the_network_cuts(wire: bytes, places: list[int]) -> None:
    """Except for frames without data, which are merged as far as they arrive together."""
    (frames, rest), (whole, whole_rest) = frames_of(cut(wire, places)), frames_of([wire])
    assert (merged(frames), rest) == (merged(whole), whole_rest)


def merged(frames: list[Frame]) -> list[Frame]:
    """The frames, with neighbours without data merged."""
    made: list[Frame] = []
    for frame in frames:
        is_announcement = frame.event is None and frame.data is None
        if is_announcement and made and made[-1].event is None and made[-1].data is None:
            made[-1] = Frame(made[-1].raw + frame.raw, None, None)
        else:
            made.append(frame)
    return made


@given(st.binary(), st.lists(st.integers(0, 10_000)))
def test_no_byte_is_lost_or_added(wire: bytes, places: list[int]) -> None:
    frames, rest = frames_of(cut(wire, places))
    assert b"".join(frame.raw for frame in frames) + rest == wire


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_ends_a_line(newline: str) -> None:
    wire = stream(message(THINKING, TEXT, TOOL), newline)
    frames, rest = frames_of([wire + b"x"])  # the next byte decides what a final CR means
    assert rest == b"x"
    assert [frame.event for frame in frames if frame.event][:2] == [b"message_start", b"ping"]
    assert sum(frame.event == b"content_block_delta" for frame in frames) == 6


def test_characters_that_only_look_like_line_ends_do_not_split_data() -> None:
    text = "a\u2028b\u0085c\vd\fe".encode()
    [frame] = FrameReader().feed(b"data: " + text + b"\n\n")
    assert frame.data == text


def test_data_lines_are_joined_and_one_space_after_the_colon_is_dropped() -> None:
    assert parse(b"event:x\ndata:  a\ndata:b\n\n") == Frame(b"event:x\ndata:  a\ndata:b\n\n", b"x", b" a\nb")


def test_line_of_many_pieces_is_joined_once_at_its_end() -> None:
    reader, piece = FrameReader(), b"x" * 64
    for _ in range(100):
        assert reader.feed(piece) == []
    assert all(held is piece for held in reader._pieces)
    assert [frame.raw for frame in reader.feed(b"\n\ny")] == [piece * 100 + b"\n\n"]
    assert (reader.take_rest(), reader.rest) == (b"y", b"")


@pytest.mark.parametrize("frame", [b"\n", b"\r\n", b": ping\n\n", b":a\r\n:b\r\n\r\n", b"\r"])
def test_frames_without_data_are_merged_if_they_arrive_together(frame: bytes) -> None:
    reader = FrameReader()
    frames = reader.feed(b"data: 1\n\n" + frame * 10_000 + b"data: 2\n\n")
    assert [each.data for each in frames] == [b"1", None, b"2"]
    assert b"".join(each.raw for each in frames) == b"data: 1\n\n" + frame * 10_000 + b"data: 2\n\n"
