"""Decoding of compressed bodies, piece by piece and only so far: the only import of brotli."""

import zlib
from collections.abc import Callable, Iterator

import attrs
import brotli

from mnemosyne.zstd import ZstdDecompressor, ZstdError

LARGEST_DECODED = 256 * 1024 * 1024
"""Bytes to which a request's body may decode before we stop reading it: a small one must not fill the memory."""

LARGEST_REPLY = 32 * 1024 * 1024
"""The same of a reply. Nobody waits for what a model says to be read as for a request: 128,000 tokens, each in an event
of its own, have some 25 MB.
"""

STEP = 1 << 16
"""Bytes that are decoded at once, about: a few thousand of them may become hundreds of millions, and others wait."""


@attrs.define
class Decoder:
    """Decodes one body. ``decode`` raises ValueError for bytes that are not in the encoding, or far too many; it never
    makes more of them than that, whatever it is given.

    ``step`` takes bytes and about how many it may give at most. What gives fewer has taken in all of its bytes; else
    there may be more to come of them.
    """

    _step: Callable[[bytes, int], bytes]
    _room: int = LARGEST_DECODED + 1

    def decode(self, data: bytes) -> bytes:
        """All that the next bytes decode to."""
        return b"".join(self.pieces(data))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The same in pieces of ``STEP`` bytes, about; there is at least one."""
        decoded = self._decode(data)
        yield decoded
        while len(decoded) >= STEP:
            decoded = self._decode(b"")
            yield decoded

    def _decode(self, data: bytes) -> bytes:
        try:
            decoded = self._step(data, min(self._room, STEP))
        except (zlib.error, brotli.error, ZstdError, EOFError) as error:
            raise ValueError(str(error)) from None
        self._room -= len(decoded)
        if self._room <= 0:
            raise ValueError("the body decodes to more than is reasonable")
        return decoded


def decoder_for(encoding: bytes, largest: int = LARGEST_DECODED) -> Decoder | None:
    """A decoder for a Content-Encoding, None for one that we do not know."""
    if encoding in (b"gzip", b"x-gzip"):
        return Decoder(_inflating(zlib.MAX_WBITS | 16), largest + 1)
    if encoding == b"deflate":
        return Decoder(_inflating(zlib.MAX_WBITS), largest + 1)
    if encoding == b"br":
        unbrotli = brotli.Decompressor()
        return Decoder(lambda data, most: unbrotli.process(data, output_buffer_limit=most), largest + 1)
    if encoding == b"zstd":
        unzstd = ZstdDecompressor()
        # It raises for any call behind the end, even one that only asks whether there is more.
        return Decoder(
            lambda data, most: b"" if unzstd.eof and not data else unzstd.decompress(data, most), largest + 1
        )
    return None


def _inflating(bits: int) -> Callable[[bytes, int], bytes]:
    inflate = zlib.decompressobj(bits)
    return lambda data, most: inflate.decompress(inflate.unconsumed_tail + data, most)


NOTHING = Decoder(lambda _data, _most: b"")
"""What is left of a body that cannot be read any more."""
