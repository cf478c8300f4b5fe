"""Texts as the word pieces that the model knows: BERT's own way of cutting, read from its ``tokenizer.json``.

As published (Devlin et al. 2019, and the file's ``normalizer``, ``pre_tokenizer`` and ``model``): control characters
go, accents and capitals too, each sign of punctuation and each Chinese character is a word of its own, and a word is
cut, from its beginning, into the longest pieces that there are. The library that reads such files would bring a client
of the model hub; a test holds this against it.
"""

import json
import unicodedata

MOST_PIECES = 256
"""Word pieces that the model reads, with the two that mark beginning and end; it was not trained on more."""

LONGEST_WORD = 100
"""Characters; a longer word is an unknown one."""

_CONTINUES = "##"

_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
"""What BERT takes for Chinese characters; each stands alone."""


class WordPieces:
    """The cutter that a ``tokenizer.json`` describes. Threads may share one."""

    def __init__(self, published: bytes) -> None:
        """Read the vocabulary. Raises ValueError or KeyError for what is no such file."""
        self._ids: dict[str, int] = json.loads(published)["model"]["vocab"]
        self._longest = max(map(len, self._ids))
        self._unknown = self._ids["[UNK]"]
        self._begin, self._end = self._ids["[CLS]"], self._ids["[SEP]"]

    def ids(self, text: str) -> list[int]:
        """The numbers of the text's pieces, between those that mark its beginning and its end; at most MOST_PIECES."""
        found = [self._begin]
        # No more is looked at than can matter, were every piece as long as a word may be. No lone surrogates.
        start = text[: MOST_PIECES * LONGEST_WORD].encode("utf-8", "replace").decode()
        for word in start.translate(_PLAIN).split():
            found += self._pieces(word)
            if len(found) >= MOST_PIECES:
                break
        return [*found[: MOST_PIECES - 1], self._end]

    def _pieces(self, word: str) -> list[int]:
        """From the beginning, the longest piece each time; a word of which some part is no piece is unknown."""
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        prefix, start = "", 0
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                if (piece := self._ids.get(prefix + word[start:end])) is not None:
                    break
            else:
                return [self._unknown]
            found.append(piece)
            prefix, start = _CONTINUES, end
        return found


class _Plain(dict[int, str]):
    """What stands for a character, found when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _plain(chr(code))
        return found


_PLAIN = _Plain()


def _plain(character: str) -> str:
    """What is left of a character; blanks around it if it is a word of its own."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or (character.isspace() and category != "Cc"):
        return " "
    if character in "\0\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
        return ""
    parts = [each for each in unicodedata.normalize("NFD", character) if unicodedata.category(each) != "Mn"]
    plain = "".join(f" {each} " if _is_punctuation(each) else each.lower() for each in parts)
    return f" {plain} " if any(first <= ord(character) <= last for first, last in _IDEOGRAPHS) else plain


def _is_punctuation(character: str) -> bool:
    """Every sign of ASCII counts, currency and mathematics too."""
    return unicodedata.category(character).startswith("P") or (character.isascii() and not character.isalnum())
