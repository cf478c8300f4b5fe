"""Stubs: one line that says what an object was, made from its structure alone.

Text from a tool or a person is data: within a stub it is one line of limited length, without control characters, and it
cannot look like an object's id (``#a1b2``), the beginning of a stub sent upstream.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mnemosyne.domain.text.media_sizes import count_pages, image_size

LONGEST = 320
"""The maximum length of a stub, in characters."""

SIZE_FROM = 4_000
"""From this many characters on, about 1,200 tokens, the size of an object is added to its line."""

ELLIPSIS = "…"
"""Mark of a cut."""

_INVISIBLE = re.compile(
    r"[\x00-\x20\x7f-\xa0\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]+"
)
_ID_LIKE = re.compile(r"#(?=\w)")


def plain(text: str, limit: int) -> str:
    """Convert text for use in a stub: one line of at most ``limit`` characters."""
    line = _ID_LIKE.sub("# ", _INVISIBLE.sub(" ", text[: 4 * limit])).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + ELLIPSIS


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


def test_counts(text: str) -> str:
    """Return the last summary of a test runner; empty if the text has none."""
    end = text[-4_000:]
    summaries = next(filter(None, (pattern.findall(end) for pattern in _TESTS)), [""])
    return plain(summaries[-1], 60)


MOST_PARTS = 5
"""How many items of an object its stub names."""

_SIZE = r"(?:[\d,]+(?: → [\d,]+)? lines?|[\d.]+ [KM]?B)"
_SIZES = re.compile(rf" \({_SIZE}(?:, {_SIZE})?\)\Z|(?:, {_SIZE})+(?=\)\Z)")
"""Facts that are omitted when an object has several items."""


def parts(stubs: Sequence[str], thing: str) -> str:
    """Make the stub of an object with several items. The items' sizes are omitted, and space that an item does not need
    goes to the others.
    """
    if len(stubs) == 1:
        return stubs[0]
    shown = [_SIZES.sub("", line) for line in stubs[:MOST_PARTS]]
    more = f"; {len(stubs) - len(shown)} more" if len(stubs) > len(shown) else ""
    head = f"{render_count(len(stubs), thing)}: "
    limits = _share_out(LONGEST - len(head) - len(more) - 2 * (len(shown) - 1), list(map(len, shown)))
    text = "; ".join(_shorten_item(line, limit) for line, limit in zip(shown, limits, strict=True))
    return plain(head + text, LONGEST - len(more)) + more


def _share_out(room: int, needed: Sequence[int]) -> list[int]:
    """Return the space for each item: at most its need, plus its share of the space that others do not need."""
    limits = [0] * len(needed)
    for place, number in enumerate(sorted(range(len(needed)), key=needed.__getitem__)):
        limits[number] = min(needed[number], room // (len(needed) - place))
        room -= limits[number]
    return limits


def _shorten_item(line: str, limit: int) -> str:
    """Shorten an item to its space: first its longest path, keeping the file name, then the whole, keeping the
    beginning.
    """
    path = max((word for word in line.split(" ") if "/" in word), key=len, default="")
    if len(line) > limit and path:
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
    return plain(ELLIPSIS + line[cut if cut >= 0 else len(line) - limit + 1 :], limit)
