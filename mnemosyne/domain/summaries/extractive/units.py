"""Split a text into units that are kept or cut as a whole: lines, sentences, pieces of long lines.

A unit's weight comes from structure (indentation, position, headings, numbering, tables), not from words.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from mnemosyne.domain.text import entities
from mnemosyne.domain.text.parts import ROLE_LABELS, PartRole, TextPart
from mnemosyne.domain.wire import client_texts

MARK = "⋯"

_SHORTEST_CUT_LINE, _LONGEST_PIECE = 100, 240
_SHORTEST_PROSE = 60
_LONGEST_ROW = 260
_FEWEST_ROWS = 3
_DEEPEST = 6
_HEAD = 240
"""Characters of a line that determine its kind."""

_REMINDER_END = "</system-reminder>"

_NUMBERED = re.compile(r" {0,8}(\d{1,7})[→\t](.*)\Z", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!^\d\.)(?<!^\d\d\.)\s+(?=[A-Z\"'(`*\[])|(?<=[\u3002\uff01\uff1f])")
_DELIMITERS = r"\s,;{})\]>|"
_RECORD = re.compile(r'(?=\{")')
_HEADING = re.compile(r"#{1,5} \S|\*\*[^*]{2,80}\*\*")
_ITEM = re.compile(r"\s{0,6}(?:#{1,4} )?(?:\*\*)?(?:\w{1,20} )?\d{1,4}[.:)] ?")
_SETTING = re.compile(
    r"\s{0,4}(?:\w{1,40}\s{1,4}){0,2}[\"']?[A-Za-z_][\w.-]{2,60}[\"']?\s{0,4}(?::=|=|:)\s{0,4}"
    r"(?:[\"'][^\"']{1,80}[\"']|-?\d[\d._]*)[,;]?\s*(?:(?://|#).*)?\Z"
)
_HIT = re.compile(r"([\w./~@+-]{1,300}\.\w{1,12}:)(\d{1,7}:)(?=.)")
"""A line of a search result: path, number, text."""

_REPORT = re.compile(r"\s{0,12}[\w./~+-]{1,300}\.\w{1,12}:\d{1,7}(?::\d{1,7})?: \S")
"""A message about a place in a file, as compilers, linters and test runners print it."""

_DIFF_FILE = "diff --git "
_HUNK = re.compile(r"@@ -\d")

_NAME = r"([\w./:@\[\]-]{4,200})(?=\s|\Z)(.{0,40})\Z"
_ROWS = (
    re.compile(r"(\s{0,40})" + _NAME),
    re.compile(r"(\s{0,40}[^\s/]{1,20}[ \t]{1,40})" + _NAME),
    re.compile(r"(\s{0,40}[^\s/]{1,20}[ \t]{1,40}[^\s/]{1,20}[ \t]{1,40})" + _NAME),
)
_VARIES = re.compile(r"[\d.]+|[+-]+|\s+")
_DIGITS = re.compile(r"\d+")

_LAST, _LAST_LINES = 1.5, 4.2
_FIRST_BONUS, _LAST_BONUS = 0.7, 1.0
_BLOCK, _CONTINUES_CALL, _BELOW_HEADING_BONUS, _SETS, _PER_DEPTH = 2.5, 0.14, 3.0, 1.5, 0.5
_RECORD_HEAD, _HIT_BONUS, _REPORT_BONUS = 3.0, 2.5, 2.0
_ADDED, _FIRST_ADDED_BONUS, _UNCHANGED, _DIFF_FILE_BONUS, _SHORTEST_ADDED = 1.5, 4.0, 0.3, 3.0, 20
_NUMBERED_ITEM, _ITEM_BONUS = 2.0, 3.0
_FENCED, _LATE, _LAST_SAID, _LAST_LINES_SAID = 0.03, 2.0, 1.0, 8.0
_SHORT, _SHORTEST_SAID, _LEADS = 0.3, 40, 0.6
_QUESTION, _QUESTION_BONUS, _SHORTEST_QUESTION, _PROMPT_BONUS = 2.5, 1.0, 20, 5.0
"""Factors of a unit's weight and additions to its bonus, tuned by ``python -m benchmarks short_forms``."""


class TextUnit(NamedTuple):
    """A piece of line number ``line``. ``call`` is the number of its call, 0 for messages.

    The value of a unit is its new information plus ``bonus``, times ``weight``. The name of a speaker has weight 0 and
    is kept with each unit whose ``label`` is its index. ``head`` is the first word of a line without its digits.
    A row of a table begins with a unit that has a ``lead`` shared with other rows, and its own ``name``.
    """

    text: str
    line: int
    call: int
    weight: float = 0.0
    bonus: float = 0.0
    label: int = -1
    head: str = ""
    lead: str | None = None
    name: str = ""


