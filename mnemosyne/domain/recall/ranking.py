"""Scoring constants of every search, for objects and conversations, in one place.

They were chosen on one public conversation and checked on separate questions (``python -m benchmarks
retrieval.conversations``). Neighboring values perform equally, so none of them is more precise than that.
"""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Score = TypeVar("Score", float, NDArray[np.float32], NDArray[np.float64])

K1, B = 1.2, 0.75
"""BM25 parameters: the effect of repeated words, and the penalty for long passages."""

WORDS = 0.55
"""Weight of words, of 1; nearness in meaning has the rest."""

WHOLE = 0.3
"""Weight of an object's score over all its text, of 1; its best passage has the rest."""

PREVIOUS, FOLLOWING = 0.1, 0.2
"""Share of their own scores that the previous and the following message add to a message."""

ANSWER = 0.3
"""Amount that a question adds to the following message, which answers it."""

QUESTION = 0.3
"""Penalty for a message that only asks; half of it if half of its text asks."""

SPEAKER = 0.3
"""Bonus for a message whose speaker the query names. With more, a query that names the wrong speaker finds too
little.
"""


def blend(words: "Score", nearness: "Score") -> "Score":
    """Combine the share of a query's words and the nearness in meaning into one score, 0 to 1."""
    return WORDS * words + (1 - WORDS) * nearness
