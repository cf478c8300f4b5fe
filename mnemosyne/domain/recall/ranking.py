"""What makes one score of several: the constants of every search, of objects and of conversations, in one place.

They were chosen on one public conversation and checked on questions of our own; docs/searching.md tells what each is
worth. Neighbouring values do as well, so none of them is finer than that.
"""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Score = TypeVar("Score", float, NDArray[np.float32], NDArray[np.float64])

K1, B = 1.2, 0.75
"""Of BM25: how much more a word counts that comes again, and how much less in a long passage."""

WORDS = 0.55
"""What words weigh, of 1; nearness in meaning weighs the rest."""

WHOLE = 0.3
"""What an object has by all its words together weighs this much, of 1, beside what its best passage has."""

PREVIOUS, FOLLOWING = 0.1, 0.2
"""What the messages before and after one add to its score, each with this part of its own."""

ANSWER = 0.3
"""What a question adds to the message that follows it, which answers it."""

QUESTION = 0.3
"""What a message loses that only asks; of one that asks in half of its text, half as much."""

SPEAKER = 0.3
"""What a message gains whose speaker the query names. With more, a query that names the wrong one finds too little."""


def blend(words: "Score", nearness: "Score") -> "Score":
    """One score, 0 to 1, of how much a text has of what a query's words could give, and how near in meaning it is."""
    return WORDS * words + (1 - WORDS) * nearness
