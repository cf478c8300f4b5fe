"""Events of a stream and their bytes: `event:` and `data:` lines with compact JSON, as the Messages API sends them."""

from typing import Any

import attrs
import orjson


@attrs.frozen
class Event:
    """One server-sent event; its data gets the event's name as `type`."""

    name: str
    data: dict[str, Any]
    wait: float = 0
    """Seconds before it."""

    def encode(self) -> bytes:
        """The frame."""
        return b"event: " + self.name.encode() + b"\ndata: " + orjson.dumps({"type": self.name, **self.data}) + b"\n\n"


PING = Event("ping", {}).encode()
