"""A question with its answer, and whether a text holds it so that a reader could use it."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256

import attrs

NEAR = 240
"""Characters within which the tokens of one answer must stand, and within one line."""

SAID_AGAIN = 0.6
"""The share of a sentence's own words that says the same."""

_WORD = re.compile(r"[^\W_][\w'-]*[^\W_]|\d")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the a an and or but if then else for of to in on at by with from as is are was were be been being it its this"
        " that these those there here i we you they he she them us our your their my me do does did done have has had"
        " will would can could should may might must not no so than too very just also only now when where which"
        " who what how why all any some each let ll re ve don",
    )
)


@attrs.frozen
class Answer:
    """One thing to know. Each of ``ways`` is a way of saying it: tokens of which the ``share`` must stand near each
    other in one line.
    """

    ways: tuple[tuple[str, ...], ...]
    share: float = 1.0

    def stands_in(self, text: str) -> bool:
        """Whether a text says it."""
        lines = text.split("\n")
        return any(_near(way, self.share, line) for way in self.ways for line in lines)


@attrs.frozen
class Pair:
    """A question about one source of an object, and its answers: ``about`` names the source, ``asks`` is the question.
    Four in five of ``answers`` are enough.
    """

    rule: str
    about: str
    asks: str
    answers: tuple[Answer, ...]

    @property
    def question(self) -> str:
        return f"{self.about}: {self.asks}"

    @property
    def digest(self) -> str:
        """Its entry in the list of checked pairs."""
        said = "\0".join(
            (self.rule, self.question, *(token for each in self.answers for way in each.ways for token in way))
        )
        return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def answered_by(self, text: str) -> bool:
        """Whether a reader of the text could answer it."""
        found = sum(answer.stands_in(text) for answer in self.answers)
        return 5 * found >= 4 * len(self.answers)


def exactly(*tokens: str) -> Answer:
    """Known by all of these tokens."""
    return Answer((tokens,))


def either(*ways: tuple[str, ...]) -> Answer:
    """Known by all tokens of any one of these ways."""
    return Answer(ways)


def in_words(sentence: str, share: float = SAID_AGAIN) -> Answer | None:
    """Known by most of a sentence's own words; None if it has too few to tell it from others."""
    words = own_words(sentence)
    return Answer((tuple(words),), share) if len(words) >= 4 else None


def own_words(sentence: str) -> list[str]:
    """The words of a sentence that others do not have."""
    found = (word.casefold() for word in _WORD.findall(sentence))
    return list(dict.fromkeys(word for word in found if word not in _COMMON and (len(word) > 2 or word.isdigit())))


def _near(tokens: Sequence[str], share: float, line: str) -> bool:
    """Whether enough different tokens begin within ``NEAR`` characters of the line."""
    needed = max(1, -int(-share * len(tokens) // 1))
    if len(line) < sum(map(len, tokens)) * share / 2:
        return False
    places = sorted((at, number) for number, token in enumerate(tokens) for at in _places(token, line))
    first = 0
    for last, (at, _) in enumerate(places):
        while at - places[first][0] > NEAR:
            first += 1
        if len({number for _, number in places[first : last + 1]}) >= needed:
            return True
    return False


def _places(token: str, line: str) -> Iterator[int]:
    return (match.start() for match in _pattern(token).finditer(line))


@cache
def _pattern(token: str) -> re.Pattern[str]:
    """The token where it is no part of a longer word or number."""
    before = r"(?<!\w)" if token[:1].isalnum() or token[:1] == "_" else ""
    part = r"\w/" if "/" in token else r"\w"
    after = rf"(?![{part}])" if token[-1:].isalnum() or token[-1:] == "_" else ""
    return re.compile(before + re.escape(token) + after, re.IGNORECASE)
