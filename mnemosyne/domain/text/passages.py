"""Cut texts into passages that an embedder reads completely.

all-MiniLM-L6-v2 reads 256 word pieces and ignores the rest, so a longer text is embedded as passages, and its nearest
passage gives its distance from a query. Word pieces are estimated from the characters: the cuts are then the same for
every embedder, and need no model.
"""

import re

import attrs

MOST_PIECES = 215.0
"""Estimated word pieces of one passage. 254 real ones fit, plus the two that mark beginning and end; on recorded agent
sessions (code, logs, JSON, prose) the estimate was never more than 18 % below the count of the model's tokenizer.
"""

MOST_CHARACTERS = 2_000
"""The maximum length of a passage: white space counts as no word piece and a very long word as one."""

_OVERLAP = 8
"""A passage begins with the last 1/8 of the previous one, so that no sentence occurs only in halves."""

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
"""Where to cut, best first; the cut is at the end of the match."""


@attrs.frozen
class Passage:
    """A part of a text: its characters ``[start, end)``."""

    start: int
    end: int


def passages(text: str) -> list[Passage]:
    """Return the passages of a text, in order: each is short enough, and together they cover every character."""
    result: list[Passage] = []
    start = 0
    while start < len(text):
        limit = _limit(text, start)
        end = limit if limit == len(text) else _cut(text, start, limit)
        result.append(Passage(start, end))
        if end == len(text):
            break
        start = _resume(text, start, end)
    return result


def _limit(text: str, start: int) -> int:
    """Return how far a passage from ``start`` may reach."""
    end, remaining = start, MOST_PIECES
    for token in _TOKEN.finditer(text, start, start + MOST_CHARACTERS):
        remaining -= _pieces(token)
        if remaining < 0:
            break
        end = token.end()
    return max(end, start + 1)


def _pieces(token: re.Match[str]) -> float:
    """Estimate the word pieces of a token. Runs over every character of every text."""
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
    """Return the last good boundary in the passage's second half; the limit if there is none."""
    half = (start + limit) // 2
    for boundary in _BOUNDARIES:
        ends = [match.end() for match in boundary.finditer(text, half, limit)]
        if ends:
            return ends[-1]
    return limit


def _resume(text: str, start: int, end: int) -> int:
    """Return where the next passage begins: at a line or a word shortly before the end of this one."""
    earliest = end - (end - start) // _OVERLAP
    for boundary in _BOUNDARIES[1:]:
        match = boundary.search(text, earliest, end)
        if match and match.end() < end:
            return match.end()
    return end
