"""Stubs: one line that says what an object was, made from its structure alone.

Text from a tool or a person is data: within a stub it is one line of limited length, without control characters, and it
cannot look like an object's id (``#a1b2``), the beginning of a stub sent upstream.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from mnemosyne.domain.text.media_sizes import count_pages, image_size

LONGEST = 320
"""The maximum length of a stub, in characters."""

SIZE_FROM = 4_000
"""From this many characters on, about 1,200 tokens, the size of an object is added to its line."""

_INVISIBLE = re.compile(
    r"[\x00-\x20\x7f-\xa0\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+"
)
_ID_LIKE = re.compile(r"#(?=\w)")


def plain(text: str, limit: int) -> str:
    """Convert text for use in a stub: one line of at most ``limit`` characters."""
    line = _ID_LIKE.sub("# ", _INVISIBLE.sub(" ", text[: 4 * limit])).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def stub(what: str, *facts: str) -> str:
    """Describe an object, with facts about it in brackets: ``Read src/a.py lines 1-20 (20 lines, 1 KB)``."""
    suffix = ", ".join(fact for fact in facts if fact)
    suffix = f" ({plain(suffix, 70)})" if suffix else ""
    return plain(what, LONGEST - len(suffix)) + suffix


def amount(characters: int) -> str:
    """Write a size in bytes with a unit."""
    for unit, size in (("MB", 1_000_000), ("KB", 1_000)):
        if characters >= size:
            return f"{characters / size:.1f} {unit}" if characters < 10 * size else f"{characters // size} {unit}"
    return f"{characters} B"


def with_amount(line: str, characters: int) -> str:
    """Add the size of an object to its line if it is large."""
    return f"{line} ({amount(characters)})" if characters >= SIZE_FROM else line


def render_count(number: int, thing: str) -> str:
    """Write a count: ``1 line``, ``3 lines``."""
    plural = "es" if thing.endswith(("ch", "s")) else "s"
    return f"{number:,} {thing}{'' if number == 1 else plural}"


def render_types(types: Sequence[str]) -> str:
    """Write the number of items of each type, in order of first occurrence: ``2 images and 1 document``."""
    return " and ".join(render_count(types.count(name), name) for name in dict.fromkeys(types))


def attachment(block: Mapping[str, Any]) -> str:
    """Describe an image or document by type and size: ``image png 1200x800, 340 KB``, ``document pdf, 2 pages,
    9 KB``.
    """
    kind = str(block.get("type"))
    source = block.get("source")
    source = source if isinstance(source, Mapping) else {}
    media = str(source.get("media_type") or source.get("type") or "")
    data = source.get("data")
    facts = [f"{kind} {plain(media.rpartition('/')[2], 30)}".strip()]
    if isinstance(data, str):
        size = image_size(data) if kind == "image" else None
        if size is not None:
            facts[0] += f" {size[0]}x{size[1]}"
        encoded = source.get("type") == "base64"
        pages = count_pages(data) if kind == "document" and encoded else None
        if pages is not None:
            facts.append(render_count(pages, "page"))
        facts.append(amount(len(data) * 3 // 4 if encoded else len(data)))
    elif isinstance(source.get("url"), str):
        facts.append(plain(source["url"], 60))
    title = block.get("title")
    if isinstance(title, str) and title:
        facts.append(plain(title, 60))
    return ", ".join(facts)


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
"""Go reports each package on its own line."""


def test_counts(text: str) -> str:
    """Return the last summary of a test runner, or else the number of tests or packages that passed and failed, with
    the first failed test; empty if the text is not a test run.
    """
    end = text[-4_000:]
    for pattern in _TESTS:
        summaries = pattern.findall(end)
        if summaries:
            return plain(summaries[-1], 60)
    failed, passed = _FAILED_TEST.findall(text), len(_PASSED_TEST.findall(text))
    if failed or passed:
        counts = ", ".join(f"{count} {what}" for count, what in ((len(failed), "failed"), (passed, "passed")) if count)
        return f"{counts}: {plain(failed[0], 40)}" if failed else counts
    packages = ((len(_FAILED_PACKAGE.findall(text)), "failed"), (len(_PASSED_PACKAGE.findall(text)), "passed"))
    if sum(count for count, _ in packages) > 1:
        return ", ".join(f"{render_count(count, 'package')} {what}" for count, what in packages if count)
    return ""


MOST_PARTS = 5
"""How many items of an object its stub names."""

_SHORTEST_SHARED = 12
"""The minimum length of a word that is written only once if several items share it, such as the path of a project."""

_SIZE = r"(?:[\d,]+(?: → [\d,]+)? lines?|[\d.]+ [KM]?B)"
_SIZES = re.compile(rf" \({_SIZE}(?:, {_SIZE})?\)\Z|(?:, {_SIZE})+(?=\)\Z)")
"""Facts that are omitted when an object has several items."""


def parts(stubs: Sequence[str], thing: str, telling: Collection[int] = ()) -> str:
    """Make the stub of an object with several items.

    Items in ``telling`` (by number) get three times the space of others. Space that an item does not need goes to the
    others. Long words, folders of paths, and the role or tool name are written only once, so that the differences have
    space. The items' sizes are omitted.
    """
    if len(stubs) == 1:
        return stubs[0]
    shown = stubs[:MOST_PARTS]
    more = f"; {len(stubs) - len(shown)} more" if len(stubs) > len(shown) else ""
    head = f"{render_count(len(stubs), thing)}: "
    lines = _write_once([_SIZES.sub("", line) for line in shown])
    room = LONGEST - len(head) - len(more) - len(_BETWEEN) * (len(lines) - 1)
    # Later items refer to the first one, which contains the shared words in full, so it gets twice the space.
    is_referenced = any("…" in line for line in lines[1:])
    shares = [3 if n in telling else 2 if is_referenced and n == 0 else 1 for n in range(len(lines))]
    limits = _share_out(room, [len(line) for line in lines], shares)
    text = _BETWEEN.join(_shorten_part(line, limit) for line, limit in zip(lines, limits, strict=True))
    return plain(head + text, LONGEST - len(more)) + more


_BETWEEN = "; "


def _share_out(room: int, needed: Sequence[int], shares: Sequence[int]) -> list[int]:
    """Return the space for each item: at most its need, plus its share of the space that others do not need."""
    limits = [0] * len(needed)
    by_need = sorted(range(len(needed)), key=lambda n: (needed[n] / shares[n], n))
    for place, number in enumerate(by_need):
        remaining = sum(shares[n] for n in by_need[place:])
        limits[number] = min(needed[number], room * shares[number] // remaining)
        room -= limits[number]
    return limits


def _write_once(lines: Sequence[str]) -> list[str]:
    """Shorten each line by what earlier lines contain: a mark replaces long words, folders of a path, and leading
    commands; the role or the tool's name is omitted.
    """
    known: set[str] = set()
    folders: set[str] = set()
    before: list[str] = []
    shortened: list[str] = []
    for line in lines:
        words = line.split(" ")
        words, before = _without_lead(words, before), words
        names = [word.rstrip(":,") for word in words]
        marked = [
            "…" + word[len(name) :] if name in known else _under(word, folders)
            for word, name in zip(words, names, strict=True)
        ]
        once = [word for n, word in enumerate(marked) if word != "…" or n == 0 or marked[n - 1] != "…"]
        shortened.append(" ".join(once))
        known.update(name for name in names if len(name) >= _SHORTEST_SHARED)
        folders.update(folder for name in names if _PATH.fullmatch(name) for folder in _folders(name))
    return shortened


def _without_lead(words: list[str], before: list[str]) -> list[str]:
    """Remove the leading role or tool name, and the leading change of directory, if the line ``before`` begins with the
    same words.
    """
    same = [word for word, _ in takewhile(lambda pair: pair[0] == pair[1], zip(words, before, strict=False))]
    if "&&" in same:
        return ["…", *words[len(same) - same[::-1].index("&&") :]]
    return words[1:] if same and len(words) > 1 else words


_PATH = re.compile(r"(?:[~.]{1,2}|[A-Za-z]:)?(?:/[\w.@+-]+){2,}/?")


def _under(word: str, folders: Collection[str]) -> str:
    """Abbreviate a path by the longest of the known folders, but keep its last part."""
    if not _PATH.fullmatch(word.rstrip(":,")):
        return word
    known = next((folder for folder in reversed(_folders(word)) if folder in folders), None)
    return word if known is None else "…" + word[len(known) :]


def _folders(path: str) -> list[str]:
    """Return the folders that contain a path, outermost first, without those that are too short to be worth a mark."""
    ends = [at for at in range(_SHORTEST_SHARED, len(path)) if path[at] == "/"]
    return [path[:at] for at in ends]


def _shorten_part(line: str, limit: int) -> str:
    """Shorten an item to its space: first its longest path, keeping the end, then the whole, keeping the beginning."""
    paths = [word for word in line.split(" ") if _PATH.fullmatch(word.rstrip(":,"))]
    if len(line) > limit and paths:
        path = max(paths, key=len)
        name = len(path) - path.rstrip("/").rfind("/") + 1
        line = line.replace(path, shorten(path, max(name, len(path) - len(line) + limit)), 1)
    return plain(line, limit)


def shorten(name: str, limit: int) -> str:
    """Shorten a name for a stub. A long path keeps its end, which distinguishes it; any other text keeps its
    beginning.
    """
    line = plain(name, len(name) + 1)
    if len(line) <= limit or " " in line or "/" not in line:
        return plain(name, limit)
    cut = line.find("/", len(line) - limit + 1)
    return plain("…" + line[cut if cut >= 0 else len(line) - limit + 1 :], limit)
