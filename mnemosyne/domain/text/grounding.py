"""Grounding of a helper's text in its source, by specifics and by words."""

import re
from collections.abc import Collection

from mnemosyne.domain.text.entities import Specific, SpecificKind, specifics

LEAST_GROUNDED = 0.5
"""Minimum share of a text's words that must occur in its source."""

MOST_SEARCHES = 256
"""Maximum number of unknown specifics that are searched for one by one; if there are more, all count as invented."""

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_WORD = re.compile(r"[^\W\d_\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7a3]{5,}|[\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7a3]")


def measure_grounding(source: str, text: str) -> float:
    """Return the share of a text's words, by their beginnings, that occur in its source; 1 for a text without words. It
    is low for another topic, another language, a refusal, or added instructions.
    """
    words = {word[:5] for word in _WORD.findall(text.casefold())}
    if not words:
        return 1.0
    return len(words & {word[:5] for word in _WORD.findall(source.casefold())}) / len(words)


def find_invented(source: str, text: str) -> Collection[Specific]:
    """Return the specifics of a text that its source lacks."""
    source, text = _THOUSANDS.sub("", source), _THOUSANDS.sub("", text)
    known = {_normal(specific) for specific in specifics(source)}
    unknown = [specific for specific in specifics(text) if _normal(specific) not in known]
    if len(unknown) > MOST_SEARCHES:
        return unknown
    folded = source.casefold()
    return [specific for specific in unknown if not _occurs(specific.text.casefold(), folded)]


def _normal(specific: Specific) -> str:
    """Return the common form of different spellings of a specific."""
    text = specific.text.casefold()
    if specific.kind is SpecificKind.NUMBER:
        return re.sub(r"[\s,_]", "", text.lstrip("-+~<>"))
    return text


def _occurs(text: str, source: str) -> bool:
    """Return whether the text occurs in the source, not as a part of a longer word or number."""
    before = r"(?<!\w)" if text[0].isalnum() or text[0] == "_" else ""
    after = r"(?!\w)" if text[-1].isalnum() or text[-1] == "_" else ""
    return re.search(before + re.escape(text) + after, source) is not None
