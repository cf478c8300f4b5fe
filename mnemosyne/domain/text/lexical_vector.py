"""A vector of a text computed from its letters alone, for use without a model.

Words and their three-letter parts are hashed to dimensions and signs (feature hashing, Weinberger et al. 2009): texts
that share words, or inflections and misspellings of them, are near. It knows no synonyms.
"""

import math
from array import array
from functools import lru_cache
from operator import mul
from zlib import crc32

from mnemosyne.domain.text.words import count_words

DIMENSION = 384
NAME = "hashed-words/1"

_PART_WEIGHT = 0.3
"""The weight of a three-letter part relative to a whole word."""

_KNOWN = 20_000
"""How many words' features are cached: the words of a project repeat."""


def lexical_vector(text: str) -> "array[float]":
    """Return the text's vector, of length 1; for a text without words, the first unit vector."""
    sums = [0.0] * DIMENSION
    for word, count in count_words(text).items():
        weight = 1 + math.log(count)
        for place, part in _features(word):
            sums[place] += weight * part
    length = math.sqrt(sum(map(mul, sums, sums)))
    if length == 0:
        return array("f", [1.0] + [0.0] * (DIMENSION - 1))
    return array("f", [value / length for value in sums])


def _list_places(weight: float) -> tuple[tuple[int, float], ...]:
    """Return each dimension with each sign. Words share these tuples: separate tuples for 20,000 words took 41 MB, and
    7 MB shared.
    """
    return tuple((place, sign * weight) for sign in (-1, 1) for place in range(DIMENSION))


_OF_WORDS, _OF_PARTS = _list_places(1.0), _list_places(_PART_WEIGHT)


@lru_cache(maxsize=_KNOWN)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    """Return the dimensions of a word and its parts, with their weights."""
    framed = f"^{word}$"
    parts = (f"#{framed[start : start + 3]}" for start in range(len(framed) - 2))
    return (_OF_WORDS[_hash(word)], *(_OF_PARTS[_hash(part)] for part in parts))


def _hash(feature: str) -> int:
    digest = crc32(feature.encode("utf-8", "surrogatepass"))
    return digest % DIMENSION + (DIMENSION if digest & 0x80000000 else 0)
