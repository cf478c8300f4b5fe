"""Answers made of quotes: the lines of remembered texts that answer a question, word for word.

A line is judged by three things: how much of what is asked it holds, how much of what is asked names the object that it
stands in, and whether it has the shape of what is asked for (``wants.py``). What stands around it by structure comes
with it as far as there is room. Where nothing holds enough of what is asked, there is no answer.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest

import attrs

from mnemosyne.domain.recall.choosing import ChosenLines, SearchedText, Tokens
from mnemosyne.domain.recall.lines import (
    MOST_READ,
    Span,
    Stretch,
    begins_file,
    find_names,
    find_quoted,
    is_given,
    is_heading,
    is_near_end,
    says_nothing_new,
    stretches,
    units,
    without_questions,
)
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.wants import AnswerShape, shape_of
from mnemosyne.domain.text.parts import Voice
from mnemosyne.domain.text.words import compounds, query_words, words

LEAST_HELD = 0.34
"""How much of what is asked an answer and the name of its object must hold together; rare words count more."""

MOST_QUOTES, MOST_OF_SEVERAL = 6, 12
"""Quotes in one answer, and in one that is a list."""

MOST_TOGETHER = 1_500_000
"""Characters that are looked at for one answer: what is less likely to answer is left out. They take a second."""

MOST_RANKED = 60
"""Lines that are considered for one answer."""

FLOOR = 0.75
"""What is quoted beside the best is worth this part of it at least."""

_NAME, _OWN, _SHAPE, _RANK, _OLD = 1.0, 1.0, 0.8, 0.25, 0.15
"""What counts: the share of the question that names the object, the share of the rest in the line, its shape, and the
object's rank; against it, that it is out of date."""

_WHOLE = 0.3
"""For what the question names by all of its path, its command or its first words."""

_FAILED = 0.2
"""For an object that tells of a failure, where that is asked for."""

_BY_USER = 0.3
"""For what the user said, where that is asked for."""

_QUOTED = 0.5
"""For a line that holds what the question quotes."""

_ELSEWHERE = 0.8
"""Against a line of another file's change than that which is asked about: as much as its shape is worth."""

_GIVEN = 0.2
"""Against an input of a call: it says what was wanted, and not what came of it."""

_UNDER = 0.5
"""What a word counts that stands in the heading above a line, or in the line before."""

_AGAIN = 0.12
"""Against each next line of an object where one answer is asked for."""

_ASKS = 0.15
"""Against a line that is a question itself: it holds the words, and answers nothing."""

_LATER = 0.02
"""Of equals the later: a run says at its end how it went, and people conclude at theirs."""

_IN_NAME = 0.25
"""What a word counts in a line, of what it counts where it does not already name the object."""


@attrs.frozen
class _Line:
    """A line, or a part of a long one, of the ``stretch`` with that number: the words of the question that it holds,
    and those that it stands ``under``, in the heading above it and the line before. ``file`` are those in the header of
    the file whose change it is of, in a diff; None elsewhere.
    """

    said: SearchedText
    span: Span
    stretch: int
    held: frozenset[str]
    under: frozenset[str] = frozenset()
    file: frozenset[str] | None = None


@attrs.frozen
class _Scored:
    """A line that may answer, and how well it does."""

    score: float
    line: _Line


def answers(
    question: str, texts: Sequence[SearchedText], most: int, tokens_of: Tokens, least: float = LEAST_HELD
) -> list[tuple[Quote, int]]:
    """Quotes that answer a question, each with its tokens, together at most ``most``; the best first, what the model
    sees already last. ``texts`` come in the order of how likely they are to answer. There is no quote where no line
    holds, with its object's name, at least this share of what is asked.
    """
    texts = list(_choose_texts(texts))
    within = {said.id: stretches(said.parts, said.name) for said in texts}
    told = {each: find_names(question, each) for all_of in within.values() for each in all_of}
    rest = _rest(question, {each for names in told.values() for each in names}) or question
    after = shape_of(rest)
    ranked = _rank(question, rest, texts, within, told, after, least)
    chosen = ChosenLines(most, tokens_of)
    for line in _in_turn(ranked, several=after.several):
        if len(chosen.spans) == (MOST_OF_SEVERAL if after.several else MOST_QUOTES):
            break
        chosen.take(line.said, line.span)
    return chosen.quotes(grown=not after.several)


