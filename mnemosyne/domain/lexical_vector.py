"""A vector of a text made of its letters alone, for where there is no model.

Words and the three-letter parts of words are hashed to places and signs of a vector (Weinberger et al. 2009, feature
hashing): texts that share words, or inflections and misspellings of them, are near. It knows no synonyms.
"""

import math
from array import array
from collections import Counter
from zlib import crc32

from mnemosyne.domain.words import query_words, words

DIMENSION = 384
NAME = "hashed-words/1"

_PART_WEIGHT = 0.3
"""What a three-letter part counts against a whole word."""


def lexical_vector(text: str) -> "array[float]":
    """The text's vector, of length 1; of a text without words, the first unit vector."""
    kept = set(query_words(text))
    counts = Counter(word for word in words(text) if word in kept)
    sums = [0.0] * DIMENSION
    for word, count in counts.items():
        weight = 1 + math.log(count)
        _put(sums, word, weight)
        framed = f"^{word}$"
        for start in range(len(framed) - 2):
            _put(sums, f"#{framed[start : start + 3]}", weight * _PART_WEIGHT)
    length = math.sqrt(sum(value * value for value in sums))
    if length == 0:
        return array("f", [1.0] + [0.0] * (DIMENSION - 1))
    return array("f", [value / length for value in sums])


def _put(sums: list[float], feature: str, weight: float) -> None:
    digest = crc32(feature.encode("utf-8", "surrogatepass"))
    sums[digest % DIMENSION] += weight if digest & 0x80000000 else -weight
