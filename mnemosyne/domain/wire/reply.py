"""Read a reply from the provider's events or from its whole body.

The event stream is the Messages API's: ``message_start``, blocks of start, deltas and stop, ``message_delta`` with the
cumulative usage, ``message_stop``. Unknown members and events are kept, never dropped.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.json_spans import has_too_many_values
from mnemosyne.domain.wire.places import BlockPlaces, in_order, index_of

_WHOLE = ("end_turn", "stop_sequence", "stop", "completed")
_REFUSED = "refusal"

_PASSING = frozenset({"api_error", "server_error", "timeout_error", "overloaded_error"})
"""Types of the errors with a status from 500."""


def is_whole(stop_reason: str | None) -> bool:
    """Return whether the model ended its reply by itself. In older records of the Responses API that may be after a
    call.
    """
    return stop_reason in _WHOLE


def is_refusal(stop_reason: str | None) -> bool:
    """Return whether the provider ended the reply in place of the model."""
    return stop_reason == _REFUSED


def may_last(error: bytes) -> bool:
    """Whether the provider would refuse the same again: the error has a type that is no failure of the provider."""
    inner = json_object(error).get("error")
    kind = inner.get("type") if isinstance(inner, dict) else None
    return isinstance(kind, str) and kind not in _PASSING


@attrs.frozen
class Reply:
    """A reply as it is recorded.

    ``body`` is the message (or error) as JSON bytes: verbatim for a whole reply, assembled for a streamed one.
    ``complete`` says that the client received the end. ``usage`` is the provider's own accounting.
    """

    body: bytes
    complete: bool
    message_id: str | None
    model: str | None
    stop_reason: str | None
    usage: dict[str, Any]
    error_type: str | None


@attrs.frozen
class HiddenCall:
    """The model's call of a memory tool. ``input_json`` is its input as text, which may be incomplete or invalid
    JSON.
    """

    id: str
    name: str
    input_json: str


LONGEST_WHOLE = 8 * 1024 * 1024
"""The longest whole reply that is parsed, in bytes; longer ones are only stored. 128,000 tokens have half a megabyte.
"""


class DescribeReply(Protocol):
    """Returns one dialect's description of a reply with this message and this body."""

    def __call__(self, message: Mapping[str, Any], body: bytes, *, complete: bool) -> Reply: ...


class ReplyReader(ABC):
    """Collects one reply, which is streamed or whole. ``result`` describes whatever has arrived and never raises."""

    def __init__(self, describe: DescribeReply) -> None:
        self._describe = describe
        self._raw: list[bytes] | None = None
        """The received bytes of a reply that is not streamed; None for a stream."""
        self._has_whole = False

    @abstractmethod
    def take(self, event: dict[str, Any]) -> None:
        """Add one decoded event of the stream."""

    def take_raw(self, data: bytes) -> None:
        """Add bytes of a reply that is not streamed."""
        self._raw = self._raw or []
        self._raw.append(data)

    def end_raw(self) -> None:
        """Mark the reply as complete, because its body has ended."""
        self._raw = self._raw or []
        self._has_whole = True

    def message(self) -> dict[str, Any]:
        """Return the reply (or error) received so far, as a JSON object; empty if it is not one, or too long to be
        parsed.
        """
        if self._raw is None:
            return self._join_events()
        body = b"".join(self._raw)
        return json_object(body) if len(body) <= LONGEST_WHOLE else {}

    def result(self) -> Reply:
        """Return the reply received so far."""
        message = self.message()
        if self._raw is None:
            return self._describe(message, as_json(message), complete=self._is_complete(message))
        return self._describe(message, b"".join(self._raw), complete=self._has_whole)

    @abstractmethod
    def _join_events(self) -> dict[str, Any]:
        """The message (or error) of the events so far."""

    @abstractmethod
    def _is_complete(self, message: Mapping[str, Any]) -> bool:
        """Whether the events so far end the reply with this message."""


