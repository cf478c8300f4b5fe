"""Questions about search results: lines, files, counts."""

import re
from collections.abc import Iterator, Sequence

from benchmarks.judge.answers import Answer, Pair, either, exactly
from benchmarks.judge.sources import Source

_MATCH = re.compile(r"^(?:(?P<file>[\w./~-]+?\.\w+):)?(?P<line>\d+):(?P<text>.*\S.*)$")
_PATH = re.compile(r"^(?:\./)?[\w.~@/-]*/[\w.@-]*\.[A-Za-z]\w*$")
_FOUND = re.compile(r"^Found (\d+) (files?|(?:total )?occurrences?|lines?|matches)")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{4,}")
_TITLE = re.compile(r'"title":\s*"([^"]{8,90})",\s*"url":\s*"([^"]{8,160})"')
_SEARCHES = re.compile(r"\b(?:grep|rg|find|ag)\b")
_MOST = 6


def pairs(source: Source) -> Iterator[Pair]:
    """What can be asked about the answer of a search."""
    if source.speaker != "tool":
        return
    for title, url in _TITLE.findall(source.text):
        yield Pair("page-of", source.name, f"at which address is “{title}”?", (exactly(url),))
    if not (source.pattern or _SEARCHES.search(source.command)):
        return
    lines = source.lines
    for line in lines:
        match = _FOUND.match(line)
        if match:
            yield Pair(
                "how-many", source.name, f"how many {match[2]} were found?", (exactly(match[1], match[2].split()[-1]),)
            )
    yield from _matches(source, lines)
    yield from _files(source, lines)


def _matches(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    for line in lines:
        match = _MATCH.match(line)
        names = _IDENTIFIER.findall(match["text"]) if match else []
        if match is None or not names or (not match["file"] and not (source.path or source.command)):
            continue
        longest = max(names, key=len)
        file = (match["file"] or "").rpartition("/")[2]
        ways = [(match["line"], longest), *([(file, match["line"])] if file else [])]
        where = f" in {file}" if file else ""
        asks = f"at which line{where} is “{match['text'].strip()[:80]}”?"
        yield Pair("matched-at", source.name, asks, (either(*ways),))


def _files(source: Source, lines: Sequence[str]) -> Iterator[Pair]:
    paths = list(dict.fromkeys(line.strip() for line in lines if _PATH.match(line.strip())))
    told = f"{source.pattern} {source.path} {source.command}"
    if 0 < len(paths) <= _MOST and not all(path.rpartition("/")[2] in told for path in paths):
        yield Pair("matched-files", source.name, "which files were found?", tuple(map(_by_name, paths)))
    for path in paths:
        folder, _, name = path.rpartition("/")
        parent = folder.rpartition("/")[2]
        if parent and len(paths) > _MOST:
            yield Pair("where-is", source.name, f"in which folder is {name}?", (exactly(f"{parent}/{name}"),))


def _by_name(path: str) -> Answer:
    return exactly(path.rpartition("/")[2])