def _in_turn(ranked: Sequence[_Scored], *, several: bool) -> Iterator[_Line]:
    """The lines that are worth it, the best first, what the model sees already last. Where one answer is asked for,
    each next line of an object counts less, since another run or version may be meant; where several are, those of
    other objects.
    """
    floor = FLOOR * ranked[0].score if ranked else 0.0
    left = [each for each in ranked if each.score >= floor]
    taken: Counter[str] = Counter()

    def worth(each: _Scored) -> tuple[bool, float]:
        less = bool(taken) and not taken[each.line.said.id] if several else taken[each.line.said.id]
        return not each.line.said.seen, each.score - _AGAIN * less

    while left:
        best = max(left, key=worth)
        left.remove(best)
        taken[best.line.said.id] += 1
        yield best.line


@attrs.frozen
class _Place:
    """A stretch of an object: what of the question is ``told`` to name it and no more, the words that name it, those
    that ask for something in it, and what its lines are worth for where they stand.
    """

    stretch: Stretch
    told: Sequence[str]
    name: frozenset[str]
    own: frozenset[str]
    worth: float


def _rank(
    question: str,
    rest: str,
    texts: Sequence[SearchedText],
    within: Mapping[str, Sequence[Stretch]],
    told: Mapping[Stretch, Sequence[str]],
    after: AnswerShape,
    least: float,
) -> list[_Scored]:
    """The best lines with their scores, best first; of each text its stretches, of each of these what names it. The
    ``rest`` of the question is what names none.
    """
    asked = query_words(question)
    places = _places(question, asked, texts, within, told, after)
    lines = [line for said in texts for line in _lines(said, asked, [each.stretch for each in places[said.id]])]
    if least and _names_only_unknowns(question, places, lines):
        return []
    weight = _without_parts(_weights(asked, [line.held for line in lines]), question, lines)
    total = _sum(weight, frozenset(asked) - after.form) or _sum(weight, asked) or 1.0
    naming = {each for all_of in places.values() for place in all_of for each in place.told}
    quoted = [each for each in find_quoted(question) if each not in naming]
    elsewhere = _find_other_files(rest, lines)
    scored: list[tuple[float, int, _Line]] = []
    for number, line in enumerate(lines):
        place = places[line.said.id][line.stretch]
        if _sum(weight, place.name | line.held) >= least * total:
            text = line.said.text[line.span[0] : line.span[1]]
            if line.held and says_nothing_new(question, text):
                continue
            score = place.worth + _worth(line, text, place, weight, after)
            score -= _GIVEN * (place.stretch.voice is Voice.CALL and is_given(text))
            score += _QUOTED * (bool(quoted) and _quotes(text, quoted))
            score -= _ELSEWHERE * ((line.said.id, line.file) in elsewhere)
            scored.append((score, -number, line))
    return [_Scored(score, line) for score, _, line in nlargest(MOST_RANKED, scored)]


def _names_only_unknowns(question: str, places: Mapping[str, Sequence[_Place]], lines: Sequence[_Line]) -> bool:
    """Whether a question names something, as programs name things, that is nowhere: neither it, nor all of its parts in
    one line or in the name of one stretch, nor is it the beginning of such a name, as of a command that was cut off.
    """
    names = {place.stretch.name: place.name for each in places.values() for place in each}
    held = {*(line.held for line in lines), *names.values()}
    unknown = [
        whole
        for whole, parts in compounds(question).items()
        if not any(whole in each or each.issuperset(parts) for each in held)
    ]
    begun = {each for name in names for each in compounds(name)} if unknown else ()
    return any(not any(each.startswith(whole) for each in begun) for whole in unknown)


def _find_other_files(rest: str, lines: Sequence[_Line]) -> Collection[tuple[str, frozenset[str] | None]]:
    """The headers, by their objects, of files in a diff that is of one, too, which a question names better."""
    names = compounds(rest)
    headers = {(line.said.id, line.file) for line in lines if line.file is not None} if names else set()
    told = {
        (key, file): sum(whole in file or file.issuperset(parts) for whole, parts in names.items())
        for key, file in headers
    }
    most: dict[str, int] = {}
    for (key, _), count in told.items():
        most[key] = max(count, most.get(key, 0))
    return {header for header, count in told.items() if count < most[header[0]]}


def _without_parts(weight: Mapping[str, float], question: str, lines: Sequence[_Line]) -> Mapping[str, float]:
    """The weights, where the parts of a name count nothing if the name itself is there."""
    held = frozenset[str]().union(*(line.held for line in lines))
    parts = {part for whole, parts in compounds(question).items() if whole in held for part in parts}
    return {word: 0.0 if word in parts else each for word, each in weight.items()}


