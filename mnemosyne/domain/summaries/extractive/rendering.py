"""The kept units as text again, with a mark where something was cut.

The first mark says what is counted, ``⋯ 42 lines``, later ones only how many, ``⋯ 7``; where lines have numbers, the
numbers say it, and the mark is ``⋯`` until the last. Within a line a cut is ``⋯``, too.
"""

from collections.abc import Sequence

from mnemosyne.domain.summaries.extractive.units import MARK, TextUnit


def longest_mark(units: Sequence[TextUnit], *, numbered: bool) -> int:
    """The most characters that a cut costs, but for the words that one mark of the text has (``WORDS``)."""
    within = 4 if any(unit.lines == 0 and unit.text is not None for unit in units) else 0
    return within + (3 if numbered else len(f"{MARK} {_lines(units)}\n"))


WORDS = len(" lines") + 10
"""What the one mark with words takes more than the others, its number included."""


def render(units: Sequence[TextUnit], kept: Sequence[bool], *, numbered: bool) -> str:
    """Put the kept units together."""
    out: list[str] = []
    told = False
    last = -1
    for index in [*(i for i in range(len(units)) if kept[i]), len(units)]:
        at_end = index == len(units)
        cut = units[last + 1 : index]
        previous = units[last] if last >= 0 else None
        if previous and not at_end and units[index].line == previous.line:
            if cut:
                out[-1] = out[-1].rstrip()
                out.append(f" {MARK} ")
        else:
            lines = _lines(cut)
            if cut and previous and cut[0].line == previous.line:
                out[-1] = out[-1].rstrip()
                out.append(f" {MARK}")
                lines -= _rest_of_line(cut, previous.line)
            if previous:
                out.append("\n")
            beside = {units[n].line for n in (last, index) if 0 <= n < len(units)}
            if lines or any(_is_hidden(unit) and unit.line not in beside for unit in cut):
                bare = not lines or (numbered and not at_end)
                out.append(f"{MARK}\n" if bare else f"{MARK} {lines}{'' if told else _noun(lines)}\n")
                told = told or not bare
            if not at_end and cut and cut[-1].line == units[index].line:
                out.append(f"{MARK} ")
        if not at_end:
            unit = units[index]
            out.append(f"{unit.number}→{unit.text}" if unit.number else unit.text or "")
        last = index
    return "".join(out).removesuffix("\n")


def _is_hidden(unit: TextUnit) -> bool:
    """Whether a unit that ends no line of the source leaves a gap: an earlier cut, or a part of a broken line."""
    return unit.text is None or (unit.lines == 0 and not unit.heading)


def _rest_of_line(cut: Sequence[TextUnit], line: int) -> int:
    """The lines that the cut rest of one line counts for: it is marked in that line."""
    return sum(unit.lines for unit in cut if unit.line == line)


def _lines(units: Sequence[TextUnit]) -> int:
    return sum(unit.lines for unit in units)


def _noun(lines: int) -> str:
    return " line" if lines == 1 else " lines"
