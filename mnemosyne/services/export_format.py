"""The file that carries one session from one log to another: JSON Lines, one header, then contents and events.

Each content appears once, before the first event that names it, so a reader never has to look ahead::

    {"format": "mnemosyne-session", "version": 1, "session": "…", "events": 12, "contents": 34}
    {"content": "<SHA-256 in hex>", "data": "<base64>"}
    {"event": 1, "name": "session.started.v1", "stored": {"data": {…}, "correlation": "…", "causation": "…"}}

In the file of an archived session each content is packed, ``{"content": "…", "size": 9, "zstd": "<base64>"}``, so that
it can be read alone and takes little room.

``stored`` is the log's encoding under that name, so a newer Mnemosyne reads the files of an older one.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.cost.tariffs import FOREVER
from mnemosyne.domain.history import time_travel
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.ports import Content, Envelope
from mnemosyne.domain.session.events import Event
from mnemosyne.errors import BadConfiguration, UnknownEvent
from mnemosyne.regular_files import LineTooLong, open_regular, read_lines
from mnemosyne.terminal import json_text
from mnemosyne.times import LAST, is_time
from mnemosyne.zstd import ZstdCompressor, ZstdDecompressor, ZstdError

FORMAT = "mnemosyne-session"
VERSION = 1

_ZSTD_LEVEL = 9
_LARGEST_CONTENT = 2**28
"""Bytes that a packed content may have, so that a small file cannot fill the memory."""
_LONGEST_LINE = _LARGEST_CONTENT * 4 // 3 + 4096
"""Bytes: a content of that size in base64, and its hash."""


class ExportCodec(Protocol):
    """Events as they are stored; see ``event_codec``."""

    def encode(self, envelope: Envelope[Event]) -> tuple[str, bytes]: ...
    def decode(self, name: str, state: bytes) -> Envelope[Event]: ...


class DamagedFile(BadConfiguration):
    """A file that cannot be imported; the message gives the line and the reason."""


@attrs.frozen
class Header:
    """A file's header. ``imported_at`` is the time in µs of UTC when the session was imported from another file; None
    if it was recorded in the log that wrote this one. ``log`` is the identity of the log whose archive the file is;
    None for an export, and for an archive of a version that recorded none.
    """

    session: UUID
    events: int
    contents: int
    imported_at: int | None = None
    log: UUID | None = None


@attrs.frozen
class FramePlace:
    """The place of a packed content in a file: ``length`` bytes of base64 from ``at`` on."""

    at: int
    length: int


@attrs.frozen
class ExportedEvent:
    """One event of a file with the contents that it is the first to name. ``line`` is the event's line number."""

    line: int
    version: int
    envelope: Envelope[Event]
    contents: tuple[Content, ...]


def header_line(header: Header) -> bytes:
    return _line({"format": FORMAT, "version": VERSION, "session": str(header.session)} | _counts(header))


def read_header(line: bytes) -> Header:
    """The header that ``header_line`` wrote. Raises ValueError with the reason for any other line."""
    try:
        value = json.loads(line)
    except RecursionError:
        value = None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ValueError(f"this is not a file of the format {FORMAT!r}")
    if value.get("version") != VERSION:
        raise ValueError(f"its version is {value.get('version')!r}, but this Mnemosyne reads {VERSION}")
    try:
        log = UUID(value["log"]) if "log" in value else None
        return Header(UUID(value["session"]), int(value["events"]), int(value["contents"]), log=log)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ValueError("the header is incomplete") from None


def content_line(content: Content, *, packed: bool = False) -> bytes:
    if packed:
        frame = ZstdCompressor(level=_ZSTD_LEVEL).compress(content.data, ZstdCompressor.FLUSH_FRAME)
        fields = {"content": content.digest.hex(), "size": len(content.data)}
        return _line(fields | {"zstd": base64.b64encode(frame).decode()})
    return _line({"content": content.digest.hex(), "data": base64.b64encode(content.data).decode()})


def event_line(version: int, envelope: Envelope[Event], codec: ExportCodec) -> bytes:
    name, stored = codec.encode(envelope)
    return _line({"event": version, "name": name, "stored": json.loads(stored)})


def is_event(line: bytes) -> bool:
    return line.startswith(b'{"event"')


def _counts(header: Header) -> dict[str, int | str]:
    imported = {} if header.imported_at is None else {"imported_at": header.imported_at}
    written_by = {} if header.log is None else {"log": str(header.log)}
    return {"events": header.events, "contents": header.contents, **imported, **written_by}


def _line(value: object) -> bytes:
    # The output may be a terminal.
    return json_text(value, separators=(",", ":")).encode() + b"\n"


