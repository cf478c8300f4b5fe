"""Answers made of quotes: the lines of recorded texts that contain most of a question, verbatim.

A line is scored by the share of the question in it and in the name of its text, and by the rank of that text.
Surrounding lines are quoted with it as far as there is room. If no line contains enough of the question, there is no
answer.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.kinds import keeps_prompt
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.object_search import PassageHit
from mnemosyne.domain.recall.retrieval import rarity
from mnemosyne.domain.recall.sources import name_of
from mnemosyne.domain.text.parts import PartRole, TextPart, join
from mnemosyne.domain.text.words import compounds, query_words, words

Span = tuple[int, int]
Tokens = Callable[[str], int]

LEAST_HELD = 0.34
"""The share of a question that a line and the name of its text must contain together; rare words count more."""

MOST_QUOTES = 6
"""Maximum number of quotes in one answer."""

MOST_READ, MOST_TOGETHER = 400_000, 1_500_000
"""Maximum characters compared with a question: of one text, of which both ends and the search hits are read, and of all
texts, about a second's work. Less likely texts are skipped.
"""

MOST_RANKED = 60
"""Maximum number of lines considered for one answer."""

FLOOR = 0.75
"""The minimum score of a further quote, as a share of the best score."""

_RANK, _OLD, _AGAIN = 0.25, 0.15, 0.12
"""Added to a score for the first text, less for the others; subtracted for a text that is out of date, and for each
further line of a text: another version or run may be meant.
"""

_IN_NAME = 0.25
"""Weight of a word in a line if it also occurs in the name of its text: it says less about the line."""

_MOST_AROUND = 6
"""Maximum number of lines below a matching one, and above it, that are quoted with it."""

_NAMED_BY = 400
"""Characters of a call, or of a message, that count as its name."""

_LINE = re.compile(
    r"\S(?:[^\n]{0,199}(?=\n|\Z)|[^\n]{60,196}(?:[.!?;][\"')\]*_]{0,3}|[}\]],)(?=\s)|[^\n]{100,199}(?=\s)|[^\n]{1,199})"
)
"""A line, or the part of a long one up to a sentence, a record of JSON, or a word."""


@attrs.frozen(kw_only=True)
class SearchedText:
    """Characters ``span`` of an object's ``text``: a call with its results, or a message. A question may refer to it by
    ``name``. ``old``: it is out of date; ``seen``: the model already sees it. ``found`` are the spans of search hits in
    the text.
    """

    id: str
    text: str = attrs.field(repr=False)
    name: str
    span: Span
    old: bool = False
    seen: bool = False
    found: Sequence[Span] = ()


@attrs.frozen
class _Line:
    """Line ``number`` of a text's ``lines``; the words of the question in it, and in the text's name; the rank of the
    object.
    """

    of: SearchedText
    lines: Sequence[Span]
    number: int
    held: frozenset[str]
    name: frozenset[str]
    rank: int

    @property
    def text(self) -> str:
        start, end = self.lines[self.number]
        return self.of.text[start:end]


def parts_of_text(obj: MemoryObject, content: bytes) -> tuple[TextPart, ...]:
    """The text of an object, in parts; for an episode, or a claim of an older log, its stub. Raises ValueError."""
    if obj.places:
        return full_parts(content, obj.by_user)
    role = PartRole.USER if keeps_prompt(obj.tags) else PartRole.ASSISTANT
    return (TextPart(role, obj.stub.encode("utf-8", "replace").decode()),)


def list_texts(
    parts_by_id: Mapping[str, Sequence[TextPart]],
    hits: Sequence[PassageHit],
    among: Mapping[str, MemoryObject],
    seen: Callable[[str], bool] = lambda _: False,
) -> list[SearchedText]:
    """The texts to compare with a question, likeliest first, from the parts of objects by id. ``seen`` returns whether
    the model already sees an object.
    """
    return [
        SearchedText(
            id=key,
            text=text,
            name=name,
            span=span,
            old=among[key].stale,
            seen=seen(key),
            found=[(hit.passage.start, hit.passage.end) for hit in hits if hit.object == key],
        )
        for key, parts in parts_by_id.items()
        for text in [join(parts)]
        for span, name in split_parts(parts, name_of(among[key]))
    ]


def split_parts(parts: Sequence[TextPart], name: str) -> Iterator[tuple[Span, str]]:
    """The span of each message, and of each call with its results, and its name; ``name`` is the name of all."""
    starts = accumulate((len(part.text) + 1 for part in parts), initial=0)
    heads = [(start, part) for start, part in zip(starts, parts, strict=False) if part.role is not PartRole.RESULT]
    ends = [start - 1 for start, _ in heads[1:]] + [len(join(parts))]
    if len(heads) < 2:
        yield (0, ends[-1]), "\n".join((name, *(_own_name(part) for _, part in heads)))
        return
    for (start, part), end in zip(heads, ends, strict=True):
        yield (start if start != heads[0][0] else 0, end), _own_name(part)


def _own_name(part: TextPart) -> str:
    return f"{part.tool or ''}\n{part.text[:_NAMED_BY]}"


def answers(
    question: str,
    texts: Sequence[SearchedText],
    most: int,
    tokens_of: Tokens,
    least: float = LEAST_HELD,
    limit: int = MOST_QUOTES,
) -> list[tuple[Quote, int]]:
    """Return at most ``limit`` quotes that answer a question, each with its tokens, together at most ``most``; the best
    first, content that the model already sees last. ``texts`` are ordered by how likely they are to answer. A line is
    quoted only if it contains, with the name of its text, at least the share ``least`` of the question.
    """
    wanted = frozenset(query_words(question))
    ranks = {key: rank for rank, key in enumerate(dict.fromkeys(text.id for text in texts))}
    lines = [line for text in _limit(texts) for line in _compare(text, wanted, ranks[text.id])]
    if least and _names_unknown(question, lines):
        return []
    return _quote(_in_turn(_rank(question, wanted, lines, least)), most, tokens_of, limit)


def list_lines(text: SearchedText) -> Iterator[Span]:
    """The non-blank lines, long ones split; of a very long text only both ends and the search hits."""
    first, last = text.span
    spans = [text.span]
    if last - first > MOST_READ:
        spans = [(first, first + MOST_READ // 2), *sorted(text.found), (last - MOST_READ // 2, last)]
    for start, end in spans:
        for match in _LINE.finditer(text.text, max(start, first), min(end, last)):
            yield match.start(), match.start() + len(match[0].rstrip())
            first = match.end()


def _limit(texts: Sequence[SearchedText]) -> Iterator[SearchedText]:
    """The likeliest texts, up to the limit on compared characters."""
    remaining_chars = MOST_TOGETHER
    for text in texts:
        size = min(text.span[1] - text.span[0], MOST_READ)
        if size <= remaining_chars:
            remaining_chars -= size
            yield text


def _compare(text: SearchedText, wanted: frozenset[str], rank: int) -> Iterator[_Line]:
    beginnings = tuple({word[: max(1, min(4, len(word) - 1))] for word in wanted})
    name = wanted.intersection(words(text.name))
    lines = list(list_lines(text))
    for number, (start, end) in enumerate(lines):
        line = text.text[start:end]
        lowered = line.lower()
        may_hold = not line.isascii() or any(beginning in lowered for beginning in beginnings)
        held = wanted.intersection(words(line)) if may_hold else frozenset[str]()
        yield _Line(text, lines, number, held, name, rank)


def _names_unknown(question: str, lines: Sequence[_Line]) -> bool:
    """Whether a question contains a compound name (``parse_header``, ``src/pool.py``) of which neither the whole nor
    all parts occur together in any line or name.
    """
    held = {*(line.held for line in lines), *(line.name for line in lines)}
    return any(
        not any(whole in each or each.issuperset(parts) for each in held)
        for whole, parts in compounds(question).items()
    )


def _rank(question: str, wanted: frozenset[str], lines: Sequence[_Line], least: float) -> list[tuple[float, _Line]]:
    """The best lines with their scores, best first."""
    holding = Counter(word for line in lines for word in line.held)
    parts = {part for whole, parts in compounds(question).items() if holding[whole] for part in parts}
    weight = {word: 0.0 if word in parts else rarity(holding[word], len(lines)) for word in wanted}
    total = sum(weight.values()) or 1.0
    normalized = " ".join(question.split())
    scored: list[tuple[float, int, _Line]] = []
    for order, line in enumerate(lines):
        name = line.name
        if _sum(weight, name | line.held) < least * total or (line.held and _repeats(normalized, line.text)):
            continue
        own = _sum(weight, line.held - name) + _IN_NAME * _sum(weight, line.held & name) + _sum(weight, name)
        score = own / total + _RANK / (1 + line.rank) - _OLD * line.of.old
        scored.append((score, -order, line))
    return [(score, line) for score, _, line in nlargest(MOST_RANKED, scored)]


def _repeats(question: str, line: str) -> bool:
    """Whether a question contains the whole line, or the value of a call's input on it (``command: make test``)."""
    line = " ".join(line.split())
    return line in question or ((value := line.partition(": ")[2]) != "" and value in question)


