"""Where a client marks its request for the provider's prompt cache."""

import json
from bisect import bisect_right

from mnemosyne.domain.wire import message_bytes
from mnemosyne.domain.wire.transcript import Transcript

HEAD = ("tools", "system")
"""The members that come before the messages in the cached prompt."""


def markers_of(read: Transcript) -> list[tuple[int, bytes]]:
    """The client's cache markers on messages: the number of the message and the marker's JSON, one for each message."""
    found: dict[int, bytes] = {}
    ends = [message.end for message in read.messages]
    array = next((member.value_start for member in read.members if member.key == read.dialect.array), 0)
    for at in read.marked:
        number = bisect_right(ends, at - array)
        if at >= array and number < len(ends) and number not in found:
            marker = message_bytes.marker_in(read.message_bytes(number))
            if marker is not None:
                found[number] = marker
    return sorted(found.items())


def asks_for_an_hour(read: Transcript) -> bool:
    """Whether a marker on a message asks for an hour."""
    return any(json.loads(marker).get("ttl") == "1h" for _, marker in markers_of(read))


def may_hold_head(read: Transcript) -> bool:
    """Whether the client marks its tools or its system prompt, so that they can be held for longer."""
    head = [member for member in read.members if member.key in HEAD]
    return any(member.value_start <= at < member.value_end for member in head for at in read.marked)
