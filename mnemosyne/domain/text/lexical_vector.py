"""A vector of a text made of its letters alone, for where there is no model.

Words and the three-letter parts of words are hashed to places and signs of a vector (Weinberger et al. 2009, feature
hashing): texts that share words, or inflections and misspellings of them, are near. It knows no synonyms.
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
"""What a three-letter part counts against a whole word."""

_KNOWN = 20_000
"""Words whose places are remembered: those of one project come again and again."""


def lexical_vector(text: str) -> "array[float]":
    """The text's vector, of length 1; of a text without words, the first unit vector."""
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
    """Each place with its sign. Words share them: those of 20,000 words took 41 MB, and take 7 so."""
    return tuple((place, sign * weight) for sign in (-1, 1) for place in range(DIMENSION))


_OF_WORDS, _OF_PARTS = _list_places(1.0), _list_places(_PART_WEIGHT)


@lru_cache(maxsize=_KNOWN)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    """The places of a word and of its parts, and what goes there."""
    framed = f"^{word}$"
    parts = (f"#{framed[start : start + 3]}" for start in range(len(framed) - 2))
    return (_OF_WORDS[_hash(word)], *(_OF_PARTS[_hash(part)] for part in parts))


def _hash(feature: str) -> int:
    digest = crc32(feature.encode("utf-8", "surrogatepass"))
    return digest % DIMENSION + (DIMENSION if digest & 0x80000000 else 0)
