"""A chunked body reads as the same bytes at every network cut, and short chunks make few events."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.http.joined_chunks import join_chunks
from tests.http.streams import cut

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\nX-After: 1\r\n\r\n"

join_chunks()


def events_of(pieces: list[bytes]) -> list[h11.Event]:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    events: list[h11.Event] = []
    for piece in filter(None, pieces):
        connection.receive_data(piece)
        while isinstance(event := connection.next_event(), h11.Event):
            events.append(event)
            if isinstance(event, h11.EndOfMessage):
                return events
    return events


def body_of(events: list[h11.Event]) -> bytes:
    return b"".join(bytes(event.data) for event in events if isinstance(event, h11.Data))


CHUNKS = st.lists(st.binary(min_size=1, max_size=5) | st.binary(min_size=4000, max_size=5000), max_size=8)


@given(CHUNKS, st.sampled_from([b"", b";name=value"]), st.lists(st.integers(0, 9000), max_size=6))
def test_body_is_the_same_at_every_cut(chunks: list[bytes], extension: bytes, places: list[int]) -> None:
    wire = HEAD + b"".join(b"%X%s\r\n%s\r\n" % (len(each), extension, each) for each in chunks) + END
    events = events_of(cut(wire, places))
    assert body_of(events) == b"".join(chunks)
    assert isinstance(events[-1], h11.EndOfMessage)
    assert list(events[-1].headers) == [(b"x-after", b"1")]


def test_short_chunks_that_arrive_together_are_one_event() -> None:
    events = events_of([HEAD + b"1\r\n\r\r\n" * 5000 + END])
    assert body_of(events) == b"\r" * 5000
    assert len(events) == 3


@pytest.mark.parametrize("wrong", [b"1\r\nxy\r\n", b"g\r\nx\r\n", b"-1\r\nx\r\n", b"1\nx\r\n", b"1\r\nx\r\n\r\n"])
def test_invalid_chunk_after_short_ones_is_refused(wrong: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        events_of([HEAD + b"1\r\nx\r\n" * 3 + wrong + END])
