"""Where a client marks its request for the provider's prompt cache."""

from bisect import bisect_right

from mnemosyne.domain.wire import message_bytes
from mnemosyne.domain.wire.transcript import Transcript

HEAD = ("tools", "system")
"""The members that come before the messages in the cached prompt."""

_MARKER_KEY = b'"cache_control"'


def markers_of(read: Transcript) -> list[tuple[int, bytes]]:
    """The client's cache markers on messages: the number of the message and the marker's JSON, one for each message."""
    found: dict[int, bytes] = {}
    ends = [message.end for message in read.messages]
    array = next((member.value_start for member in read.members if member.key == "messages"), 0)
    at = read.raw.find(_MARKER_KEY, array)
    while at >= 0:
        number = bisect_right(ends, at - array)
        if number >= len(ends):
            break
        marker = message_bytes.marker_in(read.message_bytes(number)) if number not in found else found[number]
        if marker is not None:
            found[number] = marker
        at = read.raw.find(_MARKER_KEY, at + 1)
    return sorted(found.items())


def may_hold_head(read: Transcript) -> bool:
    """Whether the client marks its tools or its system prompt, so that they can be held for longer."""
    return any(
        _MARKER_KEY in read.raw[member.value_start : member.value_end] for member in read.members if member.key in HEAD
    )
