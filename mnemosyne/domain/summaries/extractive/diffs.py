"""Patches: which files, which places in them, and what changes there."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from mnemosyne.domain.summaries.extractive.facets import Facet, LineSigns, each, head_of, whole_lines
from mnemosyne.domain.summaries.extractive.units import TextUnit

SIGNS = LineSigns(re.compile(r"(?:@@ -\d|diff --git |--- \S|\+\+\+ \S|index [0-9a-f]{7}|[-+](?![-+])| )"), least=0.6)
"""Lines by which a patch is known."""

_FILE = re.compile(r"diff --git |\+\+\+ \S|--- \S|Binary files |rename (?:from|to) ")
_HUNK = re.compile(r"@@ -\d")
_STAT = re.compile(r" \S.{0,300}? \| +(?:\d{1,9}|Bin)\b| ?\d{1,9} files? changed|[MADRC]\d{0,3}\t\S")
_SIGNATURE = re.compile(
    r"[-+]\s{0,40}(?:(?:export|public|private|static|async|pub) )?"
    r"(?:def|class|func|fn|function|type|struct|interface|impl|enum|const)\b"
)
_CHANGED = re.compile(r"[-+](?![-+]{2} )[^\w\n]{0,200}\w")
"""A line that goes or comes, and is more than a bracket."""

_TELLS = re.compile(r"[-+]\s{0,200}\S{0,200}\w{3}")
_ADDS = re.compile(r"\+\s{0,200}(?!//|#|/?\*|--|<!--|\"\"\")\S{0,200}\w{3}")
"""A line that is there now and says more than a comment."""


def diffs(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of a patch."""
    heads = {number: head_of(units[number]) for number in within if units[number].text}
    stats = [n for n, text in heads.items() if _STAT.match(text)]
    files = _files(heads)
    hunks = [n for n, text in heads.items() if _HUNK.match(text)]
    signatures = [n for n, text in heads.items() if _SIGNATURE.match(text)]
    known = {*stats, *files, *hunks, *signatures}
    changed = [n for n, text in heads.items() if n not in known and _CHANGED.match(text) and not _FILE.match(text)]
    added = [n for n in changed if _ADDS.match(heads[n])]
    telling = [n for n in changed if _TELLS.match(heads[n])]
    return [
        Facet(noun="file", entries=whole_lines(units, files, within), rank=0),
        Facet(noun="line of totals", entries=each([*stats[-1:], *stats[:-1]]), rank=1, told=False, share=0.6),
        Facet(noun="changed signature", entries=each(signatures), rank=3, share=0.4),
        Facet(noun="hunk", entries=each(hunks), rank=3, share=0.6),
        Facet(noun="changed line", entries=each(_best_first(added, telling, changed, hunks)), rank=4),
    ]


def _files(heads: dict[int, str]) -> list[int]:
    """The line that names each file, the shortest that does: the one it has afterwards, else the one it had."""
    found: list[int] = []
    pending: int | None = None
    for number, text in heads.items():
        if text.startswith("diff --git ") or text.startswith(("Binary files ", "rename to ")):
            if pending is not None:
                found.append(pending)
            pending = number
        elif text.startswith("--- ") and _is_head(heads, number):
            pending = number if text != "--- /dev/null" else pending
        elif text.startswith("+++ ") and pending is not None:
            found.append(number if not text.startswith("+++ /dev/null") else pending)
            pending = None
    return found if pending is None else [*found, pending]


def _is_head(heads: dict[int, str], number: int) -> bool:
    return heads.get(number + 1, "").startswith("+++ ")


def _best_first(
    added: Sequence[int], telling: Sequence[int], changed: Sequence[int], hunks: Sequence[int]
) -> list[int]:
    """What each hunk adds first, or else changes first; then what else is added, then the others."""
    of_hunks = {bisect_right(hunks, n): n for n in [*_first_of_hunks(telling, hunks), *_first_of_hunks(added, hunks)]}
    return list(dict.fromkeys([*(of_hunks[hunk] for hunk in sorted(of_hunks)), *added, *telling, *changed]))


def _first_of_hunks(changed: Sequence[int], hunks: Sequence[int]) -> list[int]:
    """The first changed line of each hunk."""
    of_hunk = {bisect_right(hunks, line): line for line in reversed(changed)}
    return [line for hunk, line in sorted(of_hunk.items()) if hunk]
