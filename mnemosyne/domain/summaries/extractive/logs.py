"""What commands print when nothing failed: warnings, what was done, totals, the last lines and the first."""

import re
from collections.abc import Sequence

from mnemosyne.domain.summaries.extractive.facets import Facet, LineSigns, each, head_of
from mnemosyne.domain.summaries.extractive.failures import COUNTS, PASSED_TEST, passing
from mnemosyne.domain.summaries.extractive.units import TextUnit

SIGNS = LineSigns(
    re.compile(
        r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d:\d\d|=== (?:RUN|PAUSE|CONT)|--- (?:PASS|FAIL|SKIP)|PASS|FAIL|ok\s|"
        r"\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL|error|warning|info)\b|Traceback|File \"|E\s{2,}|=====|"
        r"_____|-----|"
        r"Exit code|npm |added \d|Compiling|Downloading|Collecting|test |Ran \d|"
        r"\$ |\+ |[✓✗✔✘●]|\[\d+/\d+\]|at \S+ ?\()"
        r"|.*(?:\.\.\. ok|\.\.\. FAIL|\.\.\. ERROR|PASSED|FAILED|\bpassed\b|\bfailed\b|\[ *\d+%\]|\b[Ee]rror:)"
    ),
    least=0.18,
)
"""Lines by which the output of a command is known."""

_WARNING = re.compile(r".*?\b(?:WARN|WARNING|[Ww]arning|[Ee]rror|ERROR|deprecated|skipped|[Ff]ailed)\b")
_DONE = re.compile(
    r"\s{0,8}(?:\[[\w/. -]{1,80} [0-9a-f]{7,40}\]|\d{1,9} files? changed|(?:Created|Updated|Deleted|Removed|"
    r"Added|Wrote|"
    r"Saved|Installed|Successfully|Switched|Merged|Committed|Pushed|Restored|Repository|Done|Built|Fixed|Total|total|"
    r"Finished|Generated|Copied|Moved)\b|modified:|new file:|deleted:|renamed:|"
    r"commit [0-9a-f]{7,40}|Date: |Author: |Merge: )"
)
_FINDING = re.compile(r"(?:\[[\w:. -]{1,40}\] )?[^\s:]{1,200}\.\w{1,8}:\d{1,7}(?::\d{1,7})?: \S")
"""What a compiler or a linter says of a place."""

_SAYS = re.compile(r"(?:\[[\w:. -]{1,40}\] )?\W{0,400}\w")
_TOTAL = re.compile(r" ?\d{1,9} files? changed")
_TIMED = re.compile(
    r"(?:\[[\w:. -]{1,40}\] )?(?:Finished|Done|Took|Time|real|user|sys)\b.{0,20}\d ?m?s\.?$|(?:\[[\w:. -]{1,40}\] )?\$ "
)
"""How long it took, and the command once more."""

_ROW = re.compile(r" \S.{0,300}? \| +(?:\d{1,9}|Bin)\b")
"""A file that ``git diff --stat`` tells of."""

_RUN = re.compile(r"\s{0,40}=== |\s{0,40}--- PASS")


def logs(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of a command's output."""
    heads = {number: head_of(units[number]) for number in within if (units[number].text or "").strip()}
    changed = [n for n, text in heads.items() if _ROW.match(text)]
    findings = [n for n, text in heads.items() if _FINDING.match(text) and not _ROW.match(text)]
    known = {*changed, *findings}
    warnings = [
        n for n, text in heads.items() if n not in known and _WARNING.match(text) and not PASSED_TEST.match(text)
    ]
    counts = [n for n, text in heads.items() if n not in set(warnings) and (COUNTS.match(text) or _TOTAL.match(text))]
    taken = {*warnings, *counts, *known}
    done = [n for n, text in heads.items() if n not in taken and _DONE.match(text)]
    taken.update(done)
    passed = [n for n, text in heads.items() if n not in taken and PASSED_TEST.match(text)]
    taken.update(passed)
    rest = [
        n
        for n, text in heads.items()
        if n not in taken and _SAYS.match(text) and not (_RUN.match(text) or _TIMED.match(text))
    ]
    return [
        Facet(noun="last line", entries=each([*rest[-1:], *rest[:1]]), rank=0, told=False, share=0.4),
        Facet(noun="count", entries=each(reversed(counts)), rank=0, told=False, share=0.4),
        Facet(noun="finding", entries=each(findings), rank=1, share=0.6),
        Facet(noun="changed file", entries=each(changed), rank=1, share=0.6),
        Facet(noun="warning", entries=each(warnings), rank=2, share=0.5),
        Facet(noun="line of what was done", entries=each(done), rank=3, told=False, share=0.5),
        passing(passed, heads, rank=4, share=0.5),
        Facet(noun="line", entries=each([*rest[-3:-1], *rest[1:3]]), rank=4, told=False),
    ]
