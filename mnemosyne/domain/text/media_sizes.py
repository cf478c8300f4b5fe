"""Read images and documents: the type and pixels of an image, the pages of a PDF and the scans in it."""

import base64
import re
import zlib
from binascii import Error
from collections.abc import Iterator
from typing import Literal

_ENOUGH = 4 * 65_536
"""How many base64 characters are searched for a JPEG's frame, unless what precedes it is unusually long."""


LARGEST = 5_000_000
"""Size in bytes of the largest image that providers accept."""

_TYPES = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""Media types by the beginning of an image in base64."""


def read_image(data: str) -> str | None:
    """Return the media type of an image in base64; None for other data, a broken or too large image."""
    media = next((name for start, name in _TYPES.items() if data.startswith(start)), None)
    if media is None or len(data) * 3 // 4 > LARGEST or image_size(data) is None:
        return None
    try:
        base64.b64decode(data, validate=True)
    except (Error, ValueError):
        return None
    return media


def find_scan(data: str) -> str | None:
    """Return the largest JPEG that a PDF in base64 contains, in base64: the image of a scanned page."""
    try:
        whole = base64.b64decode(data)
    except (Error, ValueError):
        return None
    largest = max(_list_scans(whole), key=len, default=None) if b"%PDF-" in whole[:1024] else None
    return base64.b64encode(largest).decode() if largest else None


def _list_scans(whole: bytes) -> Iterator[bytes]:
    at = whole.find(b"\xff\xd8\xff")
    while at >= 0 and (end := whole.find(b"endstream", at)) >= 0:
        yield whole[at:end].rstrip(b"\r\n")
        at = whole.find(b"\xff\xd8\xff", end)


def image_size(data: str) -> tuple[int, int] | None:
    """Return width and height in pixels of a PNG, JPEG, GIF or WebP in base64; None if they cannot be read."""
    try:
        start = base64.b64decode(data[: min(_ENOUGH, len(data) - len(data) % 4)])
    except (Error, ValueError):
        return None
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return _positive(start[16:20], start[20:24], "big")
    if start.startswith((b"GIF87a", b"GIF89a")):
        return _positive(start[6:8], start[8:10], "little")
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return _of_webp(start)
    return _of_jpeg(start) if start.startswith(b"\xff\xd8") else None


def _of_jpeg(start: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(start) and start[at] == 0xFF:
        marker = start[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame; not tables or reserved markers
            return _positive(start[at + 7 : at + 9], start[at + 5 : at + 7], "big")
        at += 1 if marker == 0xFF else 2 + int.from_bytes(start[at + 2 : at + 4], "big")
    return None


def _of_webp(start: bytes) -> tuple[int, int] | None:
    """The three kinds of a first chunk encode the size in 14 bits, in 14 bits minus one, or in 24 bits minus one."""
    chunk, whole = start[12:16], int.from_bytes(start[20:30], "little")
    if len(start) < 30:
        return None
    if chunk == b"VP8 " and start[23:26] == b"\x9d\x01\x2a":
        wide, high = (whole >> 48) & 0x3FFF, (whole >> 64) & 0x3FFF
        return (wide, high) if wide and high else None
    if chunk == b"VP8L" and start[20] == 0x2F:
        return ((whole >> 8) & 0x3FFF) + 1, ((whole >> 22) & 0x3FFF) + 1
    return (((whole >> 32) & 0xFFFFFF) + 1, ((whole >> 56) & 0xFFFFFF) + 1) if chunk == b"VP8X" else None


def _positive(width: bytes, height: bytes, order: Literal["little", "big"]) -> tuple[int, int] | None:
    size = int.from_bytes(width, order), int.from_bytes(height, order)
    return size if min(size) > 0 else None


# Documents

MOST_PAGES = 600
"""The maximum that a provider accepts in one request; a higher count in a document is not believed."""

_PAGE = re.compile(rb"/Type\s{0,8}/Page(?![A-Za-z])")

_MOST_STREAMS, _MOST_PACKED, _MOST_UNPACKED, _MOST_HEAD = 256, 100_000, 200_000, 300
"""How many object streams are unpacked, in which newer PDFs have their pages; the maximum size of each in bytes, packed
and unpacked, and that of its description. The statements of a PDF about itself are not trusted.
"""


def count_pages(data: str) -> int | None:
    """Count the pages of a PDF in base64, up to ``MOST_PAGES``; None if none are found, as in a broken PDF.

    A page that was saved twice counts twice.
    """
    try:
        whole = base64.b64decode(data)
    except (Error, ValueError):
        return None
    if b"%PDF-" not in whole[:1024]:
        return None
    pages = sum(len(_PAGE.findall(text)) for text in (whole, *_unpack(whole)))
    return min(pages, MOST_PAGES) or None


def _unpack(whole: bytes) -> Iterator[bytes]:
    at = 0
    for _ in range(_MOST_STREAMS):
        at = whole.find(b"/ObjStm", at + 1)
        if at < 0:
            return
        began = whole.find(b"stream", at, at + _MOST_HEAD)
        try:
            packed = whole[began + 6 : began + _MOST_PACKED].lstrip(b"\r\n") if began >= 0 else b""
            yield zlib.decompressobj().decompress(packed, _MOST_UNPACKED)
        except zlib.error:
            continue
