"""The kept units as text again, with a mark where something was cut.

The first mark says how many lines were cut in all, ``⋯ 42 lines``, the others are ``⋯``; where lines have numbers, the
numbers say it, and only the last mark counts, what it stands for. Within a line a cut is ``⋯``, too. From one kept
line to the next there is one mark, which ends or begins a line of which a part was cut. To say of each cut how many
lines it has would take up to an eighth of the room.
"""

from collections.abc import Sequence

from mnemosyne.domain.summaries.extractive.units import MARK, TextUnit


def longest_mark(units: Sequence[TextUnit]) -> int:
    """The most characters that a cut costs, but for what the one mark that counts takes more (``COUNT``); one more than
    the mark has, which falls to what is wanted most once all is chosen.
    """
    within = 4 if any(unit.lines == 0 and unit.text is not None for unit in units) else 0
    return within + len(f"{MARK}\n") + 1


COUNT = len(" lines") + 10
"""What the mark that counts takes more than the others."""


def render(units: Sequence[TextUnit], kept: Sequence[bool], *, numbered: bool) -> str:
    """Put the kept units together."""
    out: list[str] = []
    uncounted = 0 if numbered else _count_cut(units, kept)
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
            ends = previous is not None and bool(cut) and cut[0].line == previous.line
            begins = not at_end and bool(cut) and cut[-1].line == units[index].line
            if previous and ends:
                lines -= _rest_of_line(cut, previous.line)
            beside = {units[n].line for n in (last, index) if 0 <= n < len(units)}
            gap = lines or any(_is_hidden(unit) and unit.line not in beside for unit in cut)
            counted = (lines if numbered and at_end else uncounted) if gap else 0
            if previous:
                out[-1] = out[-1].rstrip() if ends else out[-1]
                out.append(f" {MARK}\n" if ends and not (counted or begins) else "\n")
            if counted:
                out.append(f"{MARK} {counted}{_noun(counted)}\n")
                uncounted = 0
            elif gap and not (ends or begins):
                out.append(f"{MARK}\n")
            if begins and not counted:
                out.append(f"{MARK} ")
        if not at_end:
            unit = units[index]
            out.append(f"{unit.number}→{unit.text}" if unit.number else unit.text or "")
        last = index
    return "".join(out).removesuffix("\n")


def _count_cut(units: Sequence[TextUnit], kept: Sequence[bool]) -> int:
    """The lines of which nothing is shown."""
    shown = {unit.line for unit, is_kept in zip(units, kept, strict=False) if is_kept}
    return sum(unit.lines for unit in units if unit.line not in shown)


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
