"""The cache markers in a client's request."""

import json

from mnemosyne.domain.wire.transcript import Transcript

HEAD = ("tools", "system")
"""The members that precede the messages in the cached prompt."""

AN_HOUR = b'{"type":"ephemeral","ttl":"1h"}'
"""A marker for a cache entry that lives for an hour."""


def asks_for_an_hour(read: Transcript) -> bool:
    """Return whether a marker on a message requests an hour."""
    return any(json.loads(marker).get("ttl") == "1h" for _, marker in read.markers)


def may_hold_head(read: Transcript) -> bool:
    """Return whether the client marks its tools or its system prompt, so that they can be cached for longer."""
    head = [member for member in read.members if member.key in HEAD]
    return any(member.value_start <= at < member.value_end for member in head for at in read.marked)
