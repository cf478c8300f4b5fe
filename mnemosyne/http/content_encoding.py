"""Decoding of compressed replies, piece by piece: the only import of brotli."""

import zlib
from collections.abc import Callable

import attrs
import brotli

from mnemosyne.zstd import ZstdDecompressor, ZstdError

LARGEST_DECODED = 256 * 1024 * 1024
"""Bytes to which a reply may decode before we stop reading it: a small reply must not fill the memory."""


@attrs.define
class Decoder:
    """Decodes one reply. ``decode`` raises ValueError for bytes that are not in the encoding, or far too many."""

    _step: Callable[[bytes], bytes]
    _produced: int = 0

    def decode(self, data: bytes) -> bytes:
        try:
            decoded = self._step(data)
        except (zlib.error, brotli.error, ZstdError, EOFError) as error:
            raise ValueError(str(error)) from None
        self._produced += len(decoded)
        if self._produced > LARGEST_DECODED:
            raise ValueError("the reply decodes to more than is reasonable")
        return decoded


def decoder_for(encoding: bytes) -> Decoder | None:
    """A decoder for a Content-Encoding, None for one that we do not know."""
    if encoding in (b"gzip", b"x-gzip"):
        return Decoder(zlib.decompressobj(zlib.MAX_WBITS | 16).decompress)
    if encoding == b"deflate":
        return Decoder(zlib.decompressobj().decompress)
    if encoding == b"br":
        return Decoder(brotli.Decompressor().process)
    if encoding == b"zstd":
        return Decoder(ZstdDecompressor().decompress)
    return None
