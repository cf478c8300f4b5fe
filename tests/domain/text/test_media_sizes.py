import base64
import struct
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemosyne.domain.text.media_sizes import MOST_PAGES, count_pages, image_size


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


def _jpeg(width: int, height: int, before: int = 0) -> bytes:
    """Return a JPEG's segments up to its frame, with ``before`` bytes of metadata before it."""
    metadata = struct.pack(">BBH", 0xFF, 0xE1, before + 2) + bytes(before)
    tables = struct.pack(">BBHB", 0xFF, 0xC4, 3, 0)
    return b"\xff\xd8" + metadata + tables + struct.pack(">BBHBHH", 0xFF, 0xC2, 11, 8, height, width)


def _webp(chunk: bytes, header: bytes) -> bytes:
    return b"RIFF" + bytes(4) + b"WEBP" + chunk + bytes(4) + header


_LOSSY = _webp(b"VP8 ", b"\x10\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 640, 480))
_LOSSLESS = _webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14) + bytes(5))
_EXTENDED = _webp(b"VP8X", bytes(4) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little"))


@pytest.mark.parametrize("data", [_LOSSY, _LOSSLESS, _EXTENDED])
def test_the_size_of_each_kind_of_webp_is_read_but_not_of_a_truncated_or_unknown_one(data: bytes) -> None:
    assert image_size(_text(data)) == image_size(_text(data + bytes(100_000))) == (640, 480)
    assert image_size(_text(data[:29])) is None
    assert image_size(_text(data[:12] + b"ICCP" + data[16:])) is None


@pytest.mark.parametrize(
    "data", [_png(640, 480), b"GIF89a" + struct.pack("<HH", 640, 480), _jpeg(640, 480), _jpeg(640, 480, before=60_000)]
)
def test_the_size_is_read_from_the_header_alone(data: bytes) -> None:
    assert image_size(_text(data)) == (640, 480)
    assert image_size(_text(data + bytes(1_000_000))) == (640, 480)


@pytest.mark.parametrize("data", [b"", b"plain", _png(0, 5), _png(640, 480)[:18], _jpeg(1, 1)[:-3], b"\xff\xd8\xff"])
def test_data_without_a_readable_size_has_none(data: bytes) -> None:
    assert image_size(_text(data)) is None


@given(st.text() | st.binary().map(_text) | st.binary().map(lambda tail: _text(b"\xff\xd8\xff" + tail)))
@example(_text(b"<svg onload='alert(1)' width='9' height='9'><script>alert(1)</script></svg>"))
def test_image_size_never_raises(data: str) -> None:
    size = image_size(data)
    assert size is None or min(size) > 0


# Documents


def _pdf(*objects: bytes) -> bytes:
    """Return a PDF of the older kind, without the cross-reference table, which is not read."""
    return b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%b\nendobj\n" % (at, content) for at, content in enumerate(objects, 1))


def _packed(*objects: bytes) -> bytes:
    """Return an object stream, as newer PDFs have them."""
    return b"<</Type /ObjStm /N 9>>\nstream\r\n" + zlib.compress(b" ".join(objects)) + b"\nendstream"


_TREE, _PAGE, _TIGHT = b"<</Type /Pages /Count 2>>", b"<</Type /Page /Parent 1 0 R>>", b"<</Parent 1 0 R/Type/Page>>"


def test_pages_are_counted_but_not_their_page_tree() -> None:
    assert count_pages(_text(_pdf(_TREE, _PAGE, _TIGHT))) == 2


def test_pages_in_packed_streams_count_too() -> None:
    assert count_pages(_text(_pdf(_packed(_TREE, _PAGE, _PAGE), _packed(_TIGHT)))) == 3


@pytest.mark.parametrize(
    "data",
    [b"", b"no PDF /Type /Page", _pdf(_TREE), _pdf(_packed(_PAGE).replace(b"x\x9c", b"xx")), _pdf(b"/Type /ObjStm")],
)
def test_a_broken_pdf_has_no_pages_to_count(data: bytes) -> None:
    assert count_pages(_text(data)) is None


def test_the_number_of_pages_is_bounded() -> None:
    assert count_pages(_text(_pdf(*[_PAGE] * 700))) == MOST_PAGES
    bomb = b"<</Type /ObjStm>>stream\n" + zlib.compress(bytes(1_000_000) + _PAGE)
    assert count_pages(_text(_pdf(bomb, _PAGE))) == 1


@given(st.text() | st.binary().map(_text) | st.binary().map(lambda tail: _text(_pdf(b"/ObjStm stream\n" + tail))))
def test_count_pages_never_raises(data: str) -> None:
    assert count_pages(data) is None or count_pages(data)
