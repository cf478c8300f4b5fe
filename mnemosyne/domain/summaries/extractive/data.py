"""JSON and other records: the outer keys; values are kept by their specifics, as far as they differ."""

import re
from collections.abc import Sequence

from mnemosyne.domain.summaries.extractive.facets import Facet, each, head_of, lines
from mnemosyne.domain.summaries.extractive.units import SourceLine, TextUnit

_TOP = re.compile(r"(?: {0,4}|\t)[\[{]{0,3}\"?[\w.-]{1,80}\"?\s{0,4}[:=]|\[+[\w.\"-]{1,80}\]+$")


_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|[\[\]{},]")
_LONG_LINE = 100


def by_record(source: Sequence[SourceLine]) -> list[SourceLine]:
    """The lines with JSON that stands on one of them as a line for each record: it breaks at the commas behind one and
    before one, so that the values of a record stay together.
    """
    found: list[SourceLine] = []
    for line in source:
        text = line.text or ""
        records = _break(text) if len(text) > _LONG_LINE and text.lstrip()[:1] in ("{", "[") else [line.text]
        found += [line._replace(text=each, lines=0) for each in records[:-1]]
        found.append(line._replace(text=records[-1]))
    return found


def _break(text: str) -> list[str]:
    breaks, comma, closed = [0], 0, False
    for token in _TOKEN.finditer(text):
        if token[0] in ("{", "["):
            if comma > breaks[-1]:
                breaks.append(comma)
        elif token[0] == ",":
            comma = token.end()
            if closed:
                breaks.append(comma)
        closed = token[0] in ("}", "]")
    return [text[start:end].strip() for start, end in zip(breaks, [*breaks[1:], len(text)], strict=True)]


def data(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of records."""
    heads = {number: head_of(units[number]) for number in within if units[number].text}
    top = [n for n, text in heads.items() if _TOP.match(text)]
    return [
        Facet(noun="outer key", entries=each(top), rank=0, share=0.6, told=False),
        lines("outer key", units, top, within, rank=1, share=0.5, told=False),
    ]
