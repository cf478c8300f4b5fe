"""Remove cleanup blocks from a stream, sans-I/O: a round's frames in, the visible frames out.

``domain/tools/cleanup_tags.py`` decides which text is hidden; this module applies its decisions to frames.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import Protocol

import attrs

from mnemosyne.domain.tools.cleanup_tags import Hidden, Piece, TagFilter
from mnemosyne.domain.wire.reply import as_json, text_or_none
from mnemosyne.http import sse
from mnemosyne.http.splicing import Message
from mnemosyne.http.sse import Frame

Taken = tuple[Frame, Message]
"""A frame and its event, which may be empty."""

Place = object
"""Identifies the text of a reply that an event belongs to."""


class Texts(Protocol):
    """Finds the texts of a reply in a dialect's events."""

    @property
    def breaking(self) -> Collection[str]:
        """Kinds of events that end the open text."""

    def find_begun(self, kind: object, event: Message) -> tuple[Place, str] | None:
        """Return the text that begins with the event, and its first part; None if none begins."""

    def find_added(self, kind: object, event: Message) -> tuple[Place, str] | None:
        """Return the text that the event extends, and the added part; None if it extends none."""

    def find_ended(self, kind: object, event: Message) -> Place | None:
        """Return the text that ends with the event."""

    def with_text(self, event: Message, text: str) -> Message | None:
        """Replace the event's text; None if the event is then unnecessary."""


def kind_of(frame: Frame, event: Message) -> str | None:
    """Return an event's type, or its frame's name if it has none."""
    kind = event.get("type") or (frame.event or b"").decode(errors="replace")
    return kind if isinstance(kind, str) else None


