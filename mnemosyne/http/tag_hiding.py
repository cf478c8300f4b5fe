"""Cleanup blocks left out of a stream, sans-I/O: the frames of a round in, those that the client may see out.

The grammar is ``domain/tools/cleanup_tags.py``'s; here its decisions on text become decisions on frames.
"""

from collections import deque
from collections.abc import Iterable

import attrs

from mnemosyne.domain.tools.cleanup_tags import Hidden, Piece, TagFilter
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.http import sse
from mnemosyne.http.splicing import Message
from mnemosyne.http.sse import Frame

Taken = tuple[Frame, Message]
"""A frame and the event in it, which is empty where there is none."""

_ENDING = ("content_block_start", "message_start", "message_delta", "message_stop", "error")
"""After these, no more text comes of the block before them."""


def kind_of(frame: Frame, event: Message) -> object:
    """The type of an event; the name of its frame where it says none."""
    return event.get("type") or (frame.event or b"").decode(errors="replace")


class TagHiding:
    """Takes the frames of one round in order and gives back those that the client may see, in the same order.

    A frame leaves once all its text is decided, and as it came if none of that is hidden. A text block begins with its
    first text that is not blank, so that nothing is left of one that holds cleanup blocks alone. What comes between
    waits its turn.
    """

    def __init__(self) -> None:
        self.hid = False
        """Whether anything was left out."""
        self._tags: TagFilter | None = None
        """Of the text block that is open."""
        self._index: object = None
        self._begun = False
        """Whether any of its text is shown that is not blank."""
        self._lacks = False
        """Whether any of its text is hidden."""
        self._waiting: deque[_Waiting] = deque()
        self._undecided: deque[_Waiting] = deque()
        """Those of them that hold undecided text."""

    @property
    def holds_text(self) -> bool:
        """Whether text waits that is not decided."""
        return bool(self._undecided)

    def take(self, frame: Frame, event: Message) -> list[Taken]:
        """The frames that the next one lets go."""
        kind = kind_of(frame, event)
        if self._tags is None:
            if kind != "content_block_start" or not _is_text(event.get("content_block")):
                return [(frame, event)]
            self._tags, self._index = TagFilter(), event.get("index")
            self._begun = self._lacks = False
            return self._add(self._tags, frame, event, event["content_block"])
        if kind == "content_block_stop" and event.get("index") == self._index:
            return self._close((frame, event))
        if kind in _ENDING:
            return [*self._close(), *self.take(frame, event)]
        own = kind == "content_block_delta" and event.get("index") == self._index
        return self._add(self._tags, frame, event, event.get("delta") if own else None)

    def end(self) -> list[Taken]:
        """The frames that are left when the round ends, in good order or not."""
        return self._close()

    def _add(self, tags: TagFilter, frame: Frame, event: Message, said: object) -> list[Taken]:
        """A frame in the midst of a text block; ``said`` is what of it belongs to the block."""
        text = _text_of(said)
        pieces = tags.feed(text)
        if self._begun and not self._waiting and _measure_shown(pieces) == len(text):
            return [(frame, event)]
        waiting = _Waiting(frame, event, said is not None, text, len(text))
        self._waiting.append(waiting)
        if text:
            self._undecided.append(waiting)
        self._decide(pieces)
        return self._leaving() if self._begun else []

    def _decide(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            hidden, text = isinstance(piece, Hidden), piece.text
            self._lacks = self._lacks or hidden
            self._begun = self._begun or not (hidden or text.isspace())
            while text:
                text = self._undecided[0].decide(text, hidden=hidden)
                if not self._undecided[0].undecided:
                    self._undecided.popleft()
        self.hid = self.hid or self._lacks

    def _leaving(self) -> list[Taken]:
        leaving: list[Taken] = []
        while self._waiting and not self._waiting[0].undecided:
            leaving += self._waiting.popleft().render()
        return leaving

    def _close(self, *stop: Taken) -> list[Taken]:
        """The block is over; ``stop`` is the frame that says so, if one does."""
        if self._tags is None:
            return []
        self._decide(self._tags.end())
        self._tags = None
        if self._begun or not self._lacks:
            return [*self._leaving(), *stop]
        others = [(each.frame, each.event) for each in self._waiting if not each.own]
        self._waiting.clear()
        return others


@attrs.define
class _Waiting:
    """A frame with a ``text``, of which the last ``undecided`` characters are to be shown or hidden yet. ``own``: it is
    the open block's.
    """

    frame: Frame
    event: Message
    own: bool
    text: str
    undecided: int
    shown: str = ""

    def decide(self, text: str, *, hidden: bool) -> str:
        """Show or hide the text that comes next; what of it belongs to later frames."""
        part = text[: self.undecided]
        self.undecided -= len(part)
        if not hidden:
            self.shown += part
        return text[len(part) :]

    def render(self) -> list[Taken]:
        """The frame as the client may see it."""
        if self.shown == self.text:
            return [(self.frame, self.event)]
        member = "content_block" if "content_block" in self.event else "delta"
        if member == "delta" and not self.shown:
            return []
        event = {**self.event, member: {**self.event[member], "text": self.shown}}
        kind, data = self.frame.event or b"", as_json(event)
        return [(Frame(sse.write(kind, data), kind, data), event)]


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "text"


def _text_of(said: object) -> str:
    """The text in a text block's start or in a delta of it, as ``ReplyBuilder`` reads it."""
    text = said.get("text") if isinstance(said, dict) and said.get("type") in ("text", "text_delta") else None
    return text if isinstance(text, str) else ""


def _measure_shown(pieces: Iterable[Piece]) -> int:
    return sum(len(piece.text) for piece in pieces if not isinstance(piece, Hidden))
