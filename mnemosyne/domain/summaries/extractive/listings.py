"""Results of searches and listings of files: the hits themselves, each under its file, and then what is around them."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mnemosyne.domain.summaries.extractive.code import SIGNATURE
from mnemosyne.domain.summaries.extractive.facets import Entry, Facet, LineSigns, head_of, whole_lines
from mnemosyne.domain.summaries.extractive.units import MARK, SourceLine, TextUnit, end_of_path, find_root

SIGNS = LineSigns(
    re.compile(
        r"\s*[-dlrwx]{10}[.+@]?\s|(?=\S*[\w~.-]/)\S++$|\S+\.\w{1,10}$|(?!\d{4}-\d\d-\d\d|\d\d:\d\d)(?:[^\s:/.]*+[/.][^\s:]*[:-]\d+[:-]|\d+[:-])|--$|"
        r"\s*(?:[?ADMRUC]{1,2}|modified:|new file:|deleted:)\s+\S+$|[ │├└─|`]*+(?:\S++|(?<=\S))$|"
        r"total \d+$|Found \d+|(?=[^\s:]+/[^\s:])[^\s:]++:"
    ),
    least=0.7,
)
"""Lines by which a listing is known."""

_PLACED = re.compile(
    r"((?:[A-Za-z]:)?[^\s:]{1,400}?\.\w{1,12}|[^\s:]{0,300}?/[^\s:]{1,200}?)(?:(:)(\d{1,7}):|-(\d{1,7})-)"
)
NUMBERED_HIT = re.compile(r"\s{0,8}(?!\d{4}-\d\d-\d\d|\d\d:\d\d)\d{1,7}[:-]")
_HIT = re.compile(r"\s{0,8}\d{1,7}:")
_AROUND = re.compile(r"\s{0,8}\d{1,7}-")
_TOLD = re.compile(
    r"Found \d+|\d+ (?:matches|files|results|lines)\b|No (?:files|matches)|On branch |Your branch |"
    r"Changes |Untracked |nothing to commit"
)
_FOLDER_ITSELF = re.compile(r"total \d+[KMG]?$|(?:[-dlrwx]{10}\S?\s.{0,200}\s)?\.{1,2}/?$")
"""What ``ls`` says of the folder itself: its blocks, ``.`` and ``..``."""

_TROUBLE = re.compile(r"[Ee]rror|denied|No such file|truncated|omitted|more (?:files|lines|results)")
_GOES_ON = re.compile(r"\W*\w.*\.\.\.$")
_SAYS = re.compile(r".*[^\W\d_]{2}")
_SOUGHT = re.compile(r"\b(?:grep|rg|ag|findstr)\b[^|;&\n\"']{0,200}[\"']([^\"'\n]{3,200})[\"']")
_BETWEEN = re.compile(r"\\?\||\.\*|[\\^$()\[\]+?]{1,20}")
_PAGES = "Links: "
_ADDRESS = re.compile(r"[^\n]{0,300}? https?://\S{1,2000}$")
_PATH = re.compile(r"\S{0,400}/\S{1,400}$")
_LONG_ROOT = 12
"""Characters that paths have in common, from which on that stands above them."""

_MOST_FOLDERS = 16
"""Folders of a path that are looked at."""

_ROW = re.compile(
    r"(?P<mode>[-dlbcps])[-rwxsStT]{9}[.+@]?\s{1,9}\d{1,9}\s{1,20}\S{1,40}\s{1,20}\S{1,40}\s{1,20}(?P<size>\d{1,15}[.\d]{0,4}[KMGT]?)\s{1,9}"
    r"(?:[A-Z][a-z]{2}\s{1,4}\d{1,2}\s{1,4}[\d:]{4,5}|\d{4}-\d\d-\d\d(?: [\d:.]{5,20})?(?: [-+]\d{4})?)\s(?P<name>\S.*)"
)
"""A row of ``ls -l``."""

_STAT = re.compile(r"^ (\S.{0,300}?) {1,400}\| {1,9}(\d{1,9})(?: [+-]{1,400})?$")
_CHANGED = re.compile(r"\s{0,8}(?:modified|new file|deleted|renamed|both modified|typechange):\s|[ MADRCU?]{2} \S")
"""A file that ``git status`` tells of."""

_HINT = re.compile(r"\s{0,8}\(use \"git ")
"""What ``git status`` says of its own commands."""

_MOST_NUMBERS = 12
"""Numbers of lines behind the path of a file."""

_MOST_AROUND = 60
"""Lines of context that are looked at on either side of a hit."""


def is_placed(line: str) -> bool:
    """Whether a line begins with a path and a line number, as a search prints its hits."""
    return _PLACED.match(line[:800]) is not None


def by_file(lines: Sequence[SourceLine], room: int) -> list[SourceLine]:
    """The lines of a search's answer with each path once, above its hits, as ``rg --heading`` prints them. Behind it
    stand the numbers of the lines that were hit; of a path longer than its ``room`` there is the end.
    """
    found: list[SourceLine] = []
    hits: dict[int, list[str]] = {}
    current = ""
    for line in lines:
        match = _PLACED.match((line.text or "")[:800])
        if match is None or line.text is None:
            found.append(line)
            continue
        path = match[1]
        if not _same_file(path, current):
            hits[len(found)] = []
            found.append(SourceLine(end_of_path(path, room), 0, "", heading=True))
            current = path
        mark = ":" if match[2] else "-"
        if match[2]:
            next(reversed(hits.values())).append(match[3])
        rest = line.text[match.end() :] if mark == "-" else line.text[match.end() :].strip()
        found.append(line._replace(text=f"{match[3] or match[4]}{mark}{rest}"))
    for heading, numbers in hits.items():
        if numbers:
            shown = [*numbers[:_MOST_NUMBERS], *([MARK] if len(numbers) > _MOST_NUMBERS else [])]
            found[heading] = found[heading]._replace(text=f"{found[heading].text}:{' '.join(shown)}")
    return found


def by_root(lines: Sequence[SourceLine], room: int) -> list[SourceLine]:
    """The lines of a list of paths with the folder that most are in once, above the first of them; of these each keeps
    its last folder, behind a mark where others are in other folders. Of a folder that is longer than its ``room`` there
    is the end.
    """
    paths = [line.text for line in lines if line.text and _PATH.match(line.text)]
    root = find_root(paths)
    mark = ""
    if len(root) < _LONG_ROOT:
        root, mark = _find_common_root(paths), f"{MARK}/"
    if len(root) < _LONG_ROOT:
        return list(lines)
    found: list[SourceLine] = []
    told = False
    for line in lines:
        if line.text and _PATH.match(line.text) and line.text.startswith(root):
            if not told:
                found.append(SourceLine(end_of_path(root, room), 0, "", heading=True))
                told = True
            line = line._replace(text=mark + line.text.removeprefix(root))
        found.append(line)
    return found


def _find_common_root(paths: Sequence[str]) -> str:
    """The folder that saves most if it is told once; empty where fewer than half of the paths are in one."""
    counts = Counter(folder for path in paths for folder in _folders_above(path))
    often = [folder for folder, count in counts.items() if 2 * count > len(paths)]
    return max(often, key=lambda folder: (len(folder) * counts[folder], folder), default="")


def _folders_above(path: str) -> Iterator[str]:
    """The folders above the one that a path is in, each with its slash, of a deep path the outer ones."""
    inner = path.rpartition("/")[0].rfind("/")
    end = path.find("/", _LONG_ROOT - 1)
    for _ in range(_MOST_FOLDERS):
        if not 0 <= end <= inner:
            return
        yield path[: end + 1]
        end = path.find("/", end + 1)


def by_name(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """The rows of ``ls -l`` as ``ls -s -F`` has them: the size and the name of a file, the name of a folder with a
    slash. Who owns it, who may read it and since when is seldom asked.
    """
    return [line._replace(text=_name_row(line.text)) if line.text else line for line in lines]


def by_stat(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """The rows of ``git diff --stat`` without the columns and the bar: the file, and how many lines of it change."""
    return [
        line._replace(text=_STAT.sub(r" \1 | \2", line.text)) if line.text and "| " in line.text else line
        for line in lines
    ]


def _name_row(text: str) -> str:
    row = _ROW.match(text[:800])
    if row is None or len(text) > 800:
        return text
    return f"{row['name']}/" if row["mode"] == "d" else f"{row['size']} {row['name']}"


def _same_file(path: str, current: str) -> bool:
    """Whether two paths name one file, one of them from the root."""
    return bool(current) and (path == current or path.endswith(f"/{current}") or current.endswith(f"/{path}"))


def listings(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The facets of a listing, be it of places in files or of names."""
    heads = {number: head_of(units[number]) for number in within if units[number].text}
    numbered = {n for n, text in heads.items() if NUMBERED_HIT.match(text)}
    own = {n: text for n, text in heads.items() if n not in numbered and not units[n].heading}
    told = [n for n, text in own.items() if _TOLD.match(text) or _TROUBLE.search(text) or _GOES_ON.match(text)]
    if len(numbered) * 2 > len(heads) - len(told):
        return [_totals(told), *_hits(units, heads)]
    above = _headings(units, heads)
    changed = [n for n, text in own.items() if _CHANGED.match(text)]
    taken = {*told, *(n for n, text in own.items() if _FOLDER_ITSELF.match(text) or _HINT.match(text))}
    names = [n for n, text in heads.items() if n not in taken and not units[n].heading and _SAYS.match(text)]
    entries = tuple(_entry(n, above) for n in [*changed, *_spread(heads, names)])
    return [
        Facet(noun="name", entries=entries[:1], rank=0, share=0.7),
        _totals(told),
        Facet(noun="name", entries=entries, rank=0, share=0.7),
    ]