def _quotes(text: str, quoted: Sequence[str]) -> bool:
    said = " ".join(text.split())
    return any(each in said for each in quoted)


def _worth(line: _Line, text: str, place: _Place, weight: Mapping[str, float], after: AnswerShape) -> float:
    """How well a line answers, whatever it stands in."""
    own, name = place.own, place.name - place.own
    held = _sum(weight, line.held & own) + _IN_NAME * _sum(weight, line.held & name)
    held += _UNDER * _sum(weight, (line.under - line.held) & own)
    most = _sum(weight, own | name)
    fit = after.fits(without_questions(text), own)
    shape = max(fit.worth, after.last and is_near_end(line.said.text, line.span[1], place.stretch))
    at = line.span[0] / max(1, len(line.said.text))
    later = _LATER * (-at if fit.first else at)
    return _OWN * min(1.0, held / (most or 1.0)) + _SHAPE * shape + later - _ASKS * text.rstrip().endswith("?")


def _places(
    question: str,
    asked: Sequence[str],
    texts: Sequence[SearchedText],
    within: Mapping[str, Sequence[Stretch]],
    told: Mapping[Stretch, Sequence[str]],
    after: AnswerShape,
) -> dict[str, list[_Place]]:
    """The stretches of each text by its id."""
    names = {each: frozenset(asked).intersection(words(each.name)) for each in told}
    weight = _weights(asked, list(names.values()))
    named = _sum(weight, frozenset[str]().union(*names.values())) or 1.0
    most = max((sum(map(len, each)) for each in told.values()), default=0) or 1
    places: dict[str, list[_Place]] = {}
    for rank, said in enumerate(texts):
        of_object = _RANK / (1 + rank) - _OLD * said.old
        of_object += _FAILED * (said.failed and after.failed)
        places[said.id] = [
            _Place(
                each,
                told[each],
                names[each],
                frozenset(asked) - (names[each] - frozenset(query_words(_rest(question, told[each])))),
                of_object
                + _NAME * _sum(weight, names[each]) / named
                + _WHOLE * sum(map(len, told[each])) / most
                + _BY_USER * (after.by_user and each.voice is Voice.USER),
            )
            for each in within[said.id]
        ]
    return places


def _rest(question: str, told: Collection[str]) -> str:
    """A question without what only names something in it; empty where nothing does."""
    rest = " ".join(question.split())
    for each in sorted(told, key=len, reverse=True):
        rest = rest.replace(each, " ", 1)
    return rest if told else ""


def _choose_texts(texts: Sequence[SearchedText]) -> Iterator[SearchedText]:
    """As many of the texts as may be looked at, the likelier first."""
    left = MOST_TOGETHER
    for said in texts:
        size = min(len(said.text), MOST_READ)
        if size <= left:
            left -= size
            yield said


def _sum(weight: Mapping[str, float], some: Iterable[str]) -> float:
    return sum(weight[word] for word in some)


def _weights(asked: Sequence[str], texts: Sequence[frozenset[str]]) -> Mapping[str, float]:
    """The inverse document frequency of each word among some texts, of which it is known which hold it."""
    holding = dict.fromkeys(asked, 0)
    for held in texts:
        for word in held:
            holding[word] += 1
    return {word: math.log(1 + (len(texts) - held + 0.5) / (held + 0.5)) for word, held in holding.items()}


def _lines(said: SearchedText, asked: Sequence[str], within: Sequence[Stretch]) -> Iterator[_Line]:
    wanted_words = frozenset(asked)
    starts = tuple({word[: max(1, min(4, len(word) - 1))] for word in asked})
    before = heading = frozenset[str]()
    file: frozenset[str] | None = None
    number = 0
    for span in units(said.text, said.found):
        while number + 1 < len(within) and span[0] >= within[number + 1].start:
            number += 1
            before = heading = frozenset()
            file = None
        text = said.text[span[0] : span[1]]
        lowered = text.lower()
        may_hold = not text.isascii() or any(start in lowered for start in starts)
        held = wanted_words.intersection(words(text)) if may_hold else frozenset[str]()
        if is_heading(text):
            heading = held
        if begins_file(text):
            file = held
        yield _Line(said, span, number, held, before | heading, file)
        before = held
