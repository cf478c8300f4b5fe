"""Questions about files and the text of programs: where something is defined, its signature, a setting's value."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.judge.answers import Pair, exactly, in_words
from benchmarks.judge.sources import Source

_NUMBERED = re.compile(r"^\s*(\d+)(?:→|\t|:)(.*)$")
_DEFINITION = re.compile(
    r"^\s{0,4}(?:export\s+|default\s+|pub\s+|async\s+|static\s+)*"
    r"(?:func(?:\s*\([^)]*\))?|def|class|type|fn|struct|interface|function)\s+([A-Za-z_]\w{3,})"
)
_PARAMETERS = re.compile(r"\(([^()]*)\)")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w+")
_SETTING = re.compile(
    r"^(?:\t|\s{0,4})(?:export\s+|const\s+|var\s+|let\s+|static\s+)*[\"']?([A-Za-z_][\w.-]{3,})[\"']?"
    r"\s*(?::=|=|:)\s*(?:[\"']([^\"']{2,60})[\"']|(-?\d[\d._]+))\s*[,;]?\s*(?:(?://|#).*)?$"
)
_HEADING = re.compile(r"^#{1,4}\s+(\S.{5,70}?)\s*#*$")
_FEWEST_PARAMETERS = 2


def pairs(source: Source) -> Iterator[Pair]:
    """What can be asked about a file that was read or written."""
    if source.speaker != "tool" or source.pattern:
        return
    read = [match for match in map(_NUMBERED.match, source.lines) if match]
    for match in read:
        yield from _defined_at(source, match[1], match[2])
    written = source.given.get("content")
    plain = written.split("\n") if isinstance(written, str) else source.lines
    code = [match[2] for match in read] or plain
    for line in code:
        yield from _signature(source, line)
    yield from _settings(source, code)
    if source.path.endswith((".md", ".rst")):
        yield from _sections(source)


def _defined_at(source: Source, number: str, line: str) -> Iterator[Pair]:
    match = _DEFINITION.match(line)
    if match:
        yield Pair("defined-at", source.name, f"which line defines {match[1]}?", (exactly(match[1], number),))


def _signature(source: Source, line: str) -> Iterator[Pair]:
    match = _DEFINITION.match(line)
    given = _PARAMETERS.search(line, match.end()) if match else None
    if match is None or given is None:
        return
    names = list(dict.fromkeys(_IDENTIFIER.findall(given[1])))
    if len(names) >= _FEWEST_PARAMETERS:
        yield Pair("signature", source.name, f"what does {match[1]} take?", (exactly(match[1], *names),))


def _settings(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    """Only names that are set once, because others are ambiguous."""
    found = [match for line in lines if (match := _SETTING.match(line))]
    times = Counter(match[1] for match in found)
    for match in found:
        value = (match[2] or match[3]).strip()
        if times[match[1]] == 1 and value:
            yield Pair("value-of", source.name, f"what is the value of {match[1]}?", (exactly(match[1], value),))


def _sections(source: Source) -> Iterator[Pair]:
    """The first sentence below a heading."""
    lines = [match[2] if (match := _NUMBERED.match(line)) else line for line in source.lines]
    for heading, blank, first in zip(lines, lines[1:], lines[2:], strict=False):
        match = _HEADING.match(heading)
        answer = (
            in_words(first[:200].partition(". ")[0]) if match and not blank.strip() and first[:1].isalpha() else None
        )
        if match and answer:
            yield Pair("section", source.name, f"what does the section {match[1]} say first?", (answer,))
