import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.text.image_size import image_size


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


def _jpeg(width: int, height: int, before: int = 0) -> bytes:
    """A JPEG's segments up to its frame, with ``before`` bytes of metadata ahead of it."""
    metadata = struct.pack(">BBH", 0xFF, 0xE1, before + 2) + bytes(before)
    tables = struct.pack(">BBHB", 0xFF, 0xC4, 3, 0)
    return b"\xff\xd8" + metadata + tables + struct.pack(">BBHBHH", 0xFF, 0xC2, 11, 8, height, width)


@pytest.mark.parametrize(
    "data", [_png(640, 480), b"GIF89a" + struct.pack("<HH", 640, 480), _jpeg(640, 480), _jpeg(640, 480, before=60_000)]
)
def test_the_size_is_read_from_the_header_whatever_follows(data: bytes) -> None:
    assert image_size(_text(data)) == (640, 480)
    assert image_size(_text(data + bytes(1_000_000))) == (640, 480)


@pytest.mark.parametrize("data", [b"", b"plain", _png(0, 5), _png(640, 480)[:18], _jpeg(1, 1)[:-3], b"\xff\xd8\xff"])
def test_what_has_no_size_to_read_has_none(data: bytes) -> None:
    assert image_size(_text(data)) is None


@given(st.text() | st.binary().map(_text) | st.binary().map(lambda tail: _text(b"\xff\xd8\xff" + tail)))
def test_no_data_is_an_error(data: str) -> None:
    size = image_size(data)
    assert size is None or min(size) > 0