def _in_turn(ranked: Sequence[tuple[float, _Line]]) -> Iterator[_Line]:
    """The lines above the floor, best first, content that the model already sees last; each further line of a text
    scores less.
    """
    floor = FLOOR * ranked[0][0] if ranked else 0.0
    candidates = [scored_line for scored_line in ranked if scored_line[0] >= floor]
    taken: Counter[str] = Counter()

    def worth(scored: tuple[float, _Line]) -> tuple[bool, float]:
        score, line = scored
        return not line.of.seen, score - _AGAIN * taken[line.of.id]

    while candidates:
        best = max(candidates, key=worth)
        candidates.remove(best)
        taken[best[1].of.id] += 1
        yield best[1]


@attrs.define
class _Excerpt:
    """Lines ``first`` to ``last`` of a text, with their tokens."""

    of: _Line
    first: int
    last: int
    tokens: int

    @property
    def span(self) -> Span:
        return self.of.lines[self.first][0], self.of.lines[self.last][1]

    @property
    def text(self) -> str:
        return self.of.of.text[slice(*self.span)]

    def widen(self, number: int, room: int, others: Iterable["_Excerpt"], tokens_of: Tokens) -> int | None:
        """Add a neighboring line, if it has at most ``room`` tokens and no other excerpt has it; return its tokens."""
        lines = self.of.lines
        if not 0 <= number < len(lines) or number not in (self.first - 1, self.last + 1):
            return None
        if any(each.of.lines is lines and each.first <= number <= each.last for each in others):
            return None
        first, last = min(self.first, number), max(self.last, number)
        more = tokens_of(self.of.of.text[lines[first][0] : lines[last][1]]) - self.tokens
        if more > room:
            return None
        self.first, self.last, self.tokens = first, last, self.tokens + more
        return more


