"""A body as a recipe: slices of stored contents. Also the change from one body's recipe to the next.

Each content is stored once under its SHA-256; a body is a sequence of pieces of contents. A turn's event holds only the
``BodyChange`` from the previous body, so that a session's log grows with new content and not with repeated content.
Rebuilding concatenates; it needs no knowledge of JSON, clients or providers, so no later version of the code can break
an old turn.

A credential is never stored: a ``Withheld`` piece records only its length, and ``assemble`` writes that many ``*``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import accumulate

import attrs

MASK = b"*"
"""What ``assemble`` writes for each withheld byte."""


@attrs.frozen
class Piece:
    """The ``length`` bytes from ``offset`` on of the content whose SHA-256 is ``digest``."""

    digest: bytes
    offset: int
    length: int


@attrs.frozen
class Withheld:
    """The ``length`` bytes of a credential, which are not stored."""

    length: int


Pieces = tuple[Piece | Withheld, ...]


@attrs.frozen
class Recipe:
    """A whole body as pieces. ``ends[i]`` is the offset in the body after ``pieces[i]``, so slices are found by
    bisection.
    """

    pieces: Pieces = ()
    ends: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        """The body's length in bytes."""
        return self.ends[-1] if self.ends else 0

    def between(self, start: int, end: int) -> Pieces:
        """Return the pieces of the body's bytes ``[start, end)``, the outer ones cut to fit; O(pieces in between)."""
        if end <= start:
            return ()
        first, last = bisect_right(self.ends, start), bisect_left(self.ends, end)
        inside = list(self.pieces[first : last + 1])
        inside[-1] = _cut(inside[-1], 0, end - self._start_of(last))
        inside[0] = _cut(inside[0], start - self._start_of(first), inside[0].length)
        return tuple(inside)

    def spans_between(self, start: int, end: int) -> Iterable[tuple[int, Piece | Withheld]]:
        """Yield the uncut pieces that lie completely in ``[start, end)``, each with the offset at which it starts."""
        for index in range(bisect_left(self.ends, start), len(self.ends)):
            if self.ends[index] > end:
                return
            if self._start_of(index) >= start:
                yield self._start_of(index), self.pieces[index]

    def _start_of(self, index: int) -> int:
        return self.ends[index - 1] if index else 0


def recipe_of(pieces: Iterable[Piece | Withheld]) -> Recipe:
    """Return the recipe of these pieces. Empty ones are dropped; adjacent ones that continue each other are joined."""
    joined: list[Piece | Withheld] = []
    for piece in pieces:
        if piece.length == 0:
            continue
        both = _join(joined[-1], piece) if joined else None
        if both is None:
            joined.append(piece)
        else:
            joined[-1] = both
    return Recipe(tuple(joined), tuple(accumulate(piece.length for piece in joined)))


def _cut(piece: Piece | Withheld, start: int, end: int) -> Piece | Withheld:
    if isinstance(piece, Withheld):
        return Withheld(end - start)
    return Piece(piece.digest, piece.offset + start, end - start)


def _join(left: Piece | Withheld, right: Piece | Withheld) -> Piece | Withheld | None:
    if isinstance(left, Withheld) and isinstance(right, Withheld):
        return Withheld(left.length + right.length)
    if (
        isinstance(left, Piece)
        and isinstance(right, Piece)
        and left.digest == right.digest
        and left.offset + left.length == right.offset
    ):
        return Piece(left.digest, left.offset, left.length + right.length)
    return None


WITHHELD = -1
"""The index of a span without content."""

Span = tuple[int, int] | tuple[int, int, int]
"""``(index, length)`` or ``(index, length, offset)``: a piece of ``BodyChange.digests[index]``.

Without an offset the piece begins where the previous piece of the same content in this change ended, initially at 0:
the usual case both for a content used whole and for a skeleton used bit by bit. Index ``WITHHELD`` refers to no
content.
"""


@attrs.frozen
class BodyChange:
    """The first ``head`` bytes of the base body, then the spans, then the last ``tail`` bytes of the base body.

    This is what an event records. ``digests`` are the SHA-256 of the contents that the spans are cut from, each once.
    """

    head: int = 0
    tail: int = 0
    digests: tuple[bytes, ...] = ()
    spans: tuple[Span, ...] = ()

    def pieces(self) -> Pieces:
        """Return the new pieces, between head and tail."""
        unpacked: list[Piece | Withheld] = []
        reached = [0] * len(self.digests)
        for index, length, *explicit in self.spans:
            if index == WITHHELD:
                unpacked.append(Withheld(length))
                continue
            offset = explicit[0] if explicit else reached[index]
            reached[index] = offset + length
            unpacked.append(Piece(self.digests[index], offset, length))
        return tuple(unpacked)


