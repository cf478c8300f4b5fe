"""Decode compressed bodies incrementally and with size limits; the only module that imports brotli."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import brotli

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.zstd import ZstdDecompressor, ZstdError

LARGEST_DECODED = 256 * 1024 * 1024
"""Maximum decoded size of a request body, in bytes: a small compressed body must not exhaust memory."""

LARGEST_REPLY = 32 * 1024 * 1024
"""Maximum decoded size of a reply, in bytes: 128,000 tokens, each in its own event, have about 25 MB."""

STEP = 1 << 16
"""Approximate bytes decoded per step: a few thousand may expand to hundreds of millions while other tasks wait."""


MOST_LAYERS = 3
"""Maximum number of nested encodings; no observed server uses more than two."""


class _Member(Protocol):
    """A decompressor for one member of a compressed body."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes:
        """The input after the member's end."""

    def decompress(self, data: bytes, most: int) -> bytes:
        """Decode to about ``most`` bytes; if fewer are returned, all input has been consumed."""


class _Inflating:
    """A gzip member, or a deflate body with or without the zlib header that the standard requires."""

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
    """The only member of a brotli body."""

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
"""For each encoding, how to create a member, and the possible first bytes of a following member. Anything else after a
member is padding.
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
        """Whether the input so far does not end inside a member."""
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
            raise ValueError("the decoded body is too large")
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
    """Decodes one body. ``decode`` raises ValueError for invalid data or if the decoded size exceeds ``largest``; it
    never produces more than that.
    """

    def __init__(self, encodings: Sequence[bytes], largest: int) -> None:
        self._layers = [_Layer(encoding, largest) for encoding in reversed(encodings)]

    @property
    def is_whole(self) -> bool:
        """Whether the body may end here, not inside its compressed data."""
        return all(layer.is_whole for layer in self._layers)

    def decode(self, data: bytes) -> bytes:
        return b"".join(self.pieces(data))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decode the next bytes in pieces of about ``STEP`` bytes; yields at least one."""
        return _pass_through(self._layers, data)


def _pass_through(layers: Sequence[_Layer], data: bytes) -> Iterator[bytes]:
    if not layers:
        yield data
        return
    for piece in layers[0].pieces(data):
        yield from _pass_through(layers[1:], piece)


def encodings_of(headers: Headers) -> tuple[bytes, ...]:
    """Return a body's encodings, in the order in which they were applied."""
    values = [value for name, value in headers if name.lower() == b"content-encoding"]
    names = [name.strip().lower() for name in b",".join(values).split(b",")]
    return tuple(name for name in names if name not in (b"", b"identity"))


def decoder_for(encodings: Sequence[bytes], largest: int = LARGEST_DECODED) -> Decoder | None:
    known = len(encodings) <= MOST_LAYERS and all(encoding in _ENCODINGS for encoding in encodings)
    return Decoder(encodings, largest) if known else None
