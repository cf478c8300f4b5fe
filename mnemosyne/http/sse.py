"""Parse server-sent events, sans-I/O and lossless: bytes in, frames out.

The wire format is the WHATWG one: lines end in LF, CR or CRLF and in nothing else (a text-mode reader would also split
at U+2028 or form feed, which occur inside JSON); a blank line ends a frame.
"""

import re
from typing import Any

import attrs

from mnemosyne.domain.wire.reply import json_object

# Two line ends in a row, as `(?:\r\n|\n|\r(?!\n)){2}`, written out by the first byte: four times as fast.
_BLANK = re.compile(rb"\n(?:\r\n|\n|\r(?!\n))|\r(?:\n|(?!\n))(?:\r\n|\n|\r(?!\n))")
# Consecutive frames of only comments and blank lines; one at a time, megabytes of them would take seconds.
_NOTHING = re.compile(rb"(?:(?::[^\r\n]*+(?:\r\n|\n|\r(?!\n)))*+(?:\r\n|\n|\r(?!\n)))++")
_BEGINS_NOTHING = b":\r\n"
# The usual frame of providers. `parse` reads it the same, but takes twice as long, because it splits lines.
_USUAL = re.compile(rb"(?:event: ([^\r\n]*+)\n)?+data: ([^\r\n]*+)\n\n")
_LINE = re.compile(rb"\r\n|\n|\r")


COMMENT = b": ping\n\n"
"""A keepalive frame without content."""


@attrs.frozen
class Frame:
    """One event. ``raw`` are all its bytes including the blank line; ``data`` joins its data lines.

    A frame of comments only has neither ``event`` nor ``data``.
    """

    raw: bytes
    event: bytes | None
    data: bytes | None


class FrameReader:
    """Splits a stream into frames. All ``raw`` joined with ``rest`` equal the input, however it is split."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """Input that does not form a frame yet."""
        self._seam = b""
        """The last bytes of that input, in which the end of a frame may begin."""

    @property
    def rest(self) -> bytes:
        """Input that does not form a frame yet."""
        return b"".join(self._pieces)

    def take_rest(self) -> bytes:
        """Remove and return the input that does not form a frame."""
        rest, self._pieces, self._seam = self.rest, [], b""
        return rest

    def feed(self, data: bytes) -> list[Frame]:
        """Take the stream's next bytes; return the frames they complete."""
        seam = self._seam + data
        # A CR at the very end may be half of a CRLF: wait for the next byte.
        blank = _BLANK.search(seam, 0, len(seam) - seam.endswith(b"\r"))
        if blank is None and self._seam not in (b"", b"\r"):
            # Join a line of many megabytes only once, at its end.
            self._pieces.append(data)
            self._seam = seam[-4:]
            return []
        held = b"".join([*self._pieces, data])
        scan = len(held) - len(seam)
        limit = len(held) - held.endswith(b"\r")
        frames = []
        start = 0
        while found := _USUAL.match(held, start) or _BLANK.search(held, max(start, scan), limit):
            if found.re is _USUAL:
                frames.append(Frame(*found.group(0, 1, 2)))
            elif held[start] in _BEGINS_NOTHING and (nothing := _NOTHING.match(held, start, limit)):
                found = nothing
                frames.append(Frame(found.group(), None, None))
            else:
                frames.append(parse(held[start : found.end()]))
            start = found.end()
        if start < limit and (nothing := _NOTHING.match(held, start, limit)):
            frames.append(Frame(nothing.group(), None, None))
            start = nothing.end()
        self._pieces = [held[start:]] if start < len(held) else []
        self._seam = held[max(start, len(held) - 4) :]
        return frames


def parse(raw: bytes) -> Frame:
    """Parse the fields of one frame; unknown fields stay only in ``raw``."""
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
    """Return the frame's JSON object; None for comments, frames without data, other JSON values, and objects with too
    many values.
    """
    return (json_object(frame.data) or None) if frame.data else None


def write(event: bytes, data: bytes) -> bytes:
    """Write a frame as the provider does; an unnamed event gets no event line."""
    name = b"event: " + event + b"\n" if event else b""
    lines = b"".join(b"data: " + line + b"\n" for line in data.splitlines())
    return name + lines + b"\n"