class Reader:
    """Reads a file any number of times and checks everything that can be checked without a log.

    Every method raises DamagedFile.
    """

    def __init__(self, path: Path, codec: ExportCodec) -> None:
        self._path = path
        self._codec = codec
        self._places: dict[bytes, int] = {}
        self.packed: dict[bytes, FramePlace] = {}
        """The places of the packed contents that ``parts`` has passed, by digest."""
        self.header = self._header(next((line for _, _, line in self._lines()), b""))

    def parts(self) -> Iterator[ExportedEvent]:
        """The events in order, each with its contents, hashes checked; at the end, check that nothing is missing."""
        waiting: list[Content] = []
        version = 0
        for number, place, line in islice(self._lines(), 1, None):
            value = self._parse(number, line)
            if "content" in value:
                content = self._content(number, value)
                self._places[content.digest] = place
                if "zstd" in value:
                    payload = value["zstd"].encode()
                    self.packed[content.digest] = FramePlace(place + line.index(payload), len(payload))
                waiting.append(content)
                continue
            version += 1
            envelope = self._event(number, value, version)
            self._check_named(number, envelope)
            yield ExportedEvent(number, version, envelope, tuple(waiting))
            waiting = []
        if waiting or version != self.header.events or len(self._places) != self.header.contents:
            raise DamagedFile(
                f"{self._path} is incomplete: it has {version} events and {len(self._places)} contents, "
                f"but its header names {self.header.events} and {self.header.contents}."
            )

    def fetch(self, digests: list[bytes]) -> dict[bytes, bytes]:
        """Contents that ``parts`` has passed, read again from the file."""
        found: dict[bytes, bytes] = {}
        with self._open() as file:
            for digest in sorted(digests, key=self._places.__getitem__):
                file.seek(self._places[digest])
                found[digest] = self._content(0, json.loads(file.readline())).data
        return found

    def _open(self) -> IO[bytes]:
        try:
            return open_regular(self._path)
        except OSError as error:
            raise DamagedFile(f"{self._path} cannot be read: {error.strerror or error}.") from None

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Each line with its number and its offset in the file; the first is the header."""
        place = 0
        with self._open() as file:
            try:
                for number, line in enumerate(read_lines(file, _LONGEST_LINE), start=1):
                    yield number, place, line
                    place += len(line)
            except LineTooLong as error:
                raise self._damage(error.number, f"it has more than {_LONGEST_LINE:,} bytes") from None
            except OSError as error:
                raise DamagedFile(f"{self._path} cannot be read: {error.strerror or error}.") from None

    def _header(self, line: bytes) -> Header:
        if not line:
            raise self._damage(1, "it is empty")
        self._parse(1, line)
        try:
            return read_header(line)
        except ValueError as error:
            raise self._damage(1, str(error)) from None

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise self._damage(number, "it is not a JSON object" if line.endswith(b"\n") else "the file ends within it")
        return value

    def _content(self, number: int, value: dict[str, Any]) -> Content:
        try:
            content = Content(bytes.fromhex(value["content"]), _data(value))
        except (KeyError, TypeError, ValueError, binascii.Error, ZstdError):
            raise self._damage(number, "the content has no hash or is not base64") from None
        if hashlib.sha256(content.data).digest() != content.digest:
            raise self._damage(number, f"the content does not match its hash {content.digest.hex()}")
        return content

    def _event(self, number: int, value: dict[str, Any], version: int) -> Envelope[Event]:
        if value.get("event") != version:
            raise self._damage(number, f"event {version} was expected here")
        stored = value.get("stored")
        if not all(abs(each) <= _LARGEST or 0 <= each - FOREVER <= LAST for each in _numbers_in(stored)):
            raise self._damage(number, "it contains a number that is out of range")
        try:
            envelope: Envelope[Event] = self._codec.decode(str(value.get("name")), json.dumps(stored).encode())
        except UnknownEvent as error:
            raise self._damage(number, str(error)) from None
        if not is_time(envelope.event.at):
            raise self._damage(number, f"{envelope.event.at} is not a valid time")
        return envelope

    def _check_named(self, number: int, envelope: Envelope[Event]) -> None:
        try:
            named = time_travel.digests_of(envelope.event)
        except ValueError as error:
            raise self._damage(number, str(error)) from None
        missing = [digest for digest in named if digest not in self._places]
        if missing and not isinstance(envelope.event, ObjectSummarized):  # its object's stub replaces it
            raise self._damage(number, f"the event names content {missing[0].hex()}, which is not in the file")

    def _damage(self, number: int, what: str) -> DamagedFile:
        return DamagedFile(f"{self._path}, line {number}: {what}. Nothing was imported.")


def _data(value: dict[str, Any]) -> bytes:
    if "zstd" not in value:
        return base64.b64decode(value["data"], validate=True)
    size = value["size"]
    if not isinstance(size, int) or not 0 <= size <= _LARGEST_CONTENT:
        raise ValueError("no size of a content")
    # One more byte, so that longer data fails the hash check; 0 would mean no limit.
    return ZstdDecompressor().decompress(base64.b64decode(value["zstd"], validate=True), max_length=size + 1)


_LARGEST = 2**53
"""No event counts further, and every program that reads JSON agrees on the numbers up to it. Only the end of what a
local server keeps in its cache lies FOREVER behind a time.
"""


def _numbers_in(value: object) -> Iterator[float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers_in(each)
    elif isinstance(value, int | float):
        yield value