class _Row(NamedTuple):
    lead: str
    name: str
    rest: str
    hit: bool


def units_of(parts: Sequence[TextPart], target_chars: int) -> list[TextUnit]:
    """Split the text of the parts into units for a rendition of ``target_chars`` characters."""
    longest = max(_SHORTEST_CUT_LINE, min(_LONGEST_PIECE, target_chars // 4))
    names_speakers = len({part.role for part in parts} & ROLE_LABELS.keys()) > 1
    found: list[TextUnit] = []
    line = call = 0
    asked = False
    for part in parts:
        said = part.role in ROLE_LABELS
        if part.role is PartRole.CALL or (part.role is PartRole.RESULT and not asked):
            call += 1
        asked = part.role is PartRole.CALL or (said and asked)
        label = -1
        if said and names_speakers:
            label = len(found)
            found.append(TextUnit(ROLE_LABELS[part.role], line, 0))
            line += 1
        lines = _lines_of(part.text)
        found += _units_of_part(part.role, lines, longest, TextUnit("", line, 0 if said else call, label=label))
        line += len(lines)
    return found


def _lines_of(text: str) -> list[str]:
    """Return the lines without trailing blanks, colours, and the reminder that Claude Code appends to a result."""
    text = entities.without_colours(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.rstrip().endswith(_REMINDER_END):
        start = text.rfind("\n<system-reminder>")
        text = text[:start].rstrip() if start >= 0 else text
    return [line.rstrip() for line in text.removesuffix("\n").split("\n")]


def _units_of_part(role: PartRole, lines: Sequence[str], longest: int, base: TextUnit) -> Iterator[TextUnit]:
    """Yield the units of one part; ``base`` has the part's first line, its call and its label."""
    numbers = [_NUMBERED.match(line) for line in lines]
    if sum(map(bool, numbers)) * 2 < sum(map(bool, lines)):
        numbers = [None] * len(lines)
    bodies = [match[2] if match else line for match, line in zip(numbers, lines, strict=True)]
    full = [n for n, body in enumerate(bodies) if body.strip() and not client_texts.wraps_answer(body)]
    rows = _rows({n: bodies[n] for n in full if not numbers[n]}) if role is PartRole.RESULT else {}
    said = role in ROLE_LABELS
    texts = [bodies[n] for n in full]
    values = _values_of_message(role, texts) if said else _values_of_output(role, texts)
    for n, (weight, bonus) in zip(full, values, strict=True):
        number, row = numbers[n], rows.get(n)
        shown = f"{number[1]}→{bodies[n]}" if number else lines[n]
        pieces = _pieces_of_row(row, longest) if row else _pieces(shown, longest, prose=said or len(shown) > longest)
        if row and row.hit:
            bonus += _HIT_BONUS
        head = _DIGITS.sub("0", bodies[n].split(None, 1)[0][:_HEAD])
        first = base._replace(line=base.line + n, head=head, weight=weight, bonus=bonus)
        if row:
            first = first._replace(lead=row.lead, name=row.name)
        rest = base._replace(line=base.line + n, weight=weight)
        found = [(rest if j else first)._replace(text=piece) for j, piece in enumerate(pieces)]
        if n == full[-1]:
            found[-1] = found[-1]._replace(bonus=found[-1].bonus + _LAST_BONUS)
        yield from map(partial(_value_sentence, role) if said else _value_record, found)


def _values_of_output(role: PartRole, lines: Sequence[str]) -> Iterator[tuple[float, float]]:
    """Yield the weight and the bonus of each line of a call or its result."""
    depths = [_depth(line) for line in lines]
    step = max(1, min(filter(None, depths), default=4))
    in_diff = role is PartRole.RESULT and any(map(_HUNK.match, lines))
    file_has_addition = True
    for k, line in enumerate(lines):
        weight = (_SETS if _SETTING.match(line[:_HEAD]) else 1) / (1 + _PER_DEPTH * min(depths[k] // step, _DEEPEST))
        weight *= 1 + _LAST / (1 + (len(lines) - 1 - k) / _LAST_LINES)
        bonus = 0.0 if k else _FIRST_BONUS
        if k + 1 < len(lines) and depths[k + 1] > depths[k]:
            weight *= _BLOCK
        if k and role is PartRole.CALL:
            weight *= _CONTINUES_CALL
        if k and line.lstrip()[0].isalpha() and _HEADING.match(lines[k - 1].strip()):
            bonus += _BELOW_HEADING_BONUS
        if _ITEM.match(line):
            weight, bonus = weight * _NUMBERED_ITEM, bonus + _ITEM_BONUS
        if _REPORT.match(line):
            weight, bonus = max(weight, 1.0), bonus + _REPORT_BONUS
        if in_diff and line.startswith(_DIFF_FILE):
            file_has_addition = False
            bonus += _DIFF_FILE_BONUS
        elif in_diff and line.startswith((" ", "@", "+++", "---")):
            weight *= _UNCHANGED
        elif in_diff and line.startswith("+"):
            weight *= _ADDED
            if not file_has_addition and len(line) > _SHORTEST_ADDED:
                file_has_addition = True
                bonus += _FIRST_ADDED_BONUS
        yield weight, bonus


def _values_of_message(role: PartRole, lines: Sequence[str]) -> Iterator[tuple[float, float]]:
    """Yield the weight and the bonus of each line of a message; the last lines weigh most."""
    fenced = False
    for k, line in enumerate(lines):
        fenced ^= line.lstrip().startswith("```")
        weight = (1 + _LATE * (k + 1) / len(lines)) * (_FENCED if fenced else 1)
        weight *= 1 + _LAST_SAID / (1 + (len(lines) - 1 - k) / _LAST_LINES_SAID)
        bonus = 0.0 if k else _FIRST_BONUS + (_PROMPT_BONUS if role is PartRole.USER else 0)
        if _ITEM.match(line):
            weight, bonus = weight * _NUMBERED_ITEM, bonus + _ITEM_BONUS
        elif k and not fenced and line[0].isalpha() and _HEADING.match(lines[k - 1].strip()):
            bonus += _BELOW_HEADING_BONUS
        yield weight, bonus


def _value_sentence(role: PartRole, unit: TextUnit) -> TextUnit:
    """Lower the weight of short sentences and those that introduce a list; raise it for a user's questions."""
    size, end = len(unit.text), unit.text.rstrip()[-1:]
    if size < _SHORTEST_SAID and not _ITEM.match(unit.text):
        unit = unit._replace(weight=unit.weight * _SHORT)
    if end == ":":
        return unit._replace(weight=unit.weight * _LEADS)
    if role is PartRole.USER and end == "?" and size >= _SHORTEST_QUESTION:
        return unit._replace(weight=unit.weight * _QUESTION, bonus=unit.bonus + _QUESTION_BONUS)
    return unit


def _value_record(unit: TextUnit) -> TextUnit:
    """Raise the weight of the beginning of a JSON record, which names the record."""
    return unit._replace(weight=unit.weight * _RECORD_HEAD) if unit.text.startswith('{"') else unit


def _depth(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip())].expandtabs(4))


def _rows(bodies: dict[int, str]) -> dict[int, _Row]:
    """Return the lines that are rows of a table: search hits, and lines of a form that at least three share."""
    rows: dict[int, _Row] = {}
    found: dict[int, _Row] = {}
    for n, body in bodies.items():
        if _REPORT.match(body):
            continue
        hit = _HIT.match(body)
        if hit:
            rows[n] = _Row(hit[1], hit[2][:-1], body[hit.end() :].lstrip(), hit=True)
        elif len(body) < _LONGEST_ROW and (row := _row_of(body)):
            found[n] = row
    shapes = Counter((row.lead, _VARIES.sub("#", row.rest)) for row in found.values())
    return rows | {n: row for n, row in found.items() if shapes[row.lead, _VARIES.sub("#", row.rest)] >= _FEWEST_ROWS}


def _row_of(body: str) -> _Row | None:
    for words, pattern in enumerate(_ROWS):
        match = pattern.match(body)
        if match and ("/" in match[2] or words) and entities.of_token(match[2]) and not match[2][0].isdigit():
            return _Row(match[1], match[2], match[3], hit=False)
    return None


def _pieces_of_row(row: _Row, longest: int) -> list[str]:
    rest = _pieces(row.rest, longest, prose=len(row.rest) > longest) if row.rest else []
    return [row.lead + row.name + (":" if row.hit else ""), *rest]


def _pieces(text: str, longest: int, *, prose: bool) -> list[str]:
    """Split a line into sentences; split longer ones before a record or after a delimiter."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)] if prose and len(text) > _SHORTEST_PROSE else []
    room = _LONGEST_PIECE if prose else longest
    cut = re.compile(rf".{{0,{room}}}(?:[{_DELIMITERS}]\s{{0,4}}|\Z)|[^{_DELIMITERS}]{{1,{room}}}", re.DOTALL)
    found: list[str] = []
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        sentence = text[start:end]
        for record in _RECORD.split(sentence) if len(sentence) > room else [sentence]:
            found += [piece for piece in cut.findall(record) if piece] if len(record) > room else [record]
    return [piece for piece in found if piece]