def _quote(ranked: Iterable[_Line], most: int, tokens_of: Tokens, limit: int) -> list[tuple[Quote, int]]:
    """The quotes of the first lines that fit, none repeating another, each with the lines around it while there is
    room. Neighboring lines become one quote.
    """
    chosen: list[_Excerpt] = []
    left = most
    for line in ranked:
        if len(chosen) == limit:
            break
        if any(line.text in each.text for each in chosen):
            continue
        beside = (each.widen(line.number, left, chosen, tokens_of) for each in chosen if each.of.lines is line.lines)
        tokens = next((more for more in beside if more is not None), None)
        if tokens is None:
            tokens = tokens_of(line.text)
            if tokens > left and not chosen:
                return [_cut(line, most, tokens_of)]
            if tokens > left:
                continue
            chosen.append(_Excerpt(line, line.number, line.number, tokens))
        left -= tokens
    for number, each in enumerate(chosen):
        room = left // (len(chosen) - number)
        for _ in range(_MOST_AROUND):
            for beside_it in (each.last + 1, each.first - 1):
                more = each.widen(beside_it, room, chosen, tokens_of) or 0
                room, left = room - more, left - more
    return [(quote(each.of.of.id, each.of.of.text, *each.span), each.tokens) for each in chosen]


def _cut(line: _Line, most: int, tokens_of: Tokens) -> tuple[Quote, int]:
    """As much of the beginning of a line as there is room for."""
    start, end = line.lines[line.number]
    while tokens_of(line.of.text[start:end]) > most:
        end = start + (end - start) * 3 // 4
    return quote(line.of.id, line.of.text, start, end), tokens_of(line.of.text[start:end])


def quote(object_id: str, text: str, start: int, end: int) -> Quote:
    """The quote of these characters; its span counts UTF-8 bytes."""
    before = len(text[:start].encode())
    quoted = text[start:end]
    return Quote(object_id, before, before + len(quoted.encode()), quoted)


def _sum(weight: Mapping[str, float], some: Iterable[str]) -> float:
    return sum(weight[word] for word in some)
