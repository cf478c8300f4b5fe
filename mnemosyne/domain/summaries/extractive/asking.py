"""What a call asked: its telling inputs, and the text that it carries."""

import re
from collections.abc import Sequence

import attrs

from mnemosyne.domain.summaries.extractive.facets import Facet, begins_line, each, lines
from mnemosyne.domain.summaries.extractive.units import TextUnit, end_of_path

_INPUT = re.compile(
    r"(command|cmd|script|pattern|query|regex|url|file_path|filePath|path|notebook_path|filename|subject|taskId|status|"
    r"skill|include|glob|prompt|description|content|file_text|plan|old_string|new_string|old_str|new_str|edits|todos|"
    r"subagent_type|questions|offset|limit|timeout|output_mode|replace_all|type|head_limit|-[ABCin]|multiline|"
    r"run_in_background|activeForm|model|old_text|new_text|view_range|insert_line|thought|input|patch|"
    r"patchText): ?(.*)",
    re.DOTALL,
)
_HERE_DOCUMENT = re.compile(r"<<-?\s{0,4}[\"']?([A-Za-z_]\w{0,40})[\"']?(?:\s|$|>)")
"""What a shell reads to a command from the lines below."""

_SHORTEST_DOCUMENT = 8
"""Lines of such a text that has a form of its own."""

_SAYS = re.compile(r"(?!\s*(?:done|then|else|fi|esac|end|EOF|END)\b[\s;)]*\Z).*?[^\W\d_]{3}")
"""A line with words of its own; what only ends a loop or a here-document has none."""

_ANY_INPUT = re.compile(r"([A-Za-z_]\w{0,40}): ?(.*)", re.DOTALL)
_COMMANDS = ("command", "cmd", "script")
_TELLING = ("command", "cmd", "script", "pattern", "query", "regex", "url", "subject", "taskId", "skill")
_SOUGHT = ("pattern", "query", "regex", "url")
_PLACES = ("file_path", "filePath", "path", "notebook_path", "filename", "glob", "include")
_TITLES = ("description", "status")
_TEXTS = ("content", "file_text", "plan", "todos", "new_source", "patch", "patchText")
_LONG = ("prompt", "old_string", "new_string", "old_str", "new_str")


@attrs.frozen
class Asked:
    """The inputs of a call by the lines at which they begin. ``about`` is what it was about: its path, command or
    pattern. ``carries`` is the line from which on it carries a text of its own, and ``lead`` what stands there before
    it; ``ends`` is the line behind that text, where more of the call follows.
    """

    names: dict[int, str]
    about: str
    carries: int | None
    lead: str
    ends: int | None = None


def find_asked(said: Sequence[str]) -> Asked:
    """What a call asked, by the lines of its inputs."""
    names: dict[int, str] = {}
    values: dict[str, str] = {}
    carries, ends, lead = None, None, ""
    for index, line in enumerate(said):
        match = _INPUT.match(line[:1_000]) or (_ANY_INPUT.match(line[:1_000]) if len(names) == index else None)
        if match is None or match[1] in values:
            carries, ends = _find_document(said, index) if _goes_on(said, index, names) else (None, None)
            if carries is not None:
                break
            continue
        names[index] = match[1]
        values[match[1]] = match[2]
        if match[1] in _TEXTS:
            carries, lead = index, f"{match[1]}: "
            break
        carries, ends = _find_document(said, index)
        if carries is not None:
            break
    about = next((values[name] for name in (*_PLACES[:5], *_TELLING) if values.get(name)), "")
    if "command" in values:
        about = values["command"]
    elif "pattern" in values:
        about = values["pattern"]
    return Asked(names, about.strip(), carries, lead, ends)


def _goes_on(said: Sequence[str], index: int, names: dict[int, str]) -> bool:
    """Whether a line goes on with a command that a shell reads on several."""
    return bool(names) and names[max(names)] in _COMMANDS and said[index - 1].endswith(("\\", "&&", "||", "|", ";"))


def _find_document(said: Sequence[str], index: int) -> tuple[int | None, int | None]:
    """Where the text begins that a shell reads from the lines below this one, and where it ends, if it does."""
    match = _HERE_DOCUMENT.search(said[index][:1_000])
    if match is None or len(said) - index <= _SHORTEST_DOCUMENT:
        return None, None
    end = next((n for n in range(index + 1, len(said)) if said[n].strip() == match[1]), None)
    return index + 1, end


def shorten(asked: Asked, said: Sequence[str], room: int, told: set[str]) -> list[str]:
    """The lines of a call with the ends of paths that are longer than their room, and with the last part of those that
    were ``told`` before.
    """
    found = list(said)
    for index, name in asked.names.items():
        if name in _PLACES and index < len(found):
            lead = f"{name}: "
            path = found[index].removeprefix(lead)
            found[index] = lead + end_of_path(path, len(path.rstrip("/").rpartition("/")[2]) if path in told else room)
            told.add(path)
    return found


def asking(units: Sequence[TextUnit], within: range, asked: Asked, first: int, *, several: bool) -> list[Facet]:
    """The facets of what a call asked; its lines count from ``first``. Where ``several`` calls stand in one text, only
    this tells whose answer is below.
    """
    by_line = {units[n].line - first: n for n in reversed(within) if begins_line(units, n)}
    telling = [by_line[line] for line, name in asked.names.items() if _tells(name) and line in by_line]
    sought = [by_line[line] for line, name in asked.names.items() if name in _SOUGHT and line in by_line]
    places = [by_line[line] for line, name in asked.names.items() if name in _PLACES and line in by_line]
    titles = [by_line[line] for line, name in asked.names.items() if name in _TITLES and line in by_line]
    long = [by_line[line] for line, name in asked.names.items() if name in _LONG and line in by_line]
    rest = [
        n for n in within if n not in {*telling, *places, *titles, *long} and units[n].line - first not in asked.names
    ]
    return [
        lines("pattern", units, sought, within, rank=-1, share=0.4, told=False),
        lines("question", units, telling, within, rank=-1 if several else 1, share=0.35, told=False),
        lines("place", units, places, within, rank=2 if sought else 0, share=0.6, told=False),
        Facet(noun="input", entries=each([*titles, *long]), rank=5, share=0.3, told=False),
        Facet(
            noun="line of a long input",
            entries=each(n for n in rest if _SAYS.match(units[n].text or "")),
            rank=6,
            share=0.2,
            told=False,
        ),
    ]


def _tells(name: str) -> bool:
    """Whether an input says what was asked: one that is known to, or one of a tool that nobody knows."""
    return name in _TELLING or _INPUT.match(f"{name}: ") is None
