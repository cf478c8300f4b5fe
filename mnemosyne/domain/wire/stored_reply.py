"""Store a reply as a recipe with an empty base, its long texts each a content of its own.

The client sends the reply back with its next request, in a body cut the same way, so each long text is stored once.
"""

from collections.abc import Container, Iterator, Sequence
from hashlib import sha256
from itertools import zip_longest

from mnemosyne.domain.wire import json_spans, recipe
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.recipe import Piece


def store(body: bytes, known: Container[bytes]) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """Return the encoded change from an empty body to ``body``, and the contents (digest, data) that are not
    ``known``.
    """
    literals = json_spans.long_literals(body)
    frame = b"".join(body[start:end] for start, end in _between(literals, len(body)))
    texts = [body[start:end] for start, end in literals]
    named = [(sha256(data).digest(), data) for data in (frame, *texts)]
    pieces = _pieces(literals, len(body), named[0][0], [digest for digest, _ in named[1:]])
    new = {digest: data for digest, data in named if data and digest not in known}
    return recipe.encode(recipe.change_of(0, pieces, 0)), tuple(new.items())


def _between(literals: Sequence[Range], end: int) -> Iterator[Range]:
    """Return the ranges between the literals, including the first and the last."""
    edges = [0, *(edge for literal in literals for edge in literal), end]
    return zip(edges[::2], edges[1::2], strict=True)


def _pieces(literals: Sequence[Range], end: int, frame: bytes, texts: Sequence[bytes]) -> Iterator[Piece]:
    """Yield the parts of the frame and the texts between them, in turn; ``frame`` and ``texts`` are digests."""
    at = 0
    for (start, stop), literal, text in zip_longest(_between(literals, end), literals, texts):
        if stop > start:
            yield Piece(frame, at, stop - start)
            at += stop - start
        if literal is not None:
            yield Piece(text, 0, literal[1] - literal[0])
