"""Cleanup tags: directives about its own memory that the model writes in its reply's text.

The grammar is in ``docs/memory-tools.md``. A block counts only at the beginning of a line of the reply's own text: not
in thinking, calls or results, not in fenced code, after a ``>`` or inside a sentence. It is hidden from the client and
kept in what is sent back to the provider. Anything that merely looks like a block is text and is shown.
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
"""The maximum length of a block, in characters. A longer one is text."""

# A stream's text


@attrs.frozen
class ShownText:
    """Text for the client."""

    text: str


@attrs.frozen
class Hidden:
    """A block with its tags and line ends. Only a ``closed`` one is applied: others were cut short."""

    text: str
    closed: bool


Piece = ShownText | Hidden

_FENCE = re.compile(r"[\s>]*(`{3,}|~{3,})([^\n]*)")
_FENCE_READ = 200
"""How many characters of a line are checked for a fence."""

_DIRECTIVES = ("drop", "summarize", "anchor", "collapse", "declare_losses")
_DIRECTIVE = re.compile(rf"[ \t]*({'|'.join(_DIRECTIVES)})[ \t]*:(.*)", re.DOTALL)

_SHORTEST_CUT_TAG = len("<memory_")
"""From this length on, an incomplete opening tag at the end of a text is a tag that was cut short."""


class TagFilter:
    """Splits a text block into pieces as it streams. Together, the pieces are the text that was fed.

    Text is held back only as long as it may begin a block. The result does not depend on where the stream was cut.
    """

    def __init__(self) -> None:
        self._line = ""  # the current line, or its beginning if it is being passed through
        self._passing = False  # whether the current line is shown as it arrives
        self._block: list[str] = []  # the lines of a block before the current one
        self._length = 0  # their total length
        self._fence = ""  # the fence of the code that contains the current line

    def feed(self, text: str) -> list[Piece]:
        return [piece for part in _LINES.findall(text) for piece in self._take(part)]

    def end(self) -> list[Piece]:
        """Return the last pieces, after the end of the text block."""
        pending = "".join(self._block) + ("" if self._passing else self._line)
        line = self._line.strip()
        if not pending:
            return []
        if not self._block:
            return [Hidden(pending, closed=False) if len(line) >= _SHORTEST_CUT_TAG else ShownText(pending)]
        if line == CLOSING:
            return [Hidden(pending, closed=True)]
        cut = CLOSING.startswith(line) or _DIRECTIVE.match(line) or any(name.startswith(line) for name in _DIRECTIVES)
        return [Hidden(pending, closed=False) if cut else ShownText(pending)]

    def _take(self, part: str) -> list[Piece]:
        """Process a part of one line, which includes the line's end if that has arrived."""
        if self._passing:
            self._line = (self._line + part)[:_FENCE_READ]
            return self._show(part, ended=part.endswith("\n"))
        self._line += part
        return self._process_block_line() if self._block else self._process_text_line()

    def _process_text_line(self) -> list[Piece]:
        line, ended = self._line, self._line.endswith("\n")
        tag = line.rstrip()
        if self._fence or not (tag == OPENING or (OPENING.startswith(line) and not ended)) or len(line) > LONGEST_BLOCK:
            return self._show(line, ended=ended)
        if ended:
            self._block, self._length, self._line = [line], len(line), ""
        return []

    def _process_block_line(self) -> list[Piece]:
        line, ended = self._line, self._line.endswith("\n")
        if ended and line.strip() == CLOSING:
            pending, self._block, self._line = "".join([*self._block, line]), [], ""
            return [Hidden(pending, closed=True)]
        long = self._length + len(line) > LONGEST_BLOCK
        if long or (ended and line.strip() and not _DIRECTIVE.match(line)):  # it is not a block
            pending, self._block = "".join(self._block), []
            return [ShownText(pending), *self._process_text_line()]
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
    """Return the fence that is open after this line. If in doubt, the next line is code."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return match.group(1)
    closes = match.group(1).startswith(fence) and not match.group(2).strip()
    return "" if closes else fence


# Directives


@attrs.frozen
class Drop:
    """The model no longer needs these objects."""

    object_ids: tuple[str, ...]


@attrs.frozen
class TagSummary:
    """A summary that may replace the object; ``dropped`` are the losses that the model declares."""

    object_id: str
    text: str
    dropped: tuple[str, ...] = ()


@attrs.frozen
class Anchor:
    """The model needs these objects to stay."""

    object_ids: tuple[str, ...]
    why: str


@attrs.frozen
class Collapse:
    """A summary that may replace the turns ``first`` to ``last``."""

    first: int
    last: int
    text: str


Directive = Drop | TagSummary | Anchor | Collapse


@attrs.frozen
class Ignored:
    """A directive without effect, and why."""

    text: str
    reason: str


MOST_IDS = 50
"""Maximum number of objects in one directive."""

MOST_DIRECTIVES = 32
"""Maximum number of directives in one block."""

_ID = re.compile(rf"{MARK}([0-9A-Za-z]{{1,40}})")
_TURNS = re.compile(r"turns?\s+(\d{1,6})(?:\s*-\s*(\d{1,6}))?", re.ASCII)


def of_reply(message: Mapping[str, Any]) -> tuple[Directive | Ignored, ...]:
    """Return the directives in a reply's own text. A message that is not the assistant's has none."""
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, list):
        return ()
    texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    return tuple(directive for text in texts if isinstance(text, str) for directive in parse(text))


def visible(text: str) -> str:
    """Return a reply's text as the client sees it."""
    if OPENING[:_SHORTEST_CUT_TAG] not in text:
        return text
    return "".join(piece.text for piece in _pieces(text) if isinstance(piece, ShownText))


