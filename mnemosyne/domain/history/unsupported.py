"""Which sentences of a reply tell of the session's past by a name that stood nowhere in what the model was shown.

A sentence is looked at if it says what was done or found: what will be done, what may be, and questions are not. It is
flagged if it names paths, identifiers, error codes, hashes or addresses, and none of them, nor a part of one, stands in
its context. Numbers and quotations do not count: models compute the one and put the other in words of their own.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from mnemosyne.domain.segmentation.own_words import paragraphs
from mnemosyne.domain.segmentation.statements import plain, sentences
from mnemosyne.domain.text.entities import Specific, SpecificKind, occurrences
from mnemosyne.domain.wire.blocks import HIDDEN

_NAMES = frozenset(
    {SpecificKind.PATH, SpecificKind.IDENTIFIER, SpecificKind.ERROR, SpecificKind.HASH, SpecificKind.URL}
)
_SHORTEST = 4
"""Letters that a part of a name must have to be looked for."""

_PAST = re.compile(
    r"\b(?=\w)(?:was|were|had|did|been|earlier|previously|so far"
    r"|(?:i|we|you)(?:'ve| have)? (?:just |also |already |then |now )?(?:\w{3,40}ed|ran|found|saw|wrote|made|did|read"
    r"|got|set|put|built|took|chose|said|left|went|broke|caught)"
    r"|(?:tests?|builds?|checks?|runs?|commits?) (?:passed|failed|succeeded))\b"
    r"|^\W{0,8}(?:added|created|fixed|updated|removed|changed|renamed|moved|replaced|implemented|refactored|extracted"
    r"|wrote|committed|pushed)\b"
)
_NOT_PAST = re.compile(
    r"\b(?=\w)(?:will|would|could|should|might|may|let me|let's|i'll|if|unless|e\.g|such as|instead|for example"
    r"|need(?:s|ed)? to|want(?:s|ed)? to|going to|can|now i|option|alternative)\b|[?→]"
)


@attrs.frozen
class UnsupportedSentence:
    """A sentence of a reply, and the ``names`` in it that stood nowhere in its context."""

    sentence: str
    names: tuple[str, ...]


def find_unsupported(said: Sequence[str], context: str) -> tuple[UnsupportedSentence, ...]:
    """All such sentences of the texts of a reply, in their order. ``context`` is all that the model was shown, and what
    it wrote in the calls of the reply itself. Linear in their lengths for each name.
    """
    folded = context.casefold()
    found = []
    for sentence in (each for text in said for each in _list_sentences(text)):
        if tells_of_the_past(sentence):
            names = [each for each in occurrences(sentence) if each.kind in _NAMES]
            if names and not any(_stands_in(each, folded) for each in names):
                found.append(UnsupportedSentence(sentence, tuple(dict.fromkeys(each.text for each in names))))
    return tuple(found)


def tells_of_the_past(sentence: str) -> bool:
    """Whether a sentence says what was done or found."""
    folded = sentence.replace("\u2019", "'").casefold()
    return _PAST.search(folded) is not None and _NOT_PAST.search(folded) is None


def list_words(value: Any) -> Iterator[str]:
    """Every text in a JSON value, as a model reads it."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from list_words(each)
        case dict():
            for name, each in value.items():
                if name not in HIDDEN:
                    yield from list_words(each)


def _list_sentences(text: str) -> Iterator[str]:
    for paragraph in paragraphs(text):
        for start, end in sentences(paragraph):
            yield plain(text[start:end])


def _stands_in(name: Specific, folded: str) -> bool:
    """Whether a name, or a part of it, is in a folded text; of an identifier its last part has to be."""
    parts = [each for each in re.split(r"\W+", name.text.casefold()) if len(each) >= _SHORTEST]
    if name.kind is SpecificKind.IDENTIFIER:
        parts = parts[-1:]
    return not parts or any(each in folded for each in parts)
