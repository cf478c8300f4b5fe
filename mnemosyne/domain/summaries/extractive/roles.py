"""The role of a text: what it is to whoever reads it, told from where it came and from its lines.

The role says what a short form keeps first. It is a guess by rule: a text that fits none is prose.
"""

import re
from collections.abc import Sequence
from enum import Enum

from mnemosyne.domain.objects.kinds import KINDS, ObjectKind
from mnemosyne.domain.summaries.extractive import code, diffs, failures, listings, logs
from mnemosyne.domain.summaries.extractive.facets import LineSigns


class TextRole(Enum):
    """What a text is to whoever reads it."""

    FAILURE = "failure"
    """Something went wrong: the error and its cause."""
    TEST_RUN = "test run"
    """What failed of many, and how many did not."""
    LOG = "log"
    """What a command printed."""
    LISTING = "listing"
    """Hits of a search, names of files."""
    DIFF = "diff"
    """What changes, and where."""
    CODE = "code"
    """What is defined."""
    DATA = "data"
    """Records."""
    PLAN = "plan"
    """Steps, done or not."""
    PROSE = "prose"
    """Sentences."""


_SAMPLE_LINES = 64
_PROSE_NAMES = (".md", ".rst", ".txt", ".mdx", ".adoc")
_DATA_NAMES = (".json", ".jsonl", ".csv", ".lock", ".toml", ".yaml", ".yml")
_PLAN_TOOLS = frozenset({"todowrite", "todoread", "exitplanmode", "taskcreate", "taskupdate", "tasklist", "taskget"})
_REPORTS = frozenset({"task", "agent", "webfetch", "websearch", "web_search", "web_fetch", "askuserquestion"})
_SEARCHES = frozenset({"grep", "glob", "ls", "list", "codesearch", "find", "search_files"})
_FILES = frozenset({"read", "write", "edit", "multiedit", "view", "read_file", "write_file", "create_file"})
_SHOWS_FILE = re.compile(r"(?:cd \S{1,300} && )?(?:cat (?!<)|sed -n|head|tail|nl)\b")
_BROKE = re.compile(r".{0,80}?(?:<tool_use_error>|Exit code [1-9]|<returncode>[1-9]|Traceback)")


def role_of(kind: ObjectKind, tool: str | None, about: str, lines: Sequence[str]) -> TextRole:
    """The role of what a ``tool`` answered, or of what was said (None). ``about`` is what it was asked: the path of a
    file, a command, a pattern; ``lines`` are those of the text.
    """
    traits, name = KINDS[kind], (tool or "").lower()
    if name in _PLAN_TOOLS or (traits.is_settled and tool is None):
        return TextRole.PLAN if not traits.holds_statements else TextRole.PROSE
    if traits.is_conversation or name in _REPORTS:
        return TextRole.PROSE
    some = [line for line in _without_fences(lines)[:: len(lines) // _SAMPLE_LINES + 1] if line.strip()]
    if _is_diff(lines, some):
        return TextRole.DIFF
    if traits.is_failure:
        return TextRole.TEST_RUN if _is_test_run(lines) else TextRole.FAILURE
    if traits.is_file or name in _FILES or _SHOWS_FILE.match(about):
        return _of_file(about)
    if name in _SEARCHES:
        return TextRole.LISTING
    return _role_of_output(some, lines)


def _without_fences(lines: Sequence[str]) -> Sequence[str]:
    """The lines of a text in Markdown without what it quotes; all of them where no heading says that it is one."""
    if not any(_HEADS.match(line) for line in lines):
        return lines
    fenced = False
    found = []
    for line in lines:
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            found.append(line)
    return lines if fenced else found


_HEADS = re.compile(r"#{1,4} \w")
_FENCE = re.compile(r"\s{0,8}```")


def _is_diff(lines: Sequence[str], some: Sequence[str]) -> bool:
    hunks = any(line.startswith(("@@ -", "diff --git ")) for line in lines[:200])
    return hunks and diffs.SIGNS.fit(some)


def _of_file(path: str) -> TextRole:
    name = path.lower()
    if name.endswith(_PROSE_NAMES):
        return TextRole.PROSE
    if name.endswith(_DATA_NAMES):
        return TextRole.DATA
    return TextRole.CODE


def _role_of_output(some: Sequence[str], lines: Sequence[str]) -> TextRole:
    """The role of what a command printed."""
    if _is_test_run(lines):
        return TextRole.TEST_RUN
    if any(_BROKE.match(line[:200]) for line in (*lines[:8], *lines[-3:])):
        return TextRole.FAILURE
    if some and some[0].lstrip()[:1] in ("{", "[") and some[-1].rstrip()[-1:] in ("}", "]"):
        return TextRole.DATA
    if listings.SIGNS.fit(some):
        return TextRole.LISTING
    if logs.SIGNS.fit(some):
        return TextRole.LOG
    if code.SIGNS.fit(some):
        return TextRole.CODE
    return TextRole.PROSE if _SENTENCES.fit(some) else TextRole.LOG


_SENTENCES = LineSigns(
    re.compile(r".{0,400}\w \w.{0,400}[.!?:][\"')\]*]{0,3}$|\s{0,3}#{1,6} |\s{0,8}[-*] \w"), least=0.3
)


def _is_test_run(lines: Sequence[str]) -> bool:
    heads = [line[:400] for line in lines if line]
    told = [line for line in heads if failures.COUNTS.match(line)]
    each = sum(
        failures.FAILED_TEST.match(line) is not None
        or failures.PASSED_TEST.match(line) is not None
        or failures.FAILED_PACKAGE.match(line) is not None
        for line in heads
    )
    return each >= 2 or bool(each and told)
