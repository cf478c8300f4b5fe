"""Stubs: one line that says what an object was, made from its structure alone.

What a tool or a person wrote is data: inside a stub it is one line, bounded, without control characters, and it cannot
look like an object's id (``#a1b2``) as a stub on the wire begins with one.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from mnemosyne.domain.text.media_sizes import count_pages, image_size

LONGEST = 320
"""Characters of a stub."""

TOLD_FROM = 4_000
"""Characters, about 1,200 tokens, from which on the size of something is told with its line."""

_INVISIBLE = re.compile(
    r"[\x00-\x20\x7f-\xa0\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+"
)
_ID_LIKE = re.compile(r"#(?=\w)")


def plain(text: str, limit: int) -> str:
    """Text as a stub may hold it: one line of at most ``limit`` characters."""
    line = _ID_LIKE.sub("# ", _INVISIBLE.sub(" ", text[: 4 * limit])).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def stub(what: str, *facts: str) -> str:
    """What it was, and in brackets what is known of it: ``Read src/a.py lines 1-20 (20 lines, 1 KB)``."""
    told = ", ".join(fact for fact in facts if fact)
    told = f" ({plain(told, 70)})" if told else ""
    return plain(what, LONGEST - len(told)) + told


def amount(characters: int) -> str:
    """A size as people say it."""
    for unit, size in (("MB", 1_000_000), ("KB", 1_000)):
        if characters >= size:
            return f"{characters / size:.1f} {unit}" if characters < 10 * size else f"{characters // size} {unit}"
    return f"{characters} B"


def with_amount(line: str, characters: int) -> str:
    """A line with the size of what it names, where that is worth a word."""
    return f"{line} ({amount(characters)})" if characters >= TOLD_FROM else line


def render_count(number: int, thing: str) -> str:
    """``1 line``, ``3 lines``."""
    plural = "es" if thing.endswith(("ch", "s")) else "s"
    return f"{number:,} {thing}{'' if number == 1 else plural}"


def render_types(types: Sequence[str]) -> str:
    """``2 images and 1 document``: how many there are of each type, in the order in which the types first come."""
    return " and ".join(render_count(types.count(each), each) for each in dict.fromkeys(types))


def attachment(block: Mapping[str, Any]) -> str:
    """An image or document: its type and size, as ``image png 1200x800, 340 KB`` or ``document pdf, 2 pages, 9 KB``."""
    kind = str(block.get("type"))
    source = block.get("source")
    source = source if isinstance(source, Mapping) else {}
    media = str(source.get("media_type") or source.get("type") or "")
    data = source.get("data")
    said = [f"{kind} {plain(media.rpartition('/')[2], 30)}".strip()]
    if isinstance(data, str):
        size = image_size(data) if kind == "image" else None
        if size is not None:
            said[0] += f" {size[0]}x{size[1]}"
        encoded = source.get("type") == "base64"
        pages = count_pages(data) if kind == "document" and encoded else None
        if pages is not None:
            said.append(render_count(pages, "page"))
        said.append(amount(len(data) * 3 // 4 if encoded else len(data)))
    elif isinstance(source.get("url"), str):
        said.append(plain(source["url"], 60))
    title = block.get("title")
    if isinstance(title, str) and title:
        said.append(plain(title, 60))
    return ", ".join(said)


_TESTS = (
    re.compile(r"^=+ (.{0,100}\b(?:passed|failed|error|errors|skipped)\b.{0,60}) in [\d.:]+.{0,20}=+$", re.MULTILINE),
    re.compile(r"^(\d+ (?:passed|failed)\b.{0,60}?)(?: in [\d.]+s)?.{0,20}$", re.MULTILINE),
    re.compile(r"^Tests: +(.{1,80})$", re.MULTILINE),
    re.compile(r"^test result: (.{1,80}?)(?:; finished.*)?$", re.MULTILINE),
    re.compile(r"^(Ran \d+ tests? in [\d.]+s)$", re.MULTILINE),
)


_FAILED_TEST = re.compile(r"^\s{0,40}--- FAIL: (\S{1,300})", re.MULTILINE)
_PASSED_TEST = re.compile(r"^\s{0,40}--- PASS: \S", re.MULTILINE)
_FAILED_PACKAGE = re.compile(r"^FAIL\s{1,8}\S{0,300}/(\S{1,100})", re.MULTILINE)
_PASSED_PACKAGE = re.compile(r"^ok\s{1,8}\S{1,300}/\S", re.MULTILINE)
"""Go tells each package on a line of its own."""


def test_counts(text: str) -> str:
    """What a test runner said last of how many passed, or how many tests or else packages did by what it said of each,
    with the first test that failed; empty if it is no test run.
    """
    end = text[-4_000:]
    for pattern in _TESTS:
        found = pattern.findall(end)
        if found:
            return plain(found[-1], 60)
    failed, passed = _FAILED_TEST.findall(text), len(_PASSED_TEST.findall(text))
    if failed or passed:
        counts = ", ".join(f"{count} {what}" for count, what in ((len(failed), "failed"), (passed, "passed")) if count)
        return f"{counts}: {plain(failed[0], 40)}" if failed else counts
    packages = ((len(_FAILED_PACKAGE.findall(text)), "failed"), (len(_PASSED_PACKAGE.findall(text)), "passed"))
    if sum(count for count, _ in packages) > 1:
        return ", ".join(f"{render_count(count, 'package')} {what}" for count, what in packages if count)
    return ""


MOST_PARTS = 5
"""Things of one object that its stub names."""

_TOLD_ONCE = 12
"""Characters of a word that is told but once where several things share it, such as the path of a project."""

_SIZE = r"(?:[\d,]+(?: → [\d,]+)? lines?|[\d.]+ [KM]?B)"
_SIZES = re.compile(rf" \({_SIZE}(?:, {_SIZE})?\)\Z|(?:, {_SIZE})+(?=\)\Z)")
"""Facts that several things in one object have no room for."""


def parts(stubs: Sequence[str], thing: str, telling: Collection[int] = (), idle: Collection[int] = ()) -> str:
    """The stub of several things in one object. Those that are ``telling``, by number, have three times the room of
    others, those that are ``idle`` are only counted where others are not; what needs less than its share leaves the
    rest to those that need more.

    A long word that one before has, too, is told once, so are the folders that two paths share, and who speaks on or
    which tool is called again. So what tells them apart has room. How long each was is left out.
    """
    if len(stubs) == 1:
        return stubs[0]
    numbers = [n for n in range(len(stubs)) if n not in idle] or [*range(len(stubs))]
    numbers = numbers[:MOST_PARTS]
    shown = [stubs[n] for n in numbers]
    more = f"; {len(stubs) - len(shown)} more" if len(stubs) > len(shown) else ""
    head = f"{render_count(len(stubs), thing)}: "
    lines = _tell_once([_SIZES.sub("", each) for each in shown])
    room = LONGEST - len(head) - len(more) - len(_BETWEEN) * (len(lines) - 1)
    # Where later ones lean on the first, which tells in full what they share, it has twice the room, too.
    leaned_on = any("…" in each for each in lines[1:])
    shares = [3 if n in telling else 2 if leaned_on and place == 0 else 1 for place, n in enumerate(numbers)]
    limits = _share_out(room, [len(each) for each in lines], shares)
    said = _BETWEEN.join(_shorten_part(each, limit) for each, limit in zip(lines, limits, strict=True))
    return plain(head + said, LONGEST - len(more)) + more


_BETWEEN = "; "


def _share_out(room: int, needed: Sequence[int], shares: Sequence[int]) -> list[int]:
    """Characters for each: at most what it needs, and of what is left by those that need less its share."""
    limits = [0] * len(needed)
    by_need = sorted(range(len(needed)), key=lambda n: (needed[n] / shares[n], n))
    for place, number in enumerate(by_need):
        left = sum(shares[n] for n in by_need[place:])
        limits[number] = min(needed[number], room * shares[number] // left)
        room -= limits[number]
    return limits


def _tell_once(lines: Sequence[str]) -> list[str]:
    """The lines without what one before them told: a mark stands for long words, for folders of a path and for
    commands before another; who speaks or which tool was called is left out.
    """
    known: set[str] = set()
    folders: set[str] = set()
    before: list[str] = []
    told: list[str] = []
    for line in lines:
        words = line.split(" ")
        words, before = _without_lead(words, before), words
        names = [word.rstrip(":,") for word in words]
        marked = [
            "…" + word[len(name) :] if name in known else _under(word, folders)
            for word, name in zip(words, names, strict=True)
        ]
        once = [word for n, word in enumerate(marked) if word != "…" or n == 0 or marked[n - 1] != "…"]
        told.append(" ".join(once))
        known.update(name for name in names if len(name) >= _TOLD_ONCE)
        folders.update(folder for name in names if _PATH.fullmatch(name) for folder in _folders(name))
    return told


def _without_lead(words: list[str], before: list[str]) -> list[str]:
    """The words of a line without who speaks or which tool was called, and without the folder that it goes to first,
    where the line ``before`` begins with the same.
    """
    same = [word for word, _ in takewhile(lambda pair: pair[0] == pair[1], zip(words, before, strict=False))]
    if "&&" in same:
        return ["…", *words[len(same) - same[::-1].index("&&") :]]
    return words[1:] if same and len(words) > 1 else words


_PATH = re.compile(r"(?:[~.]{1,2}|[A-Za-z]:)?(?:/[\w.@+-]+){2,}/?")


def _under(word: str, folders: Collection[str]) -> str:
    """A path from where it leaves the longest of the known folders, its own last part in any case."""
    if not _PATH.fullmatch(word.rstrip(":,")):
        return word
    found = next((each for each in reversed(_folders(word)) if each in folders), None)
    return word if found is None else "…" + word[len(found) :]


def _folders(path: str) -> list[str]:
    """The folders that a path is in, from the highest on; those too short to be worth a mark are left out."""
    ends = [at for at in range(_TOLD_ONCE, len(path)) if path[at] == "/"]
    return [path[:at] for at in ends]


def _shorten_part(line: str, limit: int) -> str:
    """A part in its room: of its longest path the end is kept, then the beginning of the whole."""
    paths = [word for word in line.split(" ") if _PATH.fullmatch(word.rstrip(":,"))]
    if len(line) > limit and paths:
        path = max(paths, key=len)
        name = len(path) - path.rstrip("/").rfind("/") + 1
        line = line.replace(path, shorten(path, max(name, len(path) - len(line) + limit)), 1)
    return plain(line, limit)


def shorten(name: str, limit: int) -> str:
    """A name as a stub may hold it: of a path that is too long its end, which tells it from others; of any other text
    its beginning.
    """
    line = plain(name, len(name) + 1)
    if len(line) <= limit or " " in line or "/" not in line:
        return plain(name, limit)
    cut = line.find("/", len(line) - limit + 1)
    return plain("…" + line[cut if cut >= 0 else len(line) - limit + 1 :], limit)
