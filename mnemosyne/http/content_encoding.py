"""Decoding of compressed bodies, piece by piece and only so far: the only import of brotli."""

import zlib
from collections.abc import Callable

import attrs
import brotli

from mnemosyne.zstd import ZstdDecompressor, ZstdError

LARGEST_DECODED = 256 * 1024 * 1024
"""Bytes to which a body may decode before we stop reading it: a small one must not fill the memory."""


@attrs.define
class Decoder:
    """Decodes one body. ``decode`` raises ValueError for bytes that are not in the encoding, or far too many; it never
    makes more of them than that, whatever it is given.

    ``step`` takes bytes and about how many it may give at most. What gives fewer has taken in all of its bytes.
    """

    _step: Callable[[bytes, int], bytes]
    _room: int = LARGEST_DECODED + 1

    def decode(self, data: bytes) -> bytes:
        try:
            decoded = self._step(data, self._room)
        except (zlib.error, brotli.error, ZstdError, EOFError) as error:
            raise ValueError(str(error)) from None
        self._room -= len(decoded)
        if self._room <= 0:
            raise ValueError("the body decodes to more than is reasonable")
        return decoded


def decoder_for(encoding: bytes) -> Decoder | None:
    """A decoder for a Content-Encoding, None for one that we do not know."""
    if encoding in (b"gzip", b"x-gzip"):
        return Decoder(zlib.decompressobj(zlib.MAX_WBITS | 16).decompress)
    if encoding == b"deflate":
        return Decoder(zlib.decompressobj().decompress)
    if encoding == b"br":
        brotli_decompressor = brotli.Decompressor()
        return Decoder(lambda data, most: brotli_decompressor.process(data, output_buffer_limit=most))
    if encoding == b"zstd":
        return Decoder(ZstdDecompressor().decompress)
    return None
