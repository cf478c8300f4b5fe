"""The canonical form of a log: equal events yield equal bytes, independent of place and time of writing."""

import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.services.export_format import ExportCodec
from mnemosyne.services.sessions import Archive
from mnemosyne.services.verifying import verify


@attrs.frozen
class LogSummary:
    """One session of the log. ``sha256`` is the hash of its canonical lines; ``problems`` are the rebuild errors."""

    session: UUID
    external_id: str | None
    branches: int
    turns: int
    events: int
    sha256: str
    problems: Sequence[str]


async def summaries(archive: Archive, codec: ExportCodec) -> AsyncIterator[tuple[LogSummary, list[bytes]]]:
    """The sessions of a log in order of their first event, each with its lines, and every body rebuilt and checked."""
    for stream in await archive.events.streams():
        events = await archive.events.read(stream)
        written = await lines(archive, stream, events, codec)
        report = await verify(archive, stream)
        history = history_of(str(stream), events)
        summary = LogSummary(
            session=stream,
            external_id=report.external_id,
            branches=len(history.lines),
            turns=report.turns,
            events=len(events),
            sha256=hashlib.sha256(b"".join(written)).hexdigest(),
            problems=tuple(difference.sentence for difference in report.differences),
        )
        yield summary, written


async def lines(archive: Archive, stream: UUID, events: Sequence[Recorded[Event]], codec: ExportCodec) -> list[bytes]:
    """A session's lines: each event in stored form, and each content's digest and size before the first event that
    refers to it.
    """
    named = _find_first_names(events)
    sizes = await archive.contents.fetch(stream, sorted(digest for digests in named.values() for digest in digests))
    written: list[bytes] = []
    for each in events:
        contents = ({"content": digest.hex(), "size": len(sizes[digest])} for digest in named[each.version])
        name, stored = codec.encode(each.envelope)
        event = {"event": each.version, "name": name, "stored": json.loads(stored)}
        written += [_line({"session": str(stream)} | member) for member in (*contents, event)]
    return written


def _find_first_names(events: Sequence[Recorded[Event]]) -> dict[int, list[bytes]]:
    seen: set[bytes] = set()
    return {each.version: list(_new(each, seen)) for each in events}


def _new(each: Recorded[Event], seen: set[bytes]) -> Iterator[bytes]:
    for digest in time_travel.digests_of(each.envelope.event):
        if digest not in seen:
            seen.add(digest)
            yield digest


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
