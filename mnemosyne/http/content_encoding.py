"""Decoding of compressed bodies, piece by piece and only so far: the only import of brotli."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import brotli

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.zstd import ZstdDecompressor, ZstdError

LARGEST_DECODED = 256 * 1024 * 1024
"""Bytes to which a request's body may decode before we stop reading it: a small one must not fill the memory."""

LARGEST_REPLY = 32 * 1024 * 1024
"""The same of a reply. Nobody waits for what a model says to be read as for a request: 128,000 tokens, each in an event
of its own, have some 25 MB.
"""

STEP = 1 << 16
"""Bytes that are decoded at once, about: a few thousand of them may become hundreds of millions, and others wait."""


MOST_LAYERS = 3
"""Encodings in one another that are read; no server was seen to use more than two."""


class _Member(Protocol):
    """A member of a compressed body, which may be the only one."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes:
        """What was given to it and lies behind its end."""
        ...

    def decompress(self, data: bytes, most: int) -> bytes:
        """About ``most`` bytes of what the data decodes to; where fewer come, all of it was taken in."""
        ...


class _Inflating:
    """A member of gzip, or the one of deflate, sent with the header of zlib, as it should be, or without."""

    def __init__(self, bits: int | None = None) -> None:
        self._head = b""
        self._inflate = None if bits is None else zlib.decompressobj(bits)

    @property
    def eof(self) -> bool:
        return self._inflate is not None and self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data if self._inflate is not None else b""

    def decompress(self, data: bytes, most: int) -> bytes:
        if self._inflate is None:
            self._head += data
            if len(self._head) < 2:
                return b""
            has_header = self._head[0] & 15 == 8 and int.from_bytes(self._head[:2]) % 31 == 0
            self._inflate, data = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS), self._head
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, most)


class _Brotli:
    """The one member of such a body."""

    unused_data = b""

    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._decompressor.is_finished())

    def decompress(self, data: bytes, most: int) -> bytes:
        decoded: bytes = self._decompressor.process(data, output_buffer_limit=most)
        return decoded


_ENCODINGS: Mapping[bytes, tuple[Callable[[], _Member], bytes]] = {
    b"gzip": (lambda: _Inflating(zlib.MAX_WBITS | 16), b"\x1f"),
    b"x-gzip": (lambda: _Inflating(zlib.MAX_WBITS | 16), b"\x1f"),
    b"deflate": (_Inflating, b""),
    b"br": (_Brotli, b""),
    b"zstd": (ZstdDecompressor, bytes([0x28, *range(0x50, 0x60)])),
}
"""What makes a member of each encoding, and with which bytes another one may begin behind it. Anything else there is
padding.
"""


class _Layer:
    """One encoding of a body, member by member."""

    def __init__(self, encoding: bytes, largest: int) -> None:
        self._make, self._beginnings = _ENCODINGS[encoding]
        self._member = self._make()
        self._rest = b""
        self._room = largest + 1
        self._is_empty = True

    @property
    def is_whole(self) -> bool:
        """Whether what came does not end in the midst of a member."""
        return self._is_empty or (self._member.eof and not self._rest)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        self._is_empty = self._is_empty and not data
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

    def _step(self, data: bytes, most: int) -> bytes:
        self._rest += data
        made = b""
        while True:
            if self._member.eof:
                if not self._rest or self._rest[0] not in self._beginnings:
                    self._rest = b""
                    return made
                self._member = self._make()
            given, self._rest = self._rest, b""
            made += self._member.decompress(given, most - len(made))
            if not self._member.eof:
                return made
            self._rest = self._member.unused_data
            if len(made) >= most:
                return made


class Decoder:
    """Decodes one body. ``decode`` raises ValueError for bytes that are not in the encoding, or far too many; it never
    makes more of them than that, whatever it is given.
    """

    def __init__(self, encodings: Sequence[bytes], largest: int) -> None:
        self._layers = [_Layer(encoding, largest) for encoding in reversed(encodings)]

    @property
    def is_whole(self) -> bool:
        """Whether the body may end here: it is not in the midst of its compressed data."""
        return all(layer.is_whole for layer in self._layers)

    def decode(self, data: bytes) -> bytes:
        """All that the next bytes decode to."""
        return b"".join(self.pieces(data))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The same in pieces of ``STEP`` bytes, about; there is at least one."""
        return _pass_through(self._layers, data)


def _pass_through(layers: Sequence[_Layer], data: bytes) -> Iterator[bytes]:
    if not layers:
        yield data
        return
    for piece in layers[0].pieces(data):
        yield from _pass_through(layers[1:], piece)


def encodings_of(headers: Headers) -> tuple[bytes, ...]:
    """The encodings of a body, in the order in which they were applied."""
    values = [value for name, value in headers if name.lower() == b"content-encoding"]
    named = [each.strip().lower() for each in b",".join(values).split(b",")]
    return tuple(each for each in named if each not in (b"", b"identity"))


def decoder_for(encodings: Sequence[bytes], largest: int = LARGEST_DECODED) -> Decoder | None:
    """A decoder for a body in these encodings, None where we do not know one of them."""
    known = len(encodings) <= MOST_LAYERS and all(each in _ENCODINGS for each in encodings)
    return Decoder(encodings, largest) if known else None
