"""Texts cut into passages that an embedder reads whole.

all-MiniLM-L6-v2 reads 256 word pieces and ignores the rest, so a longer text is embedded as passages, and is as near to
a query as its nearest passage. Word pieces are estimated from the characters: the cut is then the same whatever the
embedder, and needs no model.
"""

import re

import attrs

MOST_PIECES = 215.0
"""Estimated word pieces of one passage. 254 real ones fit, besides the two that mark beginning and end; on recorded
agent sessions (code, logs, JSON, prose) the estimate was never more than 18 % below what the model's tokenizer says.
"""

MOST_CHARACTERS = 2_000
"""A passage ends here at the latest: white space and very long words count as nothing or as one piece."""

_OVERLAP = 8
"""A passage begins with the last 1/8 of the one before, so that no sentence is known by its halves only."""

_TOKEN = re.compile(
    r"(?P<word>[A-Z]?[a-z]{1,24})|(?P<space>\s+)|(?P<code>[A-Za-z0-9]{1,24})|(?P<hangul>[\uac00-\ud7a3])|(?P<other>.)",
    re.DOTALL,
)

_BOUNDARIES = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"[.!?。！？][\"')\]]*\s+|[。！？]"),  # noqa: RUF001 - full stops of other scripts
    re.compile(r"\s+"),
)
"""Where to cut, the best first; the cut is at the end of the match."""


@attrs.frozen
class Passage:
    """A part of a text: its characters from ``start`` up to, not including, ``end``."""

    start: int
    end: int


def passages(text: str) -> list[Passage]:
    """The passages of a text, in order: each is short enough, together they cover every character."""
    found: list[Passage] = []
    start = 0
    while start < len(text):
        limit = _limit(text, start)
        end = limit if limit == len(text) else _cut(text, start, limit)
        found.append(Passage(start, end))
        if end == len(text):
            break
        start = _resume(text, start, end)
    return found


def _limit(text: str, start: int) -> int:
    """How far a passage from ``start`` may reach."""
    end, left = start, MOST_PIECES
    for token in _TOKEN.finditer(text, start, start + MOST_CHARACTERS):
        left -= _pieces(token)
        if left < 0:
            break
        end = token.end()
    return max(end, start + 1)


def _pieces(token: re.Match[str]) -> float:
    """How many word pieces a token may be. Every character of every text comes by here."""
    kind = token.lastgroup
    if kind == "space":
        return 0
    if kind == "other":
        return 1
    if kind == "hangul":
        return 3  # the model reads its letters one by one
    start, end = token.span()
    return 1 + (end - start) // 5 if kind == "word" else (end - start) / 1.5


def _cut(text: str, start: int, limit: int) -> int:
    """The last good boundary in the passage's second half; in what has none, the limit itself."""
    half = (start + limit) // 2
    for boundary in _BOUNDARIES:
        ends = [match.end() for match in boundary.finditer(text, half, limit)]
        if ends:
            return ends[-1]
    return limit


def _resume(text: str, start: int, end: int) -> int:
    """Where the passage after one begins: at a line or a word shortly before its end."""
    earliest = end - (end - start) // _OVERLAP
    for boundary in _BOUNDARIES[1:]:
        match = boundary.search(text, earliest, end)
        if match and match.end() < end:
            return match.end()
    return end
