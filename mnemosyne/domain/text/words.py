"""The words of a text as search counts them: what code, paths and errors consist of, and what people call them.

``src/auth/tokenRefresh.py`` gives the whole path, and ``src auth token refresh py``; ``ERR_TOKEN_2041`` the whole code,
and its parts. Database dictionaries for a language would mangle all of these.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

_LONGEST = 200
"""Characters of the longest token; what is longer is no word that anybody asks for, and is counted in parts."""

_TOKEN = re.compile(rf"\w(?:[\w./:@#\\-]{{0,{_LONGEST}}}\w)?")

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
"""Scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""

# What questions are made of, and what is in nearly every text: it says nothing about what is asked for.
_COMMON = """
a about after again all also am an and any are as at be because been before being between both but by can could did
do does doing down during each few for from further had has have having he her here hers him his how i if in into is
it its itself just me more most my no nor not now of off on once only or other our out over own same she should so
some such than that the their them then there these they this those through to too under until up very was we were
what when where which while who whom whose why will with would you your yours s t d ll m re ve don didn isn doesn
"""


def words(text: str) -> Iterator[str]:
    """Every word of a text in order, folded; a token of several parts comes whole and in parts."""
    return chain.from_iterable(map(_words_of, _TOKEN.findall(text if text.isascii() else _fold(text))))


_KNOWN = 1 << 14
"""Tokens whose words are remembered: those of one project come again and again."""


@lru_cache(maxsize=_KNOWN)
def _words_of(token: str) -> tuple[str, ...]:
    """The words that a token gives."""
    if token.isascii() and token.isalpha() and (token.islower() or token.istitle()):
        return (stem(token.lower()),)
    parts = _PART.findall(token)
    found = [token.lower()] if len(parts) != 1 or len(parts[0]) != len(token) else []
    for part in parts:
        if _UNSPACED.match(part):
            found += _pairs(part)
        elif len(part) > 1 or part == token:
            found.append(stem(part.lower()))
    return tuple(found)


def query_words(text: str) -> list[str]:
    """The words to look for, each once: without the common ones, unless there is no other."""
    return list(count_words(text))


def count_words(text: str) -> dict[str, int]:
    """The words to look for, and how often each is in the text, in the order in which they come first."""
    found = Counter(words(text))
    return {word: count for word, count in found.items() if word not in _COMMON_STEMS} or found


def compounds(text: str) -> dict[str, tuple[str, ...]]:
    """The parts of each word of several parts: of ``parse_header`` these are ``pars`` and ``header``."""
    found = (_words_of(token) for token in _TOKEN.findall(text if text.isascii() else _fold(text)))
    return {whole: tuple(parts) for whole, *parts in filter(None, found) if parts}


def stem(word: str) -> str:
    """An English word without its plural or verb ending; only the same for both sides matters, not what is left."""
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("es") and word[-3] in "sxzh":
        word = word[:-2]
    elif word.endswith("s") and word[-2] not in "sui":
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) >= len(ending) + 3 and set(word[: -len(ending)]) & set("aeiouy"):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word.removesuffix("e")


def _fold(text: str) -> str:
    """Compatible forms made one, accents dropped: ``Zürich`` is found as ``Zurich``."""
    parts = (text[start : start + _FOLDED_AT_ONCE] for start in range(0, len(text), _FOLDED_AT_ONCE))
    decomposed = chain.from_iterable(unicodedata.normalize("NFKD", part) for part in parts)
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if not unicodedata.combining(c)))


_FOLDED_AT_ONCE = 256
"""Characters. Putting n accents in a row in order takes n² steps; as they are dropped, their order does not matter."""


def _pairs(part: str) -> Iterator[str]:
    """Neighbouring characters, where words have no space between them."""
    yield from (part[i : i + 2] for i in range(max(1, len(part) - 1)))


_COMMON_STEMS = frozenset(map(stem, _COMMON.split()))
