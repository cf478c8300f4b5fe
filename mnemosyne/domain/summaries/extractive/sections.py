"""A text in sections, each with the role that it has: of a call what it asked, carried and was answered."""

import re
from collections.abc import Sequence

import attrs

from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.summaries.extractive.asking import Asked, find_asked, shorten
from mnemosyne.domain.summaries.extractive.data import by_record
from mnemosyne.domain.summaries.extractive.failures import by_module, by_outcome
from mnemosyne.domain.summaries.extractive.listings import by_file, by_name, by_page, by_root, by_stat, is_placed
from mnemosyne.domain.summaries.extractive.plans import by_answer, by_step
from mnemosyne.domain.summaries.extractive.roles import TextRole, role_of
from mnemosyne.domain.summaries.extractive.units import (
    MARK,
    SourceLine,
    TextUnit,
    is_numbered,
    lines_of,
    number_lines,
    source_lines,
    units_of,
    without_reminder,
)
from mnemosyne.domain.summaries.renditions import RenditionRequest
from mnemosyne.domain.text.entities import without_colours
from mnemosyne.domain.text.parts import ROLE_LABELS, PartRole, TextPart

_SHOWS_LINES = re.compile(r"(?:cd \S{1,300} && )?(?:cat (?![<|>])|sed -n '?(\d{1,7})(?:,\d{1,7})?p'? )\S{1,400}$")
_GOES_TO = re.compile(r"command: (cd [^\s;&|]{1,400} && )")
_BEGINS_CALL = re.compile(
    r"(?:command|pattern|file_path|query|url|taskId|subject|user_id|todos|prompt|subagent_type|plan|skill|"
    r"replace_all): ?\S"
)


_RECORDS = frozenset({TextRole.DATA, TextRole.LOG})
"""Roles of texts that hold records, one on a line."""

_RUNS = frozenset({TextRole.TEST_RUN, TextRole.FAILURE})
"""Roles of what commands print that tell of packages."""

_SHORTEST_PATH = 32
"""Characters of a path that always stay, its name besides."""

_SHORTEST_HEADING = 22
"""The same of a path above the hits in its file: more files are told where each takes less."""


SAID = 0
"""The number of what was said, which no call answered."""


@attrs.frozen(kw_only=True)
class Section:
    """Units that have one role. ``call`` is the number, from 1, of the call that they are of, ``asked`` what it asked,
    ``asks`` that they are that call itself; ``part_role`` is the role of the part.
    """

    within: range
    role: TextRole
    part_role: PartRole
    call: int
    asks: bool = False
    asked: Asked | None = None
    first_line: int = 0

    @property
    def about(self) -> str:
        """What the call was about, empty where there was none."""
        return self.asked.about if self.asked else ""


