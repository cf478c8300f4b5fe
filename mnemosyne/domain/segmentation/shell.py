"""Recognize the effects of shell commands from their words."""

import json
import re
import shlex
from functools import lru_cache
from hashlib import sha256

import attrs

from mnemosyne.domain.segmentation import paths
from mnemosyne.domain.wire.json_values import storable

LONGEST = 200
"""The maximum length of a command in a source key, in characters; a longer one ends in its hash."""

_READ_AT_MOST = 4_000

DEEDS_HELD = 16
"""Cache size for effects: later turns read a command again until its object is closed."""

_CHANGES = 4
"""How many changes of directory are followed."""

_CD = re.compile(r"""\A\s*cd\s+("[^"]*"|'[^']*'|[^\s;&|]+)\s*(?:&&|;)\s*""")
_HEREDOC = re.compile(r"\A\s*(?:cat|tee)\b([^\n]*)<<-?\s*(['\"]?)(\w+)\2([^\n]*)\n", re.ASCII)
_REDIRECT = re.compile(r"""(>>?|\btee(?:\s+-a)?)\s*("[^"]+"|'[^']+'|[^\s;&|<>]+)""")
_COMPOUND = re.compile(r"&&|\|\||;|\n|\$\(|`|>")
_SED_RANGE = re.compile(r"\A(\d+)(?:,(\d+|\$))?p\Z")
_SET_UP = re.compile(r"\A(?:\w+=\S*|timeout|env|nice|sudo|time|command|exec|\d+[smh]?|-\S+)\Z", re.ASCII)
_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ b/)(\S+)", re.MULTILINE)

_SCRIPTED = re.compile(r"""\bcmd["']?\s*:\s*("(?:[^"\\\n]|\\.)*"|'[^'\\\n]*'|`[^`\\$]*`)""")
_CALLED = re.compile(r"(?<![\w$])([\w$]++)\s*+\(")

_PRINTING = frozenset(
    {"cat", "head", "tail", "less", "more", "nl", "grep", "rg", "egrep", "fgrep", "ag", "ack", "find", "ls", "tree"}
    | {"git", "gh", "sed", "awk", "wc", "echo", "printf", "which", "file", "stat", "diff", "jq", "cut", "sort", "uniq"}
    | {"pwd", "env", "printenv", "ps", "du", "df", "date", "find_file", "search_dir", "search_file"}
)
_EXIT_1_MEANS_NONE = frozenset({"grep", "rg", "egrep", "fgrep", "ag", "ack", "diff", "which", "test", "[", "git"})


@attrs.frozen
class Deed:
    """The effect of a command on a file: ``read``, ``edit`` or ``write`` of ``path``; ``lines`` are those asked for."""

    what: str
    path: str
    lines: tuple[int, int] | None = None
    whole: bool = False


def find_in_script(script: str) -> str | None:
    """Return the command that a script of Codex runs, if it runs only this and shows the output as it is. A script that
    only applies a patch is returned as that command.
    """
    literal = _SCRIPTED.search(script)
    around = script[: literal.start(1)] + script[literal.end(1) :] if literal is not None else script
    called = _CALLED.findall(around)
    if called.count("apply_patch") == 1 and "exec_command" not in called:
        return "apply_patch\n" + script.replace("\\n", "\n")
    if literal is None or sorted(called) != ["exec_command", "text"] or ".output)" not in around:
        return None
    try:
        return str(storable(json.loads(literal[1]))) if literal[1][0] == '"' else literal[1][1:-1]
    except ValueError:
        return None


def key_of(command: str) -> str:
    """Return a command on one line, so that equal commands have equal keys."""
    line = " ".join(command.split())
    return (
        line
        if len(line) <= LONGEST
        else f"{line[:LONGEST]}… {sha256(line.encode('utf-8', 'replace')).hexdigest()[:12]}"
    )


def program(command: str) -> str:
    """Return the program that a command runs first, ignoring words that only prepare it."""
    _, rest = _split_folder(command[:_READ_AT_MOST])
    for word in rest.split()[:12]:
        if not _SET_UP.match(word):
            return word.rpartition("/")[2]
    return ""


def is_run(command: str) -> bool:
    """Return whether a command's output shows how something went, rather than the content of something."""
    return any(
        name and name not in _PRINTING
        for name in map(program, re.split(r"&&|;|\n", _split_folder(command[:_READ_AT_MOST])[1])[:8])
    )