def _totals(told: Sequence[int]) -> Facet:
    return Facet(noun="line of totals", entries=tuple((n,) for n in told), rank=0, share=0.3, told=False)


def _hits(units: Sequence[TextUnit], heads: dict[int, str]) -> list[Facet]:
    above = _headings(units, heads)
    hits = [n for n, text in heads.items() if _HIT.match(text) and not units[n].heading]
    around = {n for n, text in heads.items() if _AROUND.match(text) and _SAYS.match(text)}
    files = [n for n in dict.fromkeys(above.get(n) for n in hits) if n is not None]
    defined = [n for n in hits if SIGNATURE.match(heads[n].lstrip().partition(":")[2])]
    return [
        Facet(noun="hit", entries=tuple(_entry(n, above) for n in defined), rank=0, share=0.7),
        Facet(noun="file", entries=tuple((n,) for n in files), rank=0, share=0.8),
        Facet(noun="hit", entries=tuple(_entry(n, above) for n in _spread_hits(hits, above)), rank=1, share=0.7),
        Facet(
            noun="context line",
            entries=tuple((*_entry(hit, above), n) for n, hit in _near(hits, around).items()),
            rank=3,
        ),
    ]


def _headings(units: Sequence[TextUnit], heads: dict[int, str]) -> dict[int, int]:
    """The heading above each unit that has one."""
    heading: int | None = None
    above: dict[int, int] = {}
    for number in heads:
        if units[number].heading:
            heading = number
        elif heading is not None:
            above[number] = heading
    return above


