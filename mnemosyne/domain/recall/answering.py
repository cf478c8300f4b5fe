"""Answers from sources: quotes of the parts that a question is about, with what belongs to them.

A source is cut only where its structure allows it: at blank lines, but not behind a colon, in a fenced block, or before
lines that are indented further. The parts are ranked by the question's words in them and by the search's rank of the
passage to which they belong, and the best are quoted while there is room. A helper model gets more of them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

import attrs

from mnemosyne.domain.helper.answer import HelperPassage, HelperQuestion
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.recall.memory_results import Quote, record_name
from mnemosyne.domain.recall.retrieval import blend, rarity
from mnemosyne.domain.recall.sources import Source, Span
from mnemosyne.domain.session.input_events import GroundedSentence
from mnemosyne.domain.text.words import compounds, query_words, words

Tokens = Callable[[str], int]

HELPER_TOKENS, AGAIN_TOKENS, NEAREST = 12_000, 24_000, 2
"""Maximum tokens of sources for a helper model, the first and the second time (ADR 129); maximum tokens of the nearest
passages, in multiples of an answer's.
"""

MOST_READ = 400_000
"""Maximum characters of one source that are compared with a question."""

PART_TOKENS = 100
"""Maximum tokens of a part; in a small answer half of the room."""

HALVED = 10
"""The rank in the search, from 0, at which a passage counts half as much as the best one."""

LENGTH = 0.2
"""Scores of parts are divided by their source's tokens to this power: a short source is mostly about one thing."""

_LINE = re.compile(
    r"[^\n]{0,199}(?=\n|\Z)|[^\n]{60,196}(?:[.!?;][\"')\]*_]{0,3}|[}\]],)(?=\s)|[^\n]{100,199}(?=\s)|[^\n]{1,199}"
)
"""A line, or the part of a long one up to a sentence, a record of JSON, or a word."""

_FENCE = re.compile(r"\s*(?:\d+[\t\u2192:]\s*)?(?:```|~~~)")


@attrs.frozen
class _Line:
    """A line of a source. ``begins``: the structure allows a cut before it; ``first``: it is the first of a span that
    may be quoted.
    """

    span: Span
    begins: bool
    first: bool


@attrs.frozen
class _Part:
    """Lines of a source that are quoted together. ``place`` counts the parts of the source; ``first`` as in
    ``_Line``.
    """

    source: Source
    place: int
    first: bool
    span: Span
    tokens: int


def quote(object_id: str, text: str, span: Span) -> Quote:
    """The quote of these characters; its span counts UTF-8 bytes."""
    before = len(text[: span[0]].encode())
    quoted = text[slice(*span)]
    return Quote(object_id, before, before + len(quoted.encode()), quoted)


def _names_unknown(question: str, sources: Sequence[Source]) -> bool:
    """Whether a question contains a compound name (``parse_header``, ``src/pool.py``) of which neither the whole nor
    all parts occur together in any line.
    """
    names = compounds(question)
    lines = (set(words(line)) for each in sources for line in each.text.splitlines()) if names else ()
    for line in lines:
        names = {whole: parts for whole, parts in names.items() if whole not in line and not line.issuperset(parts)}
        if not names:
            return False
    return bool(names)


def answer(question: str, sources: Sequence[Source], most: int, tokens_of: Tokens) -> list[tuple[Quote, int]]:
    """Quotes that answer a question, each with its tokens, together at most ``most``; empty if no source contains a
    name that the question asks about. ``sources`` are ordered by how likely they are to answer.
    """
    if _names_unknown(question, sources):
        return []
    return quote_sources(question, sources, most, tokens_of)


