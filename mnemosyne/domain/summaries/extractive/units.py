"""A text as units that are kept or cut as a whole: lines; of long lines, pieces; of prose, sentences."""

import re
from collections.abc import Sequence
from itertools import chain, groupby
from typing import NamedTuple

_LONGEST_LINE = 240
_SHORTEST_CUT_LINE = 100
_SHORTEST_PIECE = 24
_MOST_BLANK = 8
"""Blank lines in a row that are units of their own; more of them say nothing, and a million are a text, too."""

MARK = "⋯"

_REMINDER_END = "</system-reminder>"
_WRAPPING = re.compile(
    r"<returncode>0</returncode>\Z|</?output(?:_head|_tail)?>\Z|agentId: |</?usage>\Z|<usage>total_tokens: |"
    r"tool_uses: \d|Todos have been modified successfully\.|File created successfully at: |"
    r"duration_ms: \d|REMINDER: You MUST|Shell cwd was reset to |\[Tool: |Web search results for query: |"
    r"\(Open file: [^)]{0,300}\)\Z|\(Current directory: [^)]{0,300}\)\Z|bash-\$\Z|"
    r"<(?!tool_use_error|error)/?[\w-]{1,40}>[^<]{0,80}(?:</[\w-]{1,40}>)?\Z"
)
"""What clients put around an answer, which nobody asks for."""

