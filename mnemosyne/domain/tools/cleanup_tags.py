"""Cleanup tags: directives about its own memory that the model writes into its reply's text.

The grammar is in ``docs/memory-tools.md``. A block counts only at the beginning of a line of the reply's own text: not
in thinking, calls and results, not in fenced code, behind a ``>`` or inside a sentence. It is hidden from the client
and stays in what is sent back to the provider. Whatever merely looks like a block is text, and is shown.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.text.stubs import plain

OPENING, CLOSING = "<memory_cleanup>", "</memory_cleanup>"

LONGEST_BLOCK = 8_192
"""Characters. A longer one is text."""

# A stream's text


@attrs.frozen
class ShownText:
    """Text for the client."""

    text: str


@attrs.frozen
class Hidden:
    """A block with its tags and line ends. Only one that is ``closed`` is obeyed: another was cut short."""

    text: str
    closed: bool


Piece = ShownText | Hidden

_FENCE = re.compile(r"[\s>]*(`{3,}|~{3,})([^\n]*)")
_FENCE_READ = 200
"""Characters of a line that are looked at for a fence."""

_DIRECTIVES = ("drop", "summarize", "anchor", "collapse", "declare_losses")
_DIRECTIVE = re.compile(rf"[ \t]*({'|'.join(_DIRECTIVES)})[ \t]*:(.*)", re.DOTALL)

_TELLING = len("<memory_")
"""So much of an opening tag, at the end of a text, is a tag that was cut short; less of it may be anything."""


class TagFilter:
    """Takes one text block as it streams and gives its pieces in order: together they are what was fed.

    Text is held back only as long as it may be the beginning of a block. What is shown and what is hidden does not
    depend on where the stream was cut.
    """

    def __init__(self) -> None:
        self._line = ""  # the current line; if it is passing, its beginning
        self._passing = False  # whether the current line is shown as it comes
        self._block: list[str] = []  # the lines of a block before the current one
        self._length = 0  # theirs together
        self._fence = ""  # that of the code that the current line is in

    def feed(self, text: str) -> list[Piece]:
        """The pieces that the next text completes."""
        return [piece for part in _LINES.findall(text) for piece in self._take(part)]

    def end(self) -> list[Piece]:
        """The last pieces, once the text block is complete."""
        held = "".join(self._block) + ("" if self._passing else self._line)
        line = self._line.strip()
        if not held:
            return []
        if not self._block:
            return [Hidden(held, closed=False) if len(line) >= _TELLING else ShownText(held)]
        if line == CLOSING:
            return [Hidden(held, closed=True)]
        cut = CLOSING.startswith(line) or _DIRECTIVE.match(line) or any(each.startswith(line) for each in _DIRECTIVES)
        return [Hidden(held, closed=False) if cut else ShownText(held)]

    def _take(self, part: str) -> list[Piece]:
        """A part of one line; it ends with the line's end if that has come."""
        if self._passing:
            self._line = (self._line + part)[:_FENCE_READ]
            return self._show(part, ended=part.endswith("\n"))
        self._line += part
        return self._inside() if self._block else self._outside()

    def _outside(self) -> list[Piece]:
        line, ended = self._line, self._line.endswith("\n")
        tag = line.rstrip()
        if self._fence or not (tag == OPENING or (OPENING.startswith(line) and not ended)) or len(line) > LONGEST_BLOCK:
            return self._show(line, ended=ended)
        if ended:
            self._block, self._length, self._line = [line], len(line), ""
        return []

    def _inside(self) -> list[Piece]:
        line, ended = self._line, self._line.endswith("\n")
        if ended and line.strip() == CLOSING:
            held, self._block, self._line = "".join([*self._block, line]), [], ""
            return [Hidden(held, closed=True)]
        long = self._length + len(line) > LONGEST_BLOCK
        if long or (ended and line.strip() and not _DIRECTIVE.match(line)):  # it is no block
            held, self._block = "".join(self._block), []
            return [ShownText(held), *self._outside()]
        if ended:
            self._block.append(line)
            self._length += len(line)
            self._line = ""
        return []

    def _show(self, text: str, *, ended: bool) -> list[Piece]:
        self._passing = not ended
        if ended:
            self._fence = _fence_after(self._fence, self._line)
            self._line = ""
        return [ShownText(text)]