def is_failure(command: str, code: int) -> bool:
    """Return whether an exit code means failure: for a search, 1 means that nothing was found."""
    last = re.split(r"&&|;|\|", command[-_READ_AT_MOST:])[-1]
    return code != 0 and not (code == 1 and program(last) in _EXIT_1_MEANS_NONE)


@lru_cache(DEEDS_HELD)
def find_deed(command: str) -> Deed | None:
    """Return the effect of a command on a single file, if it has no other effect."""
    folder, rest = _split_folder(command)
    written = _find_write(rest, folder)
    if written is not None:
        return written
    if len(rest) > _READ_AT_MOST or _COMPOUND.search(rest.replace("2>/dev/null", "").replace("2>&1", "")):
        return _find_edit_in_place(rest, folder)
    stages = [_words(stage) for stage in rest.split(" | ")]
    if not all(stages) or len(stages) > 2:
        return None
    deed = _read(stages[0], folder)
    if deed is None or len(stages) == 1:
        return deed or _find_edit_in_place(rest, folder)
    shown = _lines(stages[1])
    return None if shown is None or not deed.whole else attrs.evolve(deed, lines=shown[0], whole=False)


def _split_folder(command: str) -> tuple[str, str]:
    """Return the directory that a command changes to first, and the rest of the command."""
    folder = ""
    for _ in range(_CHANGES):
        match = _CD.match(command)
        if match is None:
            break
        folder, command = paths.normal(match[1], folder), command[match.end() :]
    return folder, command.strip()


def _find_write(rest: str, folder: str) -> Deed | None:
    if rest.startswith("apply_patch"):
        patched = _PATCHED.findall(rest)
        return Deed("edit", paths.normal(patched[0], folder)) if len(set(patched)) == 1 else None
    heredoc = _HEREDOC.match(rest)
    if heredoc is None:
        return None
    redirected = _REDIRECT.search(heredoc[1] + " " + heredoc[4])
    tail = rest[heredoc.end() :].rstrip()
    if redirected is None or not tail.endswith(heredoc[3]):  # the command continues afterwards
        return None
    append = redirected[1] == ">>" or redirected[1].endswith("-a")
    return Deed("edit" if append else "write", paths.normal(redirected[2], folder), whole=not append)


def _find_edit_in_place(rest: str, folder: str) -> Deed | None:
    if not re.match(r"\A(?:sed|perl)\s+(?:\S+\s+)*?-\w*i", rest[:200]) or re.search(r"&&|\|\|", rest[:_READ_AT_MOST]):
        return None
    words = _words(rest[:_READ_AT_MOST])
    return Deed("edit", paths.normal(words[-1], folder)) if len(words) > 2 and paths.is_path(words[-1]) else None


def _read(words: list[str], folder: str) -> Deed | None:
    named = [word for word in words[1:] if not word.startswith("-") and not word.isdigit()]
    name = words[0].rpartition("/")[2]
    if name in ("cat", "nl", "less", "more", "bat"):
        named = [word for word in named if not (name == "nl" and word == "a")]
        return Deed("read", paths.normal(named[0], folder), whole=True) if len(named) == 1 else None
    shown = _lines(words)
    if shown is None or not shown[1]:
        return None
    return Deed("read", paths.normal(shown[1], folder), lines=shown[0])


def _lines(words: list[str]) -> tuple[tuple[int, int] | None, str] | None:
    """Return the lines that ``head``, ``tail`` or ``sed -n`` shows, and their file ("" for its input)."""
    name, rest = words[0].rpartition("/")[2], words[1:]
    if name == "sed" and "-n" in rest:
        ranges = [match for match in map(_SED_RANGE.match, rest) if match]
        files = [word for word in rest if not word.startswith("-") and not _SED_RANGE.match(word)]
        if len(ranges) != 1 or len(files) > 1:
            return None
        first, last = int(ranges[0][1]), ranges[0][2] or ranges[0][1]
        return (None if last == "$" else (first, int(last))), files[0] if files else ""
    if name in ("head", "tail"):
        numbers = [word.lstrip("-n=") for word in rest if word.lstrip("-n=").isdigit()]
        files = [word for word in rest if not word.startswith("-") and not word.isdigit()]
        if len(files) > 1:
            return None
        count = int(numbers[0]) if numbers else 10
        return ((1, count) if name == "head" else None), files[0] if files else ""
    return None


def _words(text: str) -> list[str]:
    try:
        return [word for word in shlex.split(text) if word not in ("2>/dev/null", "2>&1")]
    except ValueError:
        return []