_MARK_LINE = re.compile(rf"\s*{MARK}(?: (\d{{1,9}})(?: lines?)?)?\Z")
_NUMBERED = re.compile(r" {0,8}(\d{1,7})(?:[→\t](.*)|)\Z", re.DOTALL)
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!^\d\.)(?<!^\d\d\.)(?<![*#] \d\.)(?<!\*\d\.)(?<!\*\d\d\.)"
    r"(?<!\si\.e\.)(?<!\se\.g\.)(?<!\(e\.g\.)(?<!\(i\.e\.)(?<!\svs\.)(?<!\setc\.)\s+"
    r"(?=[A-Z\"'(`*\[])|(?<=[\u3002\uff01\uff1f])"
)
"""Behind the end of a sentence: no number of a list, no abbreviation."""

_DELIMITERS = r"\s,;{})\]>|"


class SourceLine(NamedTuple):
    """A line before it is cut. ``text`` is None for what an earlier rendition had cut, for many blank lines in a row
    and for what a client puts around an answer; ``lines`` is how many of the source it stands for, 0 where it repeats
    what others begin with. ``number`` is the reader's (``cat -n``). A ``heading`` says what the lines below it are of.
    """

    text: str | None
    lines: int
    number: str
    heading: bool = False


class TextUnit(NamedTuple):
    """``text`` is None as in ``SourceLine``. ``line`` counts the text's lines from 0, ``lines`` how many of the source
    the unit ends: 0 for all but the last piece of a line.
    """

    text: str | None
    line: int
    lines: int
    number: str
    heading: bool = False


def lines_of(text: str) -> list[str]:
    """The lines, however they end, without blanks at their ends."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return [line.rstrip() for line in text.removesuffix("\n").split("\n")]


def without_reminder(text: str) -> str:
    """The text without the reminder to the model that Claude Code 2.1.329 puts behind what a tool returned: torn out
    of its place, an order in it would be one about anything.
    """
    if not text.rstrip().endswith(_REMINDER_END):
        return text
    start = text.rfind("\n<system-reminder>")
    return text[:start].rstrip() if start >= 0 else text


def is_numbered(lines: Sequence[str]) -> bool:
    """Whether the lines carry a reader's numbers, as ``cat -n`` gives them; a column of numbers alone is text."""
    some = [line for line in lines[:60] if line]
    found = [_NUMBERED.match(line) for line in some]
    marked = sum(match is not None or line == MARK for match, line in zip(found, some, strict=True))
    return marked > len(some) * 0.6 and any(match and match[2] for match in found)


def units_of(lines: Sequence[SourceLine], target_chars: int, *, first: int, sentences: bool) -> list[TextUnit]:
    """Cut the lines, which count from ``first``, into units: a line of more than a quarter of the target, and at least
    100 characters, into pieces of two thirds of that, longer only where a single token is,
    up to 240. Where the role of the text
    has ``sentences``, they are told apart, and may have three quarters of the target.
    """
    share = target_chars * 3 // 4 if sentences else target_chars // 4
    longest = min(_LONGEST_LINE, max(_SHORTEST_CUT_LINE, share))
    piece = re.compile(
        rf".{{0,{longest * 2 // 3}}}[{_DELIMITERS}]\s{{0,4}}|[^{_DELIMITERS}]{{1,{_LONGEST_LINE}}}", re.DOTALL
    )
    counted = enumerate(lines, first)
    return list(chain.from_iterable(_units_of_line(index, line, longest, piece, sentences) for index, line in counted))


def source_lines(lines: Sequence[str], *, numbered: bool) -> list[SourceLine]:
    """The lines with what each stands for. A numbered line behind a mark stands for those that were cut before it;
    where numbers leap without one, another part of the file begins, and nothing of the text is missing.
    """
    found: list[SourceLine] = []
    last = None
    marked = False
    for filled, run in groupby(lines, bool):
        if not filled:
            found += _blank(len(list(run)))
            continue
        for line in run:
            match = _NUMBERED.match(line) if numbered else None
            if match:
                number = int(match[1])
                missing = number - last if marked and last is not None else 1
                found.append(SourceLine(match[2] or "", max(1, missing), match[1]))
                last, marked = number, False
            elif line[:1] in (MARK, " ") and (mark := _MARK_LINE.match(line)):
                found.append(SourceLine(None, int(mark[1] or 0), ""))
                marked = True
            elif _WRAPPING.match(line):
                found.append(SourceLine(None, 1, ""))
            else:
                found.append(SourceLine(line, 1, ""))
    return found


def end_of_path(path: str, room: int) -> str:
    """A path that is longer than its room by its last parts, behind a mark: the name at least."""
    if len(path) <= room:
        return path
    cut = path.find("/", max(0, len(path) - room))
    return MARK + path[cut if cut >= 0 else max(0, path.rfind("/")) :]


def find_root(paths: Sequence[str]) -> str:
    """The folder above the one that all paths are in, with its slash; empty where there is none."""
    if len(paths) < 2:
        return ""
    first, last = min(paths), max(paths)
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[: first[:same].rpartition("/")[0].rfind("/") + 1]


def number_lines(lines: Sequence[SourceLine], start: int) -> list[SourceLine]:
    """The lines of a file from line ``start`` on, with their numbers."""
    found: list[SourceLine] = []
    for line in lines:
        found.append(line._replace(number=str(start)) if line.text else line)
        start += line.lines if line.text is not None or line.lines > _MOST_BLANK else 0
    return found


def _blank(count: int) -> list[SourceLine]:
    return [SourceLine("", 1, "")] * count if count <= _MOST_BLANK else [SourceLine(None, count, "")]


def _units_of_line(
    index: int, line: SourceLine, longest: int, piece: re.Pattern[str], sentences: bool
) -> list[TextUnit]:
    text, lines, number, heading = line
    if text is None or heading or (len(text) <= longest and not sentences):
        return [TextUnit(text, index, lines, number, heading)]
    pieces = _pieces(text, longest, piece, sentences)
    return [
        *(TextUnit(piece, index, 0, number if i == 0 else "") for i, piece in enumerate(pieces[:-1])),
        TextUnit(pieces[-1], index, lines, number if len(pieces) == 1 else ""),
    ]


def _pieces(text: str, longest: int, piece: re.Pattern[str], sentences: bool) -> list[str]:
    parts = [text]
    if sentences and len(text) > 80:
        cuts = [match.end() for match in _SENTENCE.finditer(text)]
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    pieces = [each for part in parts for each in (piece.findall(part) if len(part) > longest else [part])]
    pieces = [each for each in pieces if each] or [text]
    if len(pieces) > 1 and len(pieces[-1]) < _SHORTEST_PIECE:  # a lone name says nothing
        pieces[-2:] = ["".join(pieces[-2:])]
    return pieces