def _entry(number: int, above: dict[int, int]) -> Entry:
    return (above[number], number) if number in above else (number,)


def _spread_hits(hits: Sequence[int], above: dict[int, int]) -> list[int]:
    """The first hit of each file, then the others in order."""
    seen: set[int | None] = set()
    first = []
    for number in hits:
        if above.get(number) not in seen:
            seen.add(above.get(number))
            first.append(number)
    return list(dict.fromkeys([*first, *hits]))


def _near(hits: Sequence[int], around: set[int]) -> dict[int, int]:
    """The lines around hits, the nearest first, each with the hit that it is near."""
    near: dict[int, int] = {}
    for distance in range(1, _MOST_AROUND):
        for hit in hits:
            for number in (hit + distance, hit - distance):
                if number in around:
                    near.setdefault(number, hit)
    return near


def _spread(heads: dict[int, str], names: Sequence[int]) -> list[int]:
    """The first name of each folder, then the others in order."""
    seen: set[str] = set()
    first = []
    for number in names:
        folder = heads[number].strip().rstrip("/").rpartition("/")[0]
        if folder not in seen:
            seen.add(folder)
            first.append(number)
    return list(dict.fromkeys([*first, *names]))


def by_page(lines: Sequence[SourceLine]) -> list[SourceLine]:
    """The lines with the pages that a search of the web found, each on a line with its address."""
    found: list[SourceLine] = []
    for line in lines:
        pages = _pages(line.text.removeprefix(_PAGES)) if line.text and line.text.startswith(_PAGES) else []
        found += [] if pages else [line]
        for number, page in enumerate(pages, 1):
            found.append(SourceLine(page, line.lines if number == len(pages) else 0, ""))
    return found


def _pages(listed: str) -> list[str]:
    try:
        pages = json.loads(listed)
    except (ValueError, RecursionError):
        return []
    return [f"{page.get('title', '')} {page.get('url', '')}" for page in pages if isinstance(page, Mapping)]


def pages(units: Sequence[TextUnit], within: range) -> list[Facet]:
    """The pages that a search of the web found."""
    found = [n for n in within if (text := units[n].text) and _ADDRESS.match(text)]
    return [Facet(noun="page", entries=whole_lines(units, found, within), rank=0, share=0.4)] if found else []


def list_sought(units: Sequence[TextUnit], within: range, command: str) -> list[Facet]:
    """The lines that hold what a command searched for, where it was a search for words."""
    match = _SOUGHT.search(command[:2_000])
    words = [word for word in _BETWEEN.split(match[1]) if _SAYS.match(word)] if match else []
    if not words:
        return []
    found = [n for n in within if units[n].text and any(word in head_of(units[n]) for word in words)]
    return [Facet(noun="line with what was sought", entries=tuple((n,) for n in found), rank=0, share=0.6, told=False)]