def change_of(head: int, pieces: Iterable[Piece | Withheld], tail: int) -> BodyChange:
    """Return the change that keeps ``head`` and ``tail`` bytes of its base and puts ``pieces`` between them."""
    indexes: dict[bytes, int] = {}
    reached: list[int] = []
    spans: list[Span] = []
    for piece in pieces:
        if isinstance(piece, Withheld):
            spans.append((WITHHELD, piece.length))
            continue
        index = indexes.setdefault(piece.digest, len(indexes))
        if index == len(reached):
            reached.append(0)
        if piece.offset == reached[index]:
            spans.append((index, piece.length))
        else:
            spans.append((index, piece.length, piece.offset))
        reached[index] = piece.offset + piece.length
    return BodyChange(head, tail, tuple(indexes), tuple(spans))


def apply(base: Recipe, change: BodyChange) -> Recipe:
    """Return the recipe of the body that ``change`` makes of ``base``.

    Python works on the new pieces and the two that it cuts; the rest is copied by C. Raises ValueError if the base is
    shorter than what the change keeps of it.
    """
    if change.head + change.tail > base.length:
        raise ValueError(f"a change keeps {change.head} + {change.tail} bytes of a body of {base.length}")
    head = base.between(0, change.head)
    tail = base.between(base.length - change.tail, base.length)
    # Slices can continue each other only where the parts meet.
    seam = recipe_of((*head[-1:], *change.pieces(), *tail[:1]))
    before, after = head[:-1], tail[1:]
    start = base.ends[len(before) - 1] if before else 0
    after_ends = base.ends[len(base.ends) - len(after) :]
    shift = start + seam.length + (base.length - after_ends[0] + after[0].length if after else 0) - base.length
    return Recipe(
        (*before, *seam.pieces, *after),
        (
            *base.ends[: len(before)],
            *(start + end for end in seam.ends),
            *(after_ends if shift == 0 else (end + shift for end in after_ends)),
        ),
    )


def assemble(pieces: Iterable[Piece | Withheld], fetch: Callable[[bytes], bytes]) -> bytes:
    """Return the body's bytes; ``fetch`` returns the content for a digest, and its exceptions pass through."""
    return b"".join(
        MASK * piece.length
        if isinstance(piece, Withheld)
        else fetch(piece.digest)[piece.offset : piece.offset + piece.length]
        for piece in pieces
    )


_CHUNK = 1 << 20
"""Bytes compared at a time, by one memcmp and without a copy."""


def common_prefix(a: bytes, b: bytes) -> int:
    """Return the length of the common prefix, in bytes."""
    view = memoryview(a)
    limit, at, step = min(len(a), len(b)), 0, _CHUNK
    while at < limit and step:
        step = min(step, limit - at)
        if b.startswith(view[at : at + step], at):
            at += step
        else:
            step //= 2
    return at


def common_suffix(a: bytes, b: bytes, limit: int) -> int:
    """Return the length of the common suffix, in bytes, at most ``limit``."""
    view = memoryview(a)
    at, step = 0, _CHUNK
    while at < limit and step:
        step = min(step, limit - at)
        if b.endswith(view[len(a) - at - step : len(a) - at], 0, len(b) - at):
            at += step
        else:
            step //= 2
    return at


LATELY_DECODED = 16
"""The size of the cache of decoded changes: folding an event is followed by a query for the contents that it names."""


def encode(change: BodyChange) -> bytes:
    """Encode the change compactly: unsigned LEB128 numbers, and 32 bytes for each digest."""
    numbers = bytearray()
    for number in (change.head, change.tail, len(change.digests)):
        _write(numbers, number)
    numbers += b"".join(change.digests)
    for index, length, *explicit in change.spans:
        # The lowest bit says whether an offset follows.
        _write(numbers, (index + 1) << 1 | bool(explicit))
        _write(numbers, length)
        if explicit:
            _write(numbers, explicit[0])
    return bytes(numbers)


@lru_cache(LATELY_DECODED)
def decode(data: bytes) -> BodyChange:
    """Decode the change that ``encode`` wrote. Raises ValueError on anything else."""
    head, at = _read(data, 0)
    tail, at = _read(data, at)
    count, at = _read(data, at)
    if at + 32 * count > len(data):
        raise ValueError("a change of a body ends within its digests")
    digests = tuple(data[at + 32 * i : at + 32 * (i + 1)] for i in range(count))
    at += 32 * count
    spans: list[Span] = []
    while at < len(data):
        mark, at = _read(data, at)
        length, at = _read(data, at)
        index = (mark >> 1) - 1
        if index >= count:
            raise ValueError(f"a change of a body names content {index} of {count}")
        if mark & 1:
            offset, at = _read(data, at)
            spans.append((index, length, offset))
        else:
            spans.append((index, length))
    return BodyChange(head, tail, digests, tuple(spans))


def _write(numbers: bytearray, number: int) -> None:
    while number > 0x7F:
        numbers.append(number & 0x7F | 0x80)
        number >>= 7
    numbers.append(number)


def _read(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
    raise ValueError("a change of a body ends within a number")
