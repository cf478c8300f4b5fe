"""The lines of a remembered text as answers quote them: short enough, and with what they stand under."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

import attrs

from mnemosyne.domain.text.parts import TextPart, Voice

MOST_READ = 400_000
"""Characters of one object that are looked at; of a longer one its ends, and what a search found in it."""

LONGEST_UNIT = 320
"""Characters of a line that is quoted whole; a longer one is cut into sentences, and these where they are long."""

_NAMED_BY = 400
"""Characters of a call, or of what was said, by which somebody may ask for it."""

Span = tuple[int, int]


@attrs.frozen
class Stretch:
    """Characters of a text that belong together: a call, what it was answered, or what somebody said. ``name`` is what
    a question may call it by; an answer has that of its call.
    """

    start: int
    end: int
    name: str
    voice: Voice


def stretches(parts: Sequence[TextPart], name: str) -> tuple[Stretch, ...]:
    """The stretches of an object's text that is made of these parts; ``name`` is what the object is called."""
    starts = accumulate((len(part.text) + 1 for part in parts), initial=0)
    several = sum(part.voice is not Voice.RESULT for part in parts) > 1
    found: list[Stretch] = []
    called = name
    for start, part in zip(starts, parts, strict=False):
        if part.voice is not Voice.RESULT or not found:
            own = f"{part.tool or ''}\n{part.text[:_NAMED_BY]}" if part.voice is not Voice.RESULT else ""
            called = own if several else f"{name}\n{own}"
        found.append(Stretch(start, start + len(part.text), called, part.voice))
    return tuple(found)


_INPUT = re.compile(r"^([A-Za-z_]\w{0,40}): ?(\S[^\n]*+)$", re.MULTILINE)
_SHORTEST_NAME = 6
"""Characters of a path, a command or a beginning that a question may hold by chance."""

_QUOTED = re.compile(r"“([^“”\n]{12,400})”|[\"`']([^“”\"`\n]{12,400})[\"`']")


def find_quoted(question: str) -> list[str]:
    """What a question quotes."""
    found = _QUOTED.finditer(" ".join(question.split()))
    return [(match[1] or match[2]).strip() for match in found]


def find_names(question: str, stretch: Stretch) -> list[str]:
    """What of a question only names a stretch: the inputs of its call, whole, and words that the question quotes and
    that it begins with.
    """
    asked = " ".join(question.split())
    name = " ".join(stretch.name.split())
    found = [each for each in find_quoted(question) if each in name]
    for key, value in _INPUT.findall(stretch.name):
        told = " ".join(value.split())
        found += [each for each in (f"{key} {told}", told) if _holds(asked, each)][:1]
    return found


def _holds(asked: str, name: str) -> bool:
    """Whether a question holds a name that is no part of a longer word."""
    at = asked.find(name) if len(name) >= _SHORTEST_NAME else -1
    end = at + len(name)
    return at >= 0 and not (asked[at - 1 : at].isalnum() or asked[end : end + 1].isalnum())


def says_nothing_new(question: str, line: str) -> bool:
    """Whether a question holds all of a line itself, or of the input that the line gives to a call."""
    asked, given = " ".join(question.split()), _INPUT.match(line.strip())
    said = [" ".join(each.split()) for each in (line, *((f"{given[1]} {given[2]}", given[2]) if given else ()))]
    return any(len(each) >= _SHORTEST_NAME and each in asked for each in said)


_SENTENCE = re.compile(r"[^.!?;]*[.!?;]?")
_ASKS = re.compile(r"\w[\"')\]*_]{0,4}\?$")
_LONGEST_QUESTION = 310


def without_questions(line: str) -> str:
    """What a line says beside what it asks: a question has no shape of an answer, whatever it is about."""
    if "?" not in line:
        return line
    kept = []
    for sentence in _SENTENCE.finditer(line):
        text = sentence.group()
        asks = line[sentence.end() : sentence.end() + 1].isspace() or sentence.end() == len(line)
        kept.append(text[:-_LONGEST_QUESTION] if asks and _ASKS.search(text[-_LONGEST_QUESTION:]) else text)
    return "".join(kept)


def is_given(line: str) -> bool:
    """Whether a line has the look of an input that a call was given."""
    return _INPUT.match(line) is not None


_SENTENCE = re.compile(r"(?<=[.!?;])[\"')\]*_]*\s+|(?<=[。！？])|(?<=, )")  # noqa: RUF001 - full stops of other scripts
_SPACE = re.compile(r"\s+")
_RECORD = re.compile(r"(?<=[}\]]),\s*(?=[{\[\"])|(?<=\{)\"activeForm\": \"[^\"]{0,300}\",\s*(?=\")")
"""Between records, and behind what a step of a todo list says again in other words."""


def units(text: str, found: Sequence[Span] = ()) -> Iterator[Span]:
    """The lines of a text that hold anything, long ones cut; of a very long text its ends and what was ``found``."""
    for start, end in _choose_spans(len(text), found):
        at = start
        for line in text[start:end].splitlines(keepends=True):
            stripped = line.strip()
            if stripped:
                first = at + line.index(stripped[0])
                yield from _parts(text, at if first - at < _INDENT else first, first + len(stripped))
            at += len(line)


_INDENT = 40


def _choose_spans(length: int, found: Sequence[Span]) -> Iterator[Span]:
    if length <= MOST_READ:
        yield 0, length
        return
    ends = [(0, MOST_READ // 2), *sorted(found), (length - MOST_READ // 2, length)]
    done = 0
    for start, end in ends:
        if end > done:
            yield max(start, done), end
            done = end


def _parts(text: str, start: int, end: int) -> Iterator[Span]:
    """A line, whole or in parts that are short enough: the records of JSON, sentences, or as many words."""
    if end - start > LONGEST_UNIT:
        for match in _RECORD.finditer(text, start, end):
            yield from _cut(text, start, match.end())
            start = match.end()
    yield from _cut(text, start, end)


def _cut(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > LONGEST_UNIT:
        limit = start + LONGEST_UNIT
        cuts = [match.end() for match in _SENTENCE.finditer(text, start + LONGEST_UNIT // 4, limit)]
        cuts = cuts or [match.end() for match in _SPACE.finditer(text, start + LONGEST_UNIT // 2, limit)]
        cut = cuts[-1] if cuts else limit
        yield start, cut
        start = cut
    if start < end:
        yield start, end


_HEADING = re.compile(
    r"\s{0,8}(?:\d{1,7}(?:→|\t))?#{1,6}\s{1,4}\S|\s{0,8}\*\*[^*]{1,120}\*\*:?\s{0,4}\Z|[A-Z][^.!?]{8,60}:\Z|diff --git "
)
_WRAPS = re.compile(r"</?[\w-]{1,40}>")


def is_heading(line: str) -> bool:
    """Whether a line says what those below it are about."""
    return _HEADING.match(line) is not None


def begins_file(line: str) -> bool:
    """Whether the change of a file begins with a line of a diff."""
    return line.startswith("diff --git ")


def is_near_end(text: str, end: int, stretch: Stretch) -> bool:
    """Whether no more than a line or two of a stretch stand behind a place of the text."""
    return len(_WRAPS.sub("", text[end : min(stretch.end, end + 2 * _NEAR_END)]).strip()) < _NEAR_END


_NEAR_END = 120