def question_for(
    question: str,
    sources: Sequence[Source],
    objects: Mapping[str, MemoryObject],
    tokens_of: Tokens,
    again: HelperQuestion | None = None,
) -> HelperQuestion | None:
    """The question for a helper model with these sources of ``objects``; None if there is no text. ``again`` is the
    first question, with its passages and the words to look for: if it is given, question and words found the sources,
    and its passages are left out.
    """
    words, most = question, HELPER_TOKENS
    if again is not None:
        words, most = again.searched, AGAIN_TOKENS
        sources = [_leave_out(each, again.passages) for each in sources]
    quotes = quote_sources(words, sources, most, tokens_of, fill=True)
    passages = tuple(
        HelperPassage(
            object=each.object_id, start=each.start, name=record_name(objects[each.object_id]), text=each.text
        )
        for each, _ in quotes
    )
    look_for = "" if again is None else again.look_for
    return HelperQuestion(question=question, passages=passages, look_for=look_for) if passages else None


def _leave_out(source: Source, passages: Iterable[HelperPassage]) -> Source:
    """The source without these passages of it."""
    spans, content = list(source.spans), source.text.encode()
    for each in passages:
        if each.object == source.id:
            first = len(content[: each.start].decode(errors="ignore"))
            last = first + len(each.text)
            cut = [((start, min(end, first)), (max(start, last), end)) for start, end in spans]
            spans = [(start, end) for pair in cut for start, end in pair if start < end]
    return attrs.evolve(source, spans=spans)


def quote_sentences(
    sentences: Iterable[GroundedSentence], texts: Mapping[str, str], most: int, tokens_of: Tokens
) -> list[tuple[GroundedSentence, Quote, int]]:
    """The sentences of a helper model that fit into ``most`` tokens, each with the quote of its bytes and their tokens
    together. ``texts`` are texts by object id; sentences without such a text or such bytes are dropped.
    """
    accepted: list[tuple[GroundedSentence, Quote, int]] = []
    for sentence in sentences:
        quoted = _read_span(texts.get(sentence.object, ""), sentence)
        tokens = tokens_of(f"{sentence.text}\n{quoted}")
        if quoted and tokens <= most:
            most -= tokens
            accepted.append((sentence, Quote(sentence.object, sentence.start, sentence.end, quoted), tokens))
    return accepted


def _read_span(text: str, sentence: GroundedSentence) -> str:
    """The bytes that support a sentence; empty if the text has no such span of whole characters."""
    try:
        return text.encode()[sentence.start : sentence.end].decode()
    except UnicodeError:
        return ""