class TagHiding:
    """Takes the frames of one round and returns the visible ones in the same order.

    A frame is released once all its text is decided, and unchanged if none of that is hidden. A text block is opened at
    its first non-blank text, so that nothing remains of a block with only cleanup blocks. Frames in between keep their
    order.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.hid = False
        """Whether anything was hidden."""
        self._tags: TagFilter | None = None
        """Filter of the open text."""
        self._place: Place = None
        self._begun = False
        """Whether any non-blank part of the text is shown."""
        self._lacks = False
        """Whether any part of the text is hidden."""
        self._waiting: deque[_Waiting] = deque()
        self._undecided: deque[_Waiting] = deque()
        """The waiting frames with undecided text."""

    @property
    def holds_text(self) -> bool:
        """Whether undecided text is held."""
        return bool(self._undecided)

    def take(self, frame: Frame, event: Message) -> list[Taken]:
        """Take the next frame; return the frames that it releases."""
        kind = kind_of(frame, event)
        if self._tags is None:
            begun = self._texts.find_begun(kind, event)
            if begun is None:
                return [(frame, event)]
            self._tags, self._place = TagFilter(), begun[0]
            self._begun = self._lacks = False
            return self._add(self._tags, frame, event, begun[1])
        if self._texts.find_ended(kind, event) == self._place:
            return self._close((frame, event))
        if kind in self._texts.breaking:
            return [*self._close(), *self.take(frame, event)]
        added = self._texts.find_added(kind, event)
        return self._add(self._tags, frame, event, added[1] if added is not None and added[0] == self._place else None)

    def end(self) -> list[Taken]:
        """Return the remaining frames at the end of the round, regular or not."""
        return self._close()

    def _add(self, tags: TagFilter, frame: Frame, event: Message, added: str | None) -> list[Taken]:
        """Add a frame while a text is open; ``added`` is its text, None if the frame does not belong to it."""
        text = added or ""
        pieces = tags.feed(text)
        if self._begun and not self._waiting and _measure_shown(pieces) == len(text):
            return [(frame, event)]
        waiting = _Waiting(frame, event, added is not None, text, len(text))
        self._waiting.append(waiting)
        if text:
            self._undecided.append(waiting)
        self._decide(pieces)
        return self._outgoing() if self._begun else []

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

    def _outgoing(self) -> list[Taken]:
        outgoing: list[Taken] = []
        while self._waiting and not self._waiting[0].undecided:
            outgoing += self._waiting.popleft().render(self._texts)
        return outgoing

    def _close(self, *stop: Taken) -> list[Taken]:
        """End the open text; ``stop`` is the frame that ends it, if any."""
        if self._tags is None:
            return []
        self._decide(self._tags.end())
        self._tags = None
        if self._begun or not self._lacks:
            return [*self._outgoing(), *stop]
        others = [(waiting.frame, waiting.event) for waiting in self._waiting if not waiting.own]
        self._waiting.clear()
        return others


@attrs.define
class _Waiting:
    """A held frame; the last ``undecided`` characters of its ``text`` are not decided yet. ``own``: it belongs to the
    open text.
    """

    frame: Frame
    event: Message
    own: bool
    text: str
    undecided: int
    shown: str = ""

    def decide(self, text: str, *, hidden: bool) -> str:
        """Show or hide the next text; return the part that belongs to later frames."""
        part = text[: self.undecided]
        self.undecided -= len(part)
        if not hidden:
            self.shown += part
        return text[len(part) :]

    def render(self, texts: Texts) -> list[Taken]:
        """Return the frame with only its visible text; empty if the frame is unnecessary."""
        if self.shown == self.text:
            return [(self.frame, self.event)]
        event = texts.with_text(self.event, self.shown)
        if event is None:
            return []
        kind, data = self.frame.event or b"", as_json(event)
        return [(Frame(sse.write(kind, data), kind, data), event)]


class MessagesTexts:
    """Texts of the Messages API: blocks of a start, deltas and a stop."""

    breaking = ("content_block_start", "message_start", "message_delta", "message_stop", "error")

    def find_begun(self, kind: object, event: Message) -> tuple[Place, str] | None:
        block = event.get("content_block")
        is_begun = kind == "content_block_start" and isinstance(block, dict) and block.get("type") == "text"
        return (event.get("index"), _text_of(block)) if is_begun else None

    def find_added(self, kind: object, event: Message) -> tuple[Place, str] | None:
        return (event.get("index"), _text_of(event.get("delta"))) if kind == "content_block_delta" else None

    def find_ended(self, kind: object, event: Message) -> Place | None:
        return event.get("index") if kind == "content_block_stop" else _NOWHERE

    def with_text(self, event: Message, text: str) -> Message | None:
        member = "content_block" if "content_block" in event else "delta"
        return None if member == "delta" and not text else {**event, member: {**event[member], "text": text}}


class ChatTexts:
    """Texts of Chat Completions: the message content, up to its calls or the finish reason."""

    breaking = ()

    def find_begun(self, kind: object, event: Message) -> tuple[Place, str] | None:
        return self.find_added(kind, event)

    def find_added(self, kind: object, event: Message) -> tuple[Place, str] | None:
        text = text_or_none(_delta_of(event).get("content"))
        return (_CONTENT, text) if text else None

    def find_ended(self, kind: object, event: Message) -> Place | None:
        delta = _delta_of(event)
        is_over = bool(delta.get("tool_calls")) or choice_of(event).get("finish_reason") is not None
        return _CONTENT if is_over and not delta.get("content") else _NOWHERE

    def with_text(self, event: Message, text: str) -> Message | None:
        first, *rest = event["choices"]
        delta = {**first["delta"], "content": text}
        first = {key: value for key, value in first.items() if key != "logprobs"}  # they include hidden text
        return {**event, "choices": [{**first, "delta": delta}, *rest]} if text or len(delta) > 1 else None


class ResponsesTexts:
    """Texts of the Responses API: message parts, without the final events that repeat them."""

    breaking = (
        *("response.content_part.added", "response.content_part.done"),
        *("response.output_item.added", "response.output_item.done"),
        *("response.completed", "response.incomplete", "response.failed", "error"),
    )

    def find_begun(self, kind: object, event: Message) -> tuple[Place, str] | None:
        if kind != "response.content_part.added":
            return self.find_added(kind, event)  # some servers announce no parts
        part = event.get("part")
        is_text = isinstance(part, dict) and part.get("type") == "output_text"
        return (_place_of(event), text_or_none(part.get("text")) or "") if is_text and isinstance(part, dict) else None

    def find_added(self, kind: object, event: Message) -> tuple[Place, str] | None:
        is_added = kind == "response.output_text.delta"
        return (_place_of(event), text_or_none(event.get("delta")) or "") if is_added else None

    def find_ended(self, kind: object, event: Message) -> Place | None:
        return _place_of(event) if kind == "response.output_text.done" else _NOWHERE

    def with_text(self, event: Message, text: str) -> Message | None:
        if "part" in event:
            return {**event, "part": {**event["part"], "text": text}}
        return {**event, "delta": text} if text else None


_NOWHERE = object()
"""Belongs to no text."""

_CONTENT = object()
"""The only text of a message in Chat Completions."""


def choice_of(event: Message) -> Message:
    """Return the first choice of a Chat Completions chunk; empty without one."""
    choices = event.get("choices")  # a hot path: a match pattern would copy the list
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _delta_of(event: Message) -> Message:
    delta = choice_of(event).get("delta")
    return delta if isinstance(delta, dict) else {}


def _place_of(event: Message) -> Place:
    return event.get("output_index"), event.get("content_index")


def _text_of(part: object) -> str:
    """Return the text in a text block's start or delta, as ``ReplyBuilder`` reads it."""
    text = part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "text_delta") else None
    return text if isinstance(text, str) else ""


def _measure_shown(pieces: Iterable[Piece]) -> int:
    return sum(len(piece.text) for piece in pieces if not isinstance(piece, Hidden))
