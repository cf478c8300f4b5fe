"""How wide and high an image is, read from the beginning of its data."""

import base64
from binascii import Error
from typing import Literal

_ENOUGH = 4 * 65_536
"""Characters of base64 within which a JPEG's frame begins, unless what comes before it is unusually long."""


def image_size(data: str) -> tuple[int, int] | None:
    """Width and height in pixels, of a PNG, JPEG or GIF in base64; None where they cannot be read."""
    try:
        start = base64.b64decode(data[: min(_ENOUGH, len(data) - len(data) % 4)])
    except (Error, ValueError):
        return None
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return _positive(start[16:20], start[20:24], "big")
    if start.startswith((b"GIF87a", b"GIF89a")):
        return _positive(start[6:8], start[8:10], "little")
    return _of_jpeg(start) if start.startswith(b"\xff\xd8") else None


def _of_jpeg(start: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(start) and start[at] == 0xFF:
        marker = start[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame; not tables, nor reserved
            return _positive(start[at + 7 : at + 9], start[at + 5 : at + 7], "big")
        at += 1 if marker == 0xFF else 2 + int.from_bytes(start[at + 2 : at + 4], "big")
    return None


def _positive(width: bytes, height: bytes, order: Literal["little", "big"]) -> tuple[int, int] | None:
    size = int.from_bytes(width, order), int.from_bytes(height, order)
    return size if min(size) > 0 else None
