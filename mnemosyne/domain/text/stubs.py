"""Stubs: one line that says what an object was, made from its structure alone.

What a tool or a person wrote is data: inside a stub it is one line, bounded, without control characters, and it cannot
look like an object's id (``#a1b2``) as a stub on the wire begins with one.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mnemosyne.domain.text.media_sizes import count_pages, image_size

LONGEST = 240
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


def test_counts(text: str) -> str:
    """What a test runner said last of how many passed; empty if it is no test run."""
    end = text[-4_000:]
    for pattern in _TESTS:
        found = pattern.findall(end)
        if found:
            return plain(found[-1], 60)
    failed, passed = end.count("--- FAIL"), end.count("--- PASS")
    if failed or passed:
        return ", ".join(f"{count} {what}" for count, what in ((failed, "failed"), (passed, "passed")) if count)
    return ""


MOST_PARTS = 5
"""Things of one object that its stub names."""

_TOLD_ONCE = 12
"""Characters of a word that is told but once where several things share it, such as the path of a project."""

_FACTS = re.compile(r" \([^()]*\)\Z")


def parts(stubs: Sequence[str], thing: str, telling: Collection[int] = ()) -> str:
    """The stub of several things in one object. Those that are ``telling``, by number, have twice the room of others.

    A long word that the one before has, too, is told once, so that what tells them apart has room.
    """
    if len(stubs) == 1:
        return stubs[0]
    shown = range(min(MOST_PARTS, len(stubs)))
    more = f"; {len(stubs) - len(shown)} more" if len(stubs) > len(shown) else ""
    head = f"{render_count(len(stubs), thing)}: "
    room = LONGEST - len(head) - len(more)
    shares = {number: 2 if number in telling else 1 for number in shown}
    known: set[str] = set()
    said: list[str] = []
    for number in shown:
        words = _FACTS.sub("", stubs[number]).split(" ")
        line = _without(words, known)
        known.update(word.rstrip(":,") for word in words if len(word) >= _TOLD_ONCE)
        each = max(_SHORTEST_PART, room * shares[number] // sum(shares[n] for n in shown if n >= number) - 2)
        said.append(plain(line, each))
        room -= len(said[-1]) + 2
    return plain(head + "; ".join(said), LONGEST - len(more)) + more


_SHORTEST_PART = 12


def _without(words: Sequence[str], known: Collection[str]) -> str:
    """The words with a mark for those that are known."""
    marked = ["…" if word.rstrip(":,") in known else word for word in words]
    return " ".join(word for n, word in enumerate(marked) if word != "…" or n == 0 or marked[n - 1] != "…")


def shorten(name: str, limit: int) -> str:
    """A name as a stub may hold it: of a path that is too long its end, which tells it from others; of any other text
    its beginning.
    """
    line = plain(name, len(name) + 1)
    if len(line) <= limit or " " in line or "/" not in line:
        return plain(name, limit)
    cut = line.find("/", len(line) - limit + 1)
    return plain("…" + line[cut if cut >= 0 else len(line) - limit + 1 :], limit)
