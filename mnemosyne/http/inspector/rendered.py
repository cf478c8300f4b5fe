"""Render a block of a conversation as HTML: Markdown, changes of files, images, and all else as plain text.

The content comes from models, tools and files. All of it is escaped: no HTML of its own, no script, nothing that a
browser would load. A link leads only to http or https, and only by a click.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from functools import cache
from typing import Any

import attrs
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from mnemosyne.domain.wire.blocks import RESULT, as_json, is_any_call
from mnemosyne.terminal import harmless

LONGEST = 64 * 1024
"""Maximum number of characters of a rendered block."""

FIRST_CHARACTERS, FIRST_LINES = 1_200, 14
"""The part of a block that is rendered before it is opened."""

_SHORT = 120
"""Maximum number of characters of an argument that is shown in one line."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
_LARGEST_IMAGE = 8 * 1024 * 1024

_CHANGES = (("old_string", "new_string"), ("oldString", "newString"), ("old_str", "new_str"))
"""The arguments of a call that hold the text to replace and the new text."""

_PATCH = re.compile(r"\s*(?:\*\*\* Begin Patch|diff --git |--- \S|@@ )")
_LINK = re.compile(r"https?://", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class Rendered:
    """A rendered block. ``cut``: it has more text than ``html`` shows."""

    html: Markup
    cut: bool


def render(block: Mapping[str, Any]) -> Rendered:
    """Render a block of the Messages API, up to ``LONGEST`` characters."""
    return _Renderer(LONGEST, LONGEST, whole=True).render(block)


def render_beginning(block: Mapping[str, Any], lines: int = FIRST_LINES) -> Rendered:
    """Render its first lines, of up to ``FIRST_CHARACTERS`` in all, and fewer of fewer lines."""
    return _Renderer(FIRST_CHARACTERS * lines // FIRST_LINES, lines, whole=False).render(block)


@attrs.define
class _Renderer:
    """Renders parts while there is room for ``characters`` and ``lines``."""

    characters: int
    lines: int
    whole: bool
    cut: bool = False

    def render(self, block: Mapping[str, Any]) -> Rendered:
        try:
            return Rendered(html=Markup().join(self._parts(block)), cut=self.cut)
        except RecursionError:
            return Rendered(html=Markup('<p class="hint">Nested too deep to be shown.</p>'), cut=True)

    def _parts(self, block: Mapping[str, Any]) -> Iterator[Markup]:
        match block:
            case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
                yield markdown(self._take(text))
            case {"type": "image", "source": Mapping() as source}:
                yield self._image(source)
            case {"input": given} if is_any_call(block):
                yield from self._input(given)
            case {"content": str(text), "type": str(kind)} if kind.endswith(RESULT):
                yield self._plain(text)
            case {"content": [*parts], "type": str(kind)} if kind.endswith(RESULT):
                for part in parts:
                    match part:
                        case {"type": "text", "text": str(text)}:
                            yield self._plain(text)
                        case Mapping():
                            yield from self._parts(part)
            case _:
                yield self._plain(as_json(block))

    def _input(self, given: object) -> Iterator[Markup]:
        """Render the arguments of a call: short ones in a list, changes of files as such, and other texts in full."""
        if not isinstance(given, Mapping):
            yield self._text("", given if isinstance(given, str) else as_json(given))
            return
        changes = [pair for pair in _CHANGES if all(isinstance(given.get(name), str) for name in pair)]
        rest = {name: value for name, value in given.items() if not any(name in pair for pair in changes)}
        edits = rest.pop("edits", None) if isinstance(rest.get("edits"), list) else None
        short = {name: value if isinstance(value, str) else as_json(value) for name, value in rest.items()}
        long = {name: text for name, text in short.items() if len(text) > _SHORT or "\n" in text}
        rows = [
            Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(harmless(str(name)), self._take(text))
            for name, text in short.items()
            if name not in long
        ]
        if rows:
            yield Markup('<dl class="given">{}</dl>').format(Markup().join(rows))
        for before, after in changes:
            yield self._change(given[before], given[after])
        for edit in edits or ():
            yield from self._input(edit)
        for name, text in long.items():
            yield self._text(str(name), text)

    def _text(self, name: str, text: str) -> Markup:
        title = Markup('<p class="hint">{}</p>').format(harmless(name)) if name else Markup()
        return title + (self._lines_of_change(text.splitlines()) if _PATCH.match(text) else self._plain(text))

    def _change(self, before: str, after: str) -> Markup:
        """Render the difference between two texts; of long texts, their beginnings."""
        self.cut = self.cut or max(len(before), len(after)) > LONGEST
        old, new = (each[:LONGEST].splitlines() for each in (before, after))
        return self._lines_of_change([*unified_diff(old, new, lineterm="")][2:])

    def _lines_of_change(self, lines: Sequence[str]) -> Markup:
        shown = self._take("\n".join(lines)).split("\n")
        marked = (_MARKS.get(line[:1], Markup("{}")).format(line) for line in shown)
        return self._pre("change", Markup("\n").join(marked))

    def _plain(self, text: str) -> Markup:
        return self._pre("", self._take(text)) if text else Markup()

    def _pre(self, name: str, text: str) -> Markup:
        focus = Markup(' tabindex="0"') if self.whole else ""  # only a whole text scrolls
        return Markup('<pre class="{}" dir="auto"{}>{}</pre>').format(name, focus, text)

    def _image(self, source: Mapping[str, Any]) -> Markup:
        kind, data = source.get("media_type"), source.get("data")
        if source.get("type") == "base64" and kind in _IMAGES and isinstance(data, str):
            self.cut = self.cut or not self.whole
            if self.whole and len(data) <= _LARGEST_IMAGE and _BASE64.fullmatch(data):
                return Markup('<img alt="Image in the conversation" src="data:{};base64,{}">').format(kind, data)
            return Markup('<p class="hint">{}, {:,} bytes</p>').format(kind, len(data) * 3 // 4)
        where = source.get("url") or source.get("file_id") or kind or source.get("type")
        return Markup('<p class="hint">Image, not loaded: {}</p>').format(self._take(str(where)))

    def _take(self, text: str) -> str:
        """Return the part of a text that there is room for."""
        lines = text[: self.characters].split("\n", self.lines)
        shown = "\n".join(lines[: self.lines])
        self.cut = self.cut or len(shown) < len(text)
        self.characters -= len(shown)
        self.lines -= min(len(lines), self.lines)
        return harmless(shown)


_MARKS = {"+": Markup("<ins>{}</ins>"), "-": Markup("<del>{}</del>"), "@": Markup('<span class="hint">{}</span>')}


def markdown(text: str) -> Markup:
    """Render Markdown without its HTML and images; headings do not join the headings of the page."""
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        _tame(token)
    return Markup(parser.renderer.render(tokens, parser.options, {}))


def _tame(token: Token) -> None:
    if token.type.startswith("heading_"):
        token.tag = "p"
        if token.nesting == 1:
            token.attrSet("class", "heading")
    elif token.type in ("fence", "code_block"):
        token.info = ""
    elif token.type == "link_open":
        token.attrSet("rel", "noopener noreferrer")
        token.attrSet("title", str(token.attrGet("href")))
    for child in token.children or ():
        _tame(child)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["image"])
    parser.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]
    return parser
