"""Events of a stream, and their bytes in each dialect."""

from collections.abc import Callable
from typing import Any

import attrs
import orjson


@attrs.frozen
class Event:
    """One server-sent event."""

    name: str
    data: dict[str, Any]
    wait: float = 0
    """Seconds before it."""


@attrs.frozen
class StreamForm:
    """How a dialect writes its stream."""

    encode: Callable[[Event], bytes]
    ping: bytes
    """What keeps a silent connection alive."""
    make_error: Callable[[str, str], Event]
    """The event that ends a stream by an error, from the error's type and message."""
    last: str
    """Name of the event without which a stream has no proper end."""


def _encode_event(event: Event) -> bytes:
    """`event:` and `data:` lines with compact JSON; the data gets the event's name as `type`."""
    return b"event: " + event.name.encode() + b"\ndata: " + orjson.dumps({"type": event.name, **event.data}) + b"\n\n"


def _encode_chunk(event: Event) -> bytes:
    """A `data:` line only. The names of events are for the script; no client sees them."""
    return b"data: " + (b"[DONE]" if event.name == "done" else orjson.dumps(event.data)) + b"\n\n"


_COMMENT = b": ping\n\n"

MESSAGES = StreamForm(
    encode=_encode_event,
    ping=_encode_event(Event("ping", {})),
    make_error=lambda kind, text: Event("error", {"error": {"type": kind, "message": text}}),
    last="message_stop",
)
CHAT = StreamForm(
    encode=_encode_chunk,
    ping=_COMMENT,
    make_error=lambda kind, text: Event(
        "error", {"error": {"message": text, "type": kind, "param": None, "code": None}}
    ),
    last="done",
)
RESPONSES = StreamForm(
    encode=_encode_event,
    ping=_COMMENT,
    make_error=lambda kind, text: Event("error", {"code": kind, "message": text, "param": None}),
    last="response.completed",
)