class ReplyBuilder(ReplyReader):
    """Collects one reply of the Messages API."""

    def __init__(self) -> None:
        super().__init__(describe)
        self._message: dict[str, Any] = {}
        self._places = BlockPlaces()
        self._blocks: list[ReplyBlock] = []
        self._error: dict[str, Any] | None = None
        self._stopped = False

    def take(self, event: dict[str, Any]) -> None:
        """Add one decoded event of the stream."""
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), dict):
                self._message = dict(event["message"])
            case "content_block_start" if isinstance(event.get("content_block"), dict):
                self._begin(event, dict(event["content_block"]))
            case "content_block_delta" if isinstance(event.get("delta"), dict):
                place = self._places.find(index_of(event.get("index")))
                self._blocks[self._begin(event, {}) if place is None else place].add(event["delta"])
            case "message_delta":
                self._update(event)
            case "message_stop":
                self._stopped = True
            case "error":
                self._error = event

    def _join_events(self) -> dict[str, Any]:
        content = [block.content() for block in self.blocks()]
        message = {**self._message, "content": content} if self._message or content else {}
        if self._error is not None:
            message["error"] = self._error.get("error", self._error)
        return message

    def _is_complete(self, message: Mapping[str, Any]) -> bool:
        return self._stopped

    def blocks(self) -> list["ReplyBlock"]:
        """Return the content blocks of a streamed reply, in order."""
        return [self._blocks[place] for place in in_order(self._places.indices)]

    def _begin(self, event: dict[str, Any], start: dict[str, Any]) -> int:
        self._blocks.append(ReplyBlock(start))
        return self._places.begin(index_of(event.get("index")))

    def _update(self, event: dict[str, Any]) -> None:
        delta = event.get("delta")
        if isinstance(delta, dict):
            self._message.update(delta)
        usage = event.get("usage")
        if isinstance(usage, dict):
            counts = self._message.get("usage")
            self._message["usage"] = _add_counts(counts if isinstance(counts, dict) else {}, usage)
        extras = {key: value for key, value in event.items() if key not in ("type", "delta", "usage")}
        self._message.update(extras)


def _add_counts(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Update a usage with the counts of a later event.

    Some servers begin with a count and end with a zero or null. Counts are cumulative, so a zero does not replace one.
    """
    counts = dict(earlier)
    for key, value in later.items():
        known = earlier.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            counts[key] = _add_counts(known, value)
        elif value or not known:
            counts[key] = value
    return counts


class ReplyBlock:
    """One content block, filled by its deltas."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[object] = []
        self._unknown: list[dict[str, Any]] = []

    def add(self, delta: dict[str, Any]) -> None:
        match delta:
            case {"type": "text_delta", "text": str(piece)}:
                self._append("text", piece)
            case {"type": "thinking_delta", "thinking": str(piece)}:
                self._append("thinking", piece)
            case {"type": "input_json_delta", "partial_json": str(piece)}:
                self._append("input", piece)
            case {"type": "signature_delta", "signature": str(signature)}:
                self._start["signature"] = signature
            case {"type": "citations_delta", "citation": citation}:
                self._citations.append(citation)
            case _:
                self._unknown.append(delta)

    def _append(self, field: str, piece: str) -> None:
        self._pieces.setdefault(field, []).append(piece)

    def content(self) -> dict[str, Any]:
        """Return the block as a reply that is not streamed would contain it."""
        block = dict(self._start)
        for field, pieces in self._pieces.items():
            text = "".join(pieces)
            if field != "input":
                block[field] = _text_or_empty(block.get(field)) + text
            elif text:
                block[field] = read_input(text)
        if self._citations:
            block["citations"] = [*(self._start.get("citations") or []), *self._citations]
        if self._unknown:
            block["deltas"] = self._unknown
        return block


def describe(message: Mapping[str, Any], body: bytes, *, complete: bool) -> Reply:
    error = message.get("error")
    usage = message.get("usage")
    return Reply(
        body=body,
        complete=complete,
        message_id=text_or_none(message.get("id")),
        model=text_or_none(message.get("model")),
        stop_reason=text_or_none(message.get("stop_reason")),
        usage=usage if isinstance(usage, dict) else {},
        error_type=text_or_none(error.get("type")) if isinstance(error, dict) else None,
    )


def as_json(value: Any) -> bytes:
    """Write JSON as JavaScript does, so that a client's echo of a long text has the same bytes and is stored once.

    A number that JSON cannot represent becomes a text.
    """
    # A lone surrogate cannot be UTF-8; a JSON escape preserves it.
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return as_json(json.loads(json.dumps(value), parse_constant=str))


def json_object(body: bytes) -> dict[str, Any]:
    """Parse bytes as a JSON object; empty if they are not one, or have too many values.

    A number with too many digits becomes a text.
    """
    if has_too_many_values(body):
        return {}
    try:
        message = json_values.read(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def read_input(text: str) -> Any:
    """Parse a tool's input. Invalid JSON stays text: an input from a cut stream or from fine-grained streaming, a
    number that JSON does not have, or JSON nested too deep.
    """
    try:
        return json_values.read_strict(text)
    except (ValueError, RecursionError):
        return text


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
