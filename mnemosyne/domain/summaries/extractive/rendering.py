"""Render the kept units as text, with a mark for each cut.

The first mark on its own line has the number of omitted lines, ``⋯ 42 lines``; the others are ``⋯``. Rows of a table
that are cut to their names share a line: ``src/a.py:40 42 220 ⋯``.
"""

from collections.abc import Sequence

from mnemosyne.domain.summaries.extractive.selecting import find_shared, folder
from mnemosyne.domain.summaries.extractive.units import MARK, TextUnit

COUNT = len(" 12345 lines")
_LONGEST_ROWS = 200


def lines_cut(units: Sequence[TextUnit], kept: Sequence[bool]) -> int:
    """Count the lines of which no unit is kept."""
    shown = {unit.line for unit, is_kept in zip(units, kept, strict=False) if is_kept}
    return len({unit.line for unit in units} - shown)


def render(units: Sequence[TextUnit], kept: Sequence[bool]) -> str:
    """Return the text of the kept units."""
    out: list[str] = []
    count = lines_cut(units, kept)
    last, before, room, cut_row = -1, "", 0, False
    for index in [n for n in range(len(units)) if kept[n]]:
        unit = units[index]
        previous = units[last] if last >= 0 else None
        if previous and previous.line == unit.line:
            out.append(unit.text if last == index - 1 else f" {MARK} {unit.text}")
            last = index
            continue
        alone = unit.lead is not None and not (_has_rest(units, index) and kept[index + 1])
        if alone and previous and previous.lead == unit.lead and room > len(unit.name):
            repeated = folder(previous.name, unit.name)
            name = f" {MARK}{unit.name[repeated:]}" if repeated else f" {unit.name}"
            out.append(name)
            room -= len(name)
            cut_row = cut_row or _has_rest(units, index)
            last = index
            continue
        if previous:
            gap = last != index - 1
            if cut_row or (gap and units[last + 1].line == previous.line):
                out.append(f" {MARK}\n")
            elif gap:
                out.append(f"\n{MARK}{_count_text(count)}\n")
                count = 0
            else:
                out.append("\n")
        elif index:
            out.append(f"{MARK}{_count_text(count)}\n")
            count = 0
        start, end = _find_repeated(before, unit, alone=alone) if previous else (0, 0)
        text = unit.text[:start] + MARK + unit.text[end:] if end else unit.text
        out.append(text.removesuffix(":") if alone else text)
        room, cut_row = (_LONGEST_ROWS - len(text), _has_rest(units, index)) if alone else (0, False)
        before, last = unit.text if unit.weight else "", index
    if last != len(units) - 1:
        ends_line = last >= 0 and units[last + 1].line == units[last].line
        out.append(f" {MARK}" if ends_line else f"\n{MARK}{_count_text(count)}")
    return "".join(out)


def _find_repeated(before: str, unit: TextUnit, *, alone: bool) -> tuple[int, int]:
    """Return the range of a unit's text that repeats the line before. A file name before line numbers stays."""
    if not alone and unit.lead and unit.text.endswith(":") and before.startswith(unit.lead):
        return 0, len(unit.lead)
    return find_shared(before, unit.text)


def _has_rest(units: Sequence[TextUnit], index: int) -> bool:
    return index + 1 < len(units) and units[index + 1].line == units[index].line


def _count_text(lines: int) -> str:
    return f" {lines} line{'' if lines == 1 else 's'}" if lines else ""
