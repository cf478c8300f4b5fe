"""How much of a text asks something: a question says what its answer is about, and is seldom an answer itself."""

import re

# A run of marks is looked at once, from its beginning, however long it is.
_END = re.compile(r"(?<![.!?؟])[.!?؟]++[\"')\]»”*_]*+(?=\s|\Z)|[。！？]+|\n+")  # noqa: RUF001 - marks of other scripts

_ASKS = frozenset("?؟？")  # noqa: RUF001


def share_of_questions(text: str) -> float:
    """How much of a text stands in sentences that end with a question mark: 0 to 1, by characters. A mark within a
    word, as in an address, ends no sentence.
    """
    asked = start = 0
    for end in _END.finditer(text):
        if not _ASKS.isdisjoint(end.group()):
            asked += end.end() - start
        start = end.end()
    return asked / len(text) if asked else 0.0
