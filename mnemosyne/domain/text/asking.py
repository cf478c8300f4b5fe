"""Measure how much of a text consists of questions. A question shows what its answer is about, but is seldom an
answer.
"""

import re

# A run of marks is matched once, from its beginning, however long it is.
_END = re.compile(r"(?<![.!?؟])[.!?؟]++[\"')\]»”*_]*+(?=\s|\Z)|[。！？]+|\n+")  # noqa: RUF001 - marks of other scripts

_ASKS = frozenset("?؟？")  # noqa: RUF001


def share_of_questions(text: str) -> float:
    """Return the share of a text that is in sentences ending with a question mark: 0 to 1, by characters.

    A mark within a word, as in a URL, does not end a sentence.
    """
    asked = start = 0
    for end in _END.finditer(text):
        if not _ASKS.isdisjoint(end.group()):
            asked += end.end() - start
        start = end.end()
    return asked / len(text) if asked else 0.0