_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def _fence_after(fence: str, line: str) -> str:
    """The fence of the code that the line after this one is in. Where in doubt, it is in code."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found.group(1)
    closes = found.group(1).startswith(fence) and not found.group(2).strip()
    return "" if closes else fence


# Directives


@attrs.frozen
class Drop:
    """These objects are needed no longer."""

    object_ids: tuple[str, ...]


@attrs.frozen
class TagSummary:
    """This text may stand for the object; ``dropped`` is what the model says that it lacks."""

    object_id: str
    text: str
    dropped: tuple[str, ...] = ()


@attrs.frozen
class Anchor:
    """These objects are to stay."""

    object_ids: tuple[str, ...]
    why: str


@attrs.frozen
class Collapse:
    """This text may stand for what was said and done in the turns ``first`` to ``last``."""

    first: int
    last: int
    text: str


Directive = Drop | TagSummary | Anchor | Collapse


@attrs.frozen
class Ignored:
    """What has no effect, and why."""

    text: str
    reason: str


MOST_IDS = 50
"""Objects in one directive."""

MOST_DIRECTIVES = 32
"""Directives in one block."""

_ID = re.compile(rf"{MARK}([0-9A-Za-z]{{1,40}})")
_TURNS = re.compile(r"turns?\s+(\d{1,6})(?:\s*-\s*(\d{1,6}))?", re.ASCII)


def of_reply(message: Mapping[str, Any]) -> tuple[Directive | Ignored, ...]:
    """The directives in a reply's own text. A message that is not the assistant's has none."""
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, list):
        return ()
    texts = [each.get("text") for each in content if isinstance(each, dict) and each.get("type") == "text"]
    return tuple(directive for text in texts if isinstance(text, str) for directive in parse(text))


def visible(text: str) -> str:
    """The text of a text block of a reply as the client sees it."""
    if OPENING[:_TELLING] not in text:
        return text
    return "".join(piece.text for piece in _pieces(text) if isinstance(piece, ShownText))


def visible_blocks(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The content blocks of a reply as the client sees them, without those of which only blanks are left."""
    seen = []
    for block in blocks:
        said = block.get("text") if block.get("type") == "text" else None
        text = said if isinstance(said, str) else ""
        shown = visible(text)
        if shown == text:
            seen.append(dict(block))
        elif shown.strip():
            seen.append({**block, "text": shown})
    return seen


def parse(text: str) -> tuple[Directive | Ignored, ...]:
    """The directives in one text block of a reply, in order; what declares losses goes with its summary. Total."""
    if OPENING[:_TELLING] not in text:
        return ()
    found: list[Directive | Ignored] = []
    for piece in _pieces(text):
        if isinstance(piece, Hidden):
            found += _directives(piece) if piece.closed else [Ignored(plain(piece.text, 80), "the block has no end")]
    return tuple(found)


def _pieces(text: str) -> list[Piece]:
    tags = TagFilter()
    return [*tags.feed(text), *tags.end()]


def _directives(block: Hidden) -> list[Directive | Ignored]:
    found: list[Directive | Ignored] = []
    for line in [line.strip() for line in block.text.split("\n")[1:] if line.strip() not in ("", CLOSING)]:
        if len(found) == MOST_DIRECTIVES:
            return [*found, Ignored(plain(line, 80), f"more than {MOST_DIRECTIVES} directives")]
        directive = _directive(line)
        if isinstance(directive, _Losses):
            _declare(found, directive, line)
        else:
            found.append(directive)
    return found


@attrs.frozen
class _Losses:
    object_id: str
    text: str


def _declare(found: list[Directive | Ignored], losses: _Losses, line: str) -> None:
    """Add losses to the summary above that they belong to."""
    for number, each in enumerate(found):
        if isinstance(each, TagSummary) and each.object_id == losses.object_id:
            found[number] = attrs.evolve(each, dropped=(*each.dropped, losses.text))
            return
    found.append(Ignored(plain(line, 80), "no summary of this object stands above it"))


def _directive(line: str) -> Directive | _Losses | Ignored:
    match = _DIRECTIVE.fullmatch(line)
    assert match is not None, "the filter lets nothing else into a block"
    name, rest = match.groups()
    about, text = _about_and_text(rest)
    ids = _ids(about)
    turns = _TURNS.fullmatch(about)
    if len(ids) > MOST_IDS:
        return Ignored(plain(line, 80), f"more than {MOST_IDS} objects")
    if name == "drop" and ids and text is None:
        return Drop(ids)
    if name == "anchor" and ids:
        return Anchor(ids, plain(text or "", 200))
    if name == "summarize" and len(ids) == 1 and text:
        return TagSummary(ids[0], text)
    if name == "declare_losses" and len(ids) == 1 and text:
        return _Losses(ids[0], plain(text, 200))
    if name == "collapse" and turns and text:
        first, last = int(turns[1]), int(turns[2] or turns[1])
        return Collapse(first, last, text) if first <= last else Ignored(plain(line, 80), "the turns are in disorder")
    return Ignored(plain(line, 80), f"it is not {_FORMS[name]}")


_FORMS = {
    "drop": "drop: #id, #id",
    "anchor": 'anchor: #id "why"',
    "summarize": 'summarize: #id "text"',
    "declare_losses": 'declare_losses: #id "text"',
    "collapse": 'collapse: turns 1-2 "text"',
}


def _about_and_text(rest: str) -> tuple[str, str | None]:
    """What a directive is about, and the JSON string at its end; None where there is none."""
    about, quote, text = rest.partition('"')
    try:
        said = json.loads(quote + text) if quote else None
    except ValueError:
        return rest.strip(), None
    return about.strip(), said.encode("utf-8", "replace").decode().strip() if isinstance(said, str) else None


def _ids(about: str) -> tuple[str, ...]:
    """The ids that it lists, each once; none if anything else is among them."""
    found = [_ID.fullmatch(each) for each in about.replace(",", " ").split()]
    return tuple(dict.fromkeys(each[1] for each in found if each)) if all(found) else ()
