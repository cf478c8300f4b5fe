"""Where a client marks its request for the provider's prompt cache."""

import json
from collections.abc import Mapping
from typing import Any

from mnemosyne.domain.wire.message_bytes import MARKER
from mnemosyne.domain.wire.transcript import Transcript

HEAD = ("tools", "system")
"""The members that come before the messages in the cached prompt."""

AN_HOUR = b'{"type":"ephemeral","ttl":"1h"}'
"""A marker whose entry lives for an hour."""


def marker_of(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The marker that a block or a tool bears."""
    marker = value.get(MARKER)
    return marker if isinstance(marker, dict) else None


def without_marker(value: Mapping[str, Any]) -> dict[str, Any]:
    """A block or a tool without its marker."""
    return {key: item for key, item in value.items() if key != MARKER}


def asks_for_an_hour(read: Transcript) -> bool:
    """Whether a marker on a message asks for an hour."""
    return any(json.loads(marker).get("ttl") == "1h" for _, marker in read.markers)


def may_hold_head(read: Transcript) -> bool:
    """Whether the client marks its tools or its system prompt, so that they can be held for longer."""
    head = [member for member in read.members if member.key in HEAD]
    return any(member.value_start <= at < member.value_end for member in head for at in read.marked)
