"""How a reply is stored: as a recipe on nothing, its long texts each a content of its own.

The client sends the reply back with its next request, in a body cut the same way, so each long text is stored once.
"""

from collections.abc import Container
from hashlib import sha256
from itertools import pairwise

from mnemosyne.domain import json_spans, recipe
from mnemosyne.domain.recipe import Piece


def store(body: bytes, known: Container[bytes]) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """The encoded change that makes ``body`` of nothing, and the contents it names that are not ``known`` (digest,
    data).
    """
    literals = json_spans.long_literals(body)
    edges = [0, *(edge for literal in literals for edge in literal), len(body)]
    frame = b"".join(body[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    contents = {sha256(text).digest(): text for text in (frame, *(body[start:end] for start, end in literals))}
    change = recipe.change_of(0, _pieces(body, edges, sha256(frame).digest()), 0)
    new = tuple((digest, data) for digest, data in contents.items() if data and digest not in known)
    return recipe.encode(change), new


def _pieces(body: bytes, edges: list[int], frame: bytes) -> list[Piece]:
    """The frame's parts and the literals between them, in turn."""
    pieces: list[Piece] = []
    at = 0
    for index, (start, end) in enumerate(pairwise(edges)):
        if start == end:
            continue
        if index % 2:
            pieces.append(Piece(sha256(body[start:end]).digest(), 0, end - start))
        else:
            pieces.append(Piece(frame, at, end - start))
            at += end - start
    return pieces