def visible_blocks(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the content blocks of a reply as the client sees them, without those that become blank."""
    seen = []
    for block in blocks:
        content = block.get("text") if block.get("type") == "text" else None
        text = content if isinstance(content, str) else ""
        shown = visible(text)
        if shown == text:
            seen.append(dict(block))
        elif shown.strip():
            seen.append({**block, "text": shown})
    return seen


def parse(text: str) -> tuple[Directive | Ignored, ...]:
    """Return the directives in one text block of a reply, in order, declared losses included in their summaries. Never
    raises.
    """
    if OPENING[:_SHORTEST_CUT_TAG] not in text:
        return ()
    directives: list[Directive | Ignored] = []
    for piece in _pieces(text):
        if isinstance(piece, Hidden):
            directives += (
                _directives(piece) if piece.closed else [Ignored(plain(piece.text, 80), "the block has no end")]
            )
    return tuple(directives)


def _pieces(text: str) -> list[Piece]:
    tags = TagFilter()
    return [*tags.feed(text), *tags.end()]


def _directives(block: Hidden) -> list[Directive | Ignored]:
    directives: list[Directive | Ignored] = []
    for line in [line.strip() for line in block.text.split("\n")[1:] if line.strip() not in ("", CLOSING)]:
        if len(directives) == MOST_DIRECTIVES:
            return [*directives, Ignored(plain(line, 80), f"more than {MOST_DIRECTIVES} directives")]
        directive = _directive(line)
        if isinstance(directive, _Losses):
            _declare(directives, directive, line)
        else:
            directives.append(directive)
    return directives


@attrs.frozen
class _Losses:
    object_id: str
    text: str


def _declare(directives: list[Directive | Ignored], losses: _Losses, line: str) -> None:
    """Add losses to the earlier summary of the same object."""
    for number, directive in enumerate(directives):
        if isinstance(directive, TagSummary) and directive.object_id == losses.object_id:
            directives[number] = attrs.evolve(directive, dropped=(*directive.dropped, losses.text))
            return
    directives.append(Ignored(plain(line, 80), "no summary of this object stands above it"))


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
    """Return the subject of a directive, and the JSON string at its end, if any."""
    about, quote, text = rest.partition('"')
    try:
        value = json.loads(quote + text) if quote else None
    except ValueError:
        return rest.strip(), None
    return about.strip(), value.encode("utf-8", "replace").decode().strip() if isinstance(value, str) else None


def _ids(about: str) -> tuple[str, ...]:
    """Return the ids in a list, each once; empty if it contains anything else."""
    matches = [_ID.fullmatch(word) for word in about.replace(",", " ").split()]
    return tuple(dict.fromkeys(match[1] for match in matches if match)) if all(matches) else ()
