"""Server-sent events, sans-I/O: bytes in, frames out, and not a byte lost.

The wire format is the WHATWG one: lines end in LF, CR or CRLF and in nothing else (a text-mode reader would also split
at U+2028 or form feed, which occur inside JSON); a blank line ends a frame.
"""

import re
from typing import Any

import attrs

from mnemosyne.domain.wire.reply import json_object

# Two line ends in a row, as `(?:\r\n|\n|\r(?!\n)){2}`, written out by the first byte: four times as fast.
_BLANK = re.compile(rb"\n(?:\r\n|\n|\r(?!\n))|\r(?:\n|(?!\n))(?:\r\n|\n|\r(?!\n))")
# Frames of comments and blank lines alone, as many as there are: one by one, megabytes of them would take seconds.
_NOTHING = re.compile(rb"(?:(?::[^\r\n]*+(?:\r\n|\n|\r(?!\n)))*+(?:\r\n|\n|\r(?!\n)))++")
_BEGINS_NOTHING = b":\r\n"
_LINE = re.compile(rb"\r\n|\n|\r")


COMMENT = b": ping\n\n"
"""A frame that says nothing."""


@attrs.frozen
class Frame:
    """One event. ``raw`` is everything it was made of, the blank line included; ``data`` joins its data lines.

    A frame of comments only has neither ``event`` nor ``data``.
    """

    raw: bytes
    event: bytes | None
    data: bytes | None


class FrameReader:
    """Splits a stream into frames. The concatenation of all ``raw`` and of ``rest`` is what was fed, at any cut."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """What has been fed and does not make a frame yet."""
        self._seam = b""
        """The last bytes of these: what ends a frame may begin in them."""

    @property
    def rest(self) -> bytes:
        """What has been fed and does not make a frame yet."""
        return b"".join(self._pieces)

    def take_rest(self) -> bytes:
        """The same, which is no part of a frame any more."""
        rest, self._pieces, self._seam = self.rest, [], b""
        return rest

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes of the stream; return the frames that they complete."""
        seam = self._seam + data
        # A CR at the very end may be half of a CRLF: it is judged when the next byte is here.
        blank = _BLANK.search(seam, 0, len(seam) - seam.endswith(b"\r"))
        if blank is None and self._seam not in (b"", b"\r"):
            # A line of many megabytes is put together once, at its end.
            self._pieces.append(data)
            self._seam = seam[-4:]
            return []
        held = b"".join([*self._pieces, data])
        scan = len(held) - len(seam)
        limit = len(held) - held.endswith(b"\r")
        frames = []
        start = 0
        while blank := _BLANK.search(held, max(start, scan), limit):
            if held[start] in _BEGINS_NOTHING and (nothing := _NOTHING.match(held, start, limit)):
                frames.append(Frame(nothing.group(), None, None))
                start = nothing.end()
            else:
                frames.append(parse(held[start : blank.end()]))
                start = blank.end()
        if start < limit and (nothing := _NOTHING.match(held, start, limit)):
            frames.append(Frame(nothing.group(), None, None))
            start = nothing.end()
        self._pieces = [held[start:]] if start < len(held) else []
        self._seam = held[max(start, len(held) - 4) :]
        return frames


def parse(raw: bytes) -> Frame:
    """Read the fields of one frame; unknown ones are kept in ``raw`` only."""
    event: bytes | None = None
    data: list[bytes] = []
    for line in _LINE.split(raw):
        name, colon, value = line.partition(b":")
        if not name:
            continue
        if colon:
            value = value.removeprefix(b" ")
        if name == b"event":
            event = value
        elif name == b"data":
            data.append(value)
    return Frame(raw, event, b"\n".join(data) if data else None)


def event_of(frame: Frame) -> dict[str, Any] | None:
    """The frame's JSON object; None for comments, pings without data, what is no JSON object or holds more values than
    are read.
    """
    return (json_object(frame.data) or None) if frame.data else None


def write(event: bytes, data: bytes) -> bytes:
    """A frame as the provider would write it; without a line for the event where that has no name."""
    name = b"event: " + event + b"\n" if event else b""
    lines = b"".join(b"data: " + line + b"\n" for line in data.splitlines())
    return name + lines + b"\n"
