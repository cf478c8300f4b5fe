"""Whether what a helper wrote is from its source: the specifics that it names, and the words that it uses."""

import re
from collections.abc import Collection

from mnemosyne.domain.text.entities import Specific, SpecificKind, specifics

LEAST_GROUNDED = 0.5
"""The share of its words that a text must have from its source."""

MOST_SEARCHES = 256
"""Unknown specifics of a text that are searched for one by one; more than these are all taken for invented."""

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_WORD = re.compile(r"[^\W\d_\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7a3]{5,}|[\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7a3]")


def measure_grounding(source: str, text: str) -> float:
    """The share of a text's words, by their beginnings, that its source has; 1 where it has none. It is low in what
    talks about something else: another language, a refusal, instructions of its own.
    """
    words = {word[:5] for word in _WORD.findall(text.casefold())}
    if not words:
        return 1.0
    return len(words & {word[:5] for word in _WORD.findall(source.casefold())}) / len(words)


def find_invented(source: str, text: str) -> Collection[Specific]:
    """The specifics of a text that its source lacks."""
    source, text = _THOUSANDS.sub("", source), _THOUSANDS.sub("", text)
    known = {_normal(specific) for specific in specifics(source)}
    unknown = [specific for specific in specifics(text) if _normal(specific) not in known]
    if len(unknown) > MOST_SEARCHES:
        return unknown
    folded = source.casefold()
    return [specific for specific in unknown if not _stands_in(specific.text.casefold(), folded)]


def _normal(specific: Specific) -> str:
    """What two ways of writing the same thing have in common."""
    text = specific.text.casefold()
    if specific.kind is SpecificKind.NUMBER:
        return re.sub(r"[\s,_]", "", text.lstrip("-+~<>"))
    return text


def _stands_in(text: str, source: str) -> bool:
    """Whether the text occurs and is not part of a longer word or number there."""
    before = r"(?<!\w)" if text[0].isalnum() or text[0] == "_" else ""
    after = r"(?!\w)" if text[-1].isalnum() or text[-1] == "_" else ""
    return re.search(before + re.escape(text) + after, source) is not None