class Sections:
    """The sections of a text and their ``units``, in order. ``labels`` gives units the one that says who speaks, where
    several do.
    """

    def __init__(self, request: RenditionRequest) -> None:
        self.units: list[TextUnit] = []
        self.found: list[Section] = []
        self.labels: dict[int, int] = {}
        self._request = request
        self._line = 0
        self._calls = SAID
        self._lead = ""
        self._told: set[str] = set()
        self._room_of_path = max(_SHORTEST_PATH, request.target_chars // 8)
        parts = request.parts or _guess(request)
        self._several_speak = len({part.role for part in parts} & ROLE_LABELS.keys()) > 1
        asked: Asked | None = None
        for part in parts:
            text = without_colours(part.text)
            lines = lines_of(without_reminder(text)) if text else []
            self._calls += part.role is PartRole.CALL or (part.role is PartRole.RESULT and asked is None)
            if part.role is PartRole.CALL:
                asked = self._call(part, lines)
            elif part.role is PartRole.RESULT:
                self._result(part, lines, asked)
                asked = None
            else:
                self._add(part, lines, role_of(request.kind, None, "", lines), None)

    @property
    def numbered(self) -> bool:
        """Whether lines carry the numbers that a reader or we gave them."""
        return any(unit.number for unit in self.units)

    def _call(self, part: TextPart, lines: Sequence[str]) -> Asked:
        asked = find_asked(lines)
        lines = shorten(asked, lines, self._room_of_path, self._told)
        lines = self._without_lead(lines)
        if asked.carries is None:
            self._add(part, lines, TextRole.PROSE, asked, asks=True)
            return asked
        self._add(part, lines[: asked.carries], TextRole.PROSE, asked, asks=True)
        carried = [lines[asked.carries].removeprefix(asked.lead), *lines[asked.carries + 1 : asked.ends]]
        role = role_of(self._request.kind, part.tool, asked.about, carried)
        self._add(part, carried, role, asked, start=1 if role is TextRole.CODE else None)
        if asked.ends is not None:
            behind = lines[asked.ends :]
            self._add(part, behind, TextRole.PROSE, find_asked(behind), asks=True)
        return asked

    def _without_lead(self, lines: Sequence[str]) -> Sequence[str]:
        """The lines of a call without the folder that its command goes to first, where the one before went, too."""
        match = _GOES_TO.match(lines[0]) if lines else None
        lead, self._lead = self._lead, match[1] if match else ""
        if match is None or match[1] != lead:
            return lines
        return [f"command: {MARK} {lines[0][match.end() :]}", *lines[1:]]

    def _result(self, part: TextPart, lines: Sequence[str], asked: Asked | None) -> None:
        about = asked.about if asked else self._request.source_key or ""
        role = role_of(self._request.kind, part.tool or self._request.source_tool, about, lines)
        if asked is not None and asked.carries is not None and len(lines) < 12:
            role = TextRole.LOG if not KINDS[self._request.kind].is_failure else TextRole.FAILURE
        shown = _SHOWS_LINES.match(about) if role is TextRole.CODE else None
        start = int(shown[1] or 1) if shown else None
        self._add(part, lines, role, asked, start=start)

    def _add(
        self,
        part: TextPart,
        lines: Sequence[str],
        role: TextRole,
        asked: Asked | None,
        *,
        asks: bool = False,
        start: int | None = None,
    ) -> None:
        numbered = not asks and is_numbered(lines)
        source: list[SourceLine] = source_lines(lines, numbered=numbered)
        part_of_room = self._request.target_chars // 40
        if role is TextRole.LISTING and sum(map(is_placed, lines)) * 2 > len(lines):
            source = by_file(source, max(_SHORTEST_HEADING, part_of_room))
        elif role is TextRole.LISTING:
            source = by_root(by_name(source), max(_SHORTEST_PATH, part_of_room))
        elif role in _RECORDS:
            source = by_stat(by_record(source))
        elif role in _RUNS:
            source = by_outcome(by_module(source))
        elif role is TextRole.PROSE and part.role is PartRole.RESULT and len(lines) > 1:
            source = by_page(source)
        elif part.role is PartRole.RESULT and len(lines) == 1:
            source = by_answer(source)
        elif role is TextRole.PLAN:
            source = by_step([_with_lead(source, asked), *source[1:]] if asked and source and not asks else source)
        elif start is not None and not numbered:
            source = number_lines(source, start)
        if self._several_speak and part.role in ROLE_LABELS:
            self._line += 1
        made = units_of(
            source,
            self._request.target_chars,
            first=self._line,
            sentences=role in (TextRole.PROSE, TextRole.PLAN) and not asks,
        )
        if self._several_speak and part.role in ROLE_LABELS:
            label = len(self.units)
            self.units.append(TextUnit(ROLE_LABELS[part.role], self._line - 1, 0, "", heading=True))
            self.labels.update((label + 1 + number, label) for number in range(len(made)))
        within = range(len(self.units), len(self.units) + len(made))
        call = SAID if part.role in ROLE_LABELS else self._calls
        self.found.append(
            Section(
                within=within, role=role, part_role=part.role, call=call, asks=asks, asked=asked, first_line=self._line
            )
        )
        self.units += made
        self._line += len(source)


def _with_lead(source: Sequence[SourceLine], asked: Asked) -> SourceLine:
    """The first line of a text that a call carried, with the name of its input."""
    return source[0]._replace(text=f"{asked.lead}{source[0].text}") if asked.lead == "todos: " else source[0]


def _guess(request: RenditionRequest) -> tuple[TextPart, ...]:
    """The parts of a text of which they are not known: calls are told by the names of their inputs."""
    if KINDS[request.kind].is_conversation or (KINDS[request.kind].is_settled and request.source_tool is None):
        return (TextPart(PartRole.ASSISTANT, request.text),)
    lines = request.text.split("\n")
    starts = [0, *(n for n, line in enumerate(lines) if n and _BEGINS_CALL.match(line[:200]) and _is_call(lines, n))]
    return tuple(
        part
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
        for part in _guess_call(lines[start:end], request.source_tool)
    )


def _is_call(lines: Sequence[str], number: int) -> bool:
    """Whether a line begins another call, and is not one more input of the last."""
    before = find_asked([lines[number - 1]]).names
    return not before


def _guess_call(lines: Sequence[str], tool: str | None) -> list[TextPart]:
    asked = find_asked(lines[:1])
    if not asked.names:
        return [TextPart(PartRole.RESULT, "\n".join(lines), tool)]
    inputs = 1
    while inputs < len(lines) and find_asked([lines[inputs]]).names:
        inputs += 1
    if find_asked(lines[:inputs]).carries is not None:
        return [TextPart(PartRole.CALL, "\n".join(lines), tool)]
    rest = find_asked(lines[inputs : inputs + 40])  # a value of several lines, with another input behind it
    if rest.names and tool != "Read":
        inputs += max(rest.names) + 1
        if rest.carries is not None:
            return [TextPart(PartRole.CALL, "\n".join(lines), tool)]
    call = TextPart(PartRole.CALL, "\n".join(lines[:inputs]), tool)
    return [call, TextPart(PartRole.RESULT, "\n".join(lines[inputs:]), tool)] if inputs < len(lines) else [call]
