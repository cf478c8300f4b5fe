"""Clean the text of entries, and compare entries by their words."""

import re

from mnemosyne.domain.session import sanitize
from mnemosyne.errors import BadEntry

LONGEST_CONTENT = 2_000
LONGEST_DETAIL = 16_000
"""Characters."""

BLOCK_BEGINS, BLOCK_ENDS = "[MEMORY]", "[/MEMORY]"
"""The delimiters of the memory block at the beginning of a session."""

_BLOCK = re.compile(r"\[MEMORY\].*?(?:\[/MEMORY\]|\Z)", re.DOTALL)
_MARKS = re.compile(r"\[(?=/?MEMORY\])")
_TAGS = re.compile(r"<(?=\s*/\s*[A-Za-z]|\s*[A-Za-z]+-)")
"""The end tag of an element, or the start tag of a client's own element, such as ``system-reminder``."""

_WORD = re.compile(r"[^\W\d_]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u2069\ufeff]")


def strip_private(text: str) -> str:
    """A text without its private parts and without inserted memory blocks, which would otherwise be learned again in
    every session.
    """
    return sanitize.blank_private(_BLOCK.sub(" ", text))


def clean_content(text: str) -> str:
    """A text as one line, credentials masked. Raises BadEntry if the result is empty or too long."""
    line = " ".join(_clean(text).split())
    if not line:
        raise BadEntry("Nothing is left to be remembered: the text is empty, or all of it is private.")
    if len(line) > LONGEST_CONTENT:
        raise BadEntry(
            f"An entry is one thing, in at most {LONGEST_CONTENT:,} characters, and this has {len(line):,}. Say it in a"
            " sentence, and give the rest as detail."
        )
    return line


def clean_detail(text: str) -> str:
    """A longer text, cleaned. Raises BadEntry if it is too long."""
    kept = _clean(text).strip()
    if len(kept) > LONGEST_DETAIL:
        raise BadEntry(f"A detail has at most {LONGEST_DETAIL:,} characters, and this has {len(kept):,}.")
    return kept


def _clean(text: str) -> str:
    return _CONTROLS.sub(" ", _MARKS.sub("(", sanitize.text(strip_private(text))))


def escape_tags(text: str) -> str:
    """Escape a text so that it ends neither an element of the surrounding message nor the memory block."""
    return _MARKS.sub("(", _TAGS.sub("&lt;", text))


def is_same(one: str, other: str) -> bool:
    """Whether two entries are equal except for case, white space and a final stop."""
    return _normalize(one) == _normalize(other)


def has_no_other_words(text: str, known: str) -> bool:
    """Whether all words of a text are in another one; numbers and marks are none."""
    return set(_WORD.findall(_clean(text).casefold())) <= set(_WORD.findall(known.casefold()))


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!\u3002")