def quote_sources(
    question: str, sources: Sequence[Source], most: int, tokens_of: Tokens, *, fill: bool = False
) -> list[tuple[Quote, int]]:
    """Quotes of the parts of sources that a question is about, best first, each with its tokens, together at most
    ``most``; to ``fill`` this room, other parts follow. Of equal parts only one is quoted.
    """
    largest = min(PART_TOKENS, most // 2)
    parts = [part for source in sources for part in _cut_parts(source, largest, tokens_of)]
    chosen = _choose(question, parts, most, fill)
    order = {(part.source.id, part.place): number for number, part in enumerate(chosen)}
    quotes: list[tuple[Quote, int]] = []
    for run in _join(chosen, order):
        source = run[0].source
        while run:
            span = run[0].span[0], run[-1].span[1]
            tokens = tokens_of(source.text[slice(*span)])
            if tokens <= most:
                quotes.append((quote(source.id, source.text, span), tokens))
                most -= tokens
                break
            # Text between the parts has tokens, too: leave out the worse ends.
            for _ in range(max(1, len(run) * (tokens - most) // tokens)):
                first, last = (order[source.id, part.place] for part in (run[0], run[-1]))
                run.pop(0 if first > last else -1)
    return quotes


def _join(chosen: Sequence[_Part], order: Mapping[tuple[str, int], int]) -> list[list[_Part]]:
    """Runs of neighboring parts, in order of the best part of each."""
    runs: list[list[_Part]] = []
    for part in sorted(chosen, key=lambda part: (part.source.id, part.place)):
        if not part.first and (part.source.id, part.place - 1) in order:
            runs[-1].append(part)
        else:
            runs.append([part])
    runs.sort(key=lambda run: min(order[part.source.id, part.place] for part in run))
    return runs


def _choose(question: str, parts: Sequence[_Part], most: int, fill: bool) -> list[_Part]:
    """Parts that a question is about, best first, up to ``most`` tokens; all parts if it is about none, or to ``fill``.
    A score is divided by the root of a part's tokens plus those already chosen from its source, so that several short
    parts precede a long one that is hardly better, and other sources precede more of the same one.
    """
    scores = _score(question, parts)
    chosen: dict[str, _Part] = {}
    taken: Counter[str] = Counter()

    def place(number: int) -> tuple[float, int]:
        part = parts[number]
        return -scores[number] / max(part.tokens + taken[part.source.id], 1) ** 0.5, number

    everything = fill or not any(scores)
    queue = [place(number) for number, score in enumerate(scores) if everything or score]
    heapify(queue)
    while queue:
        number = queue[0][1]
        if queue[0] < place(number):  # parts of its source were chosen since
            heapreplace(queue, place(number))
            continue
        heappop(queue)
        part = parts[number]
        text = part.source.text[slice(*part.span)]
        if part.tokens <= most and text not in chosen:
            most -= part.tokens
            taken[part.source.id] += part.tokens
            chosen[text] = part
    return [*chosen.values()]


def _score(question: str, parts: Sequence[_Part]) -> list[float]:
    """How much a question is about each part; 0 for not at all."""
    wanted = frozenset(query_words(question))
    held = [wanted.intersection(words(part.source.text[slice(*part.span)])) for part in parts]
    weight = {word: rarity(sum(word in each for each in held), len(parts)) for word in wanted}
    total = sum(weight.values()) or 1.0
    lengths: Counter[str] = Counter()
    for part in parts:
        lengths[part.source.id] += part.tokens
    return [
        blend(sum(weight[word] for word in each) / total, _value(part)) / max(lengths[part.source.id], 1) ** LENGTH
        for part, each in zip(parts, held, strict=True)
    ]


def _value(part: _Part) -> float:
    """1 for a part of the search's best passage, less for others, 0 for a part of none."""
    start, end = part.span
    ranks = [rank for rank, (first, last) in part.source.found if first < end and start < last]
    return HALVED / (HALVED + min(ranks)) if ranks else 0.0


def _cut_parts(source: Source, largest: int, tokens_of: Tokens) -> Iterator[_Part]:
    """The parts of a source: blocks of lines, small ones together, large ones cut at lines."""
    place = 0
    held: list[_Line] = []
    size = 0

    def part() -> _Part:
        return _Part(source, place, held[0].first, (held[0].span[0], held[-1].span[1]), size)

    for block in _cut_blocks(source):
        costs = [tokens_of(source.text[slice(*line.span)] + "\n") for line in block]
        fits = size < largest / 3 and size + sum(costs) <= largest
        for line, cost in zip(block, costs, strict=True):
            if held and (line.first or (line is block[0] and not fits) or size + cost > largest):
                yield part()
                place, held, size = place + 1, [], 0
            held.append(line)
            size += cost
    if held:
        yield part()


def _cut_blocks(source: Source) -> Iterator[list[_Line]]:
    """The lines of a source, in blocks that its structure separates."""
    block: list[_Line] = []
    for line in _cut_lines(source):
        if block and (line.begins or line.first):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _cut_lines(source: Source) -> Iterator[_Line]:
    """The nonblank lines that may be quoted, long ones split."""
    left = MOST_READ
    for first, last in source.spans:
        begins, fenced, before = True, False, ""
        for number, match in enumerate(_LINE.finditer(source.text, first, min(last, first + left))):
            line = match[0].rstrip()
            if not line:
                is_blank = source.text[match.start() - 1 : match.start()] == "\n"  # otherwise the end of a line
                begins = begins or (is_blank and not fenced and not before.endswith(":"))
                continue
            deeper = _indent(line) > _indent(before) if before else False
            yield _Line((match.start(), match.start() + len(line)), begins and not deeper, number == 0 or not before)
            fenced ^= _FENCE.match(line) is not None
            begins, before = False, line
        left -= min(left, last - first)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
