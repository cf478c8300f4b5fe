"""Erases sessions' content and its derivatives, and leaves a valid log: hashes, sizes, times and counts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

import attrs

from mnemosyne.domain.history.time_travel import ACTIVE
from mnemosyne.domain.ports import Append, Envelope, Recorded, StreamSizes
from mnemosyne.domain.session import retention
from mnemosyne.domain.session.decide import ForgetSession, decide
from mnemosyne.domain.session.events import Event, SessionForgotten
from mnemosyne.domain.session.redaction import is_whole, lose, redact
from mnemosyne.domain.session.retention import RetainedSession, Victim
from mnemosyne.domain.session.state import Session
from mnemosyne.errors import LogDamaged, LogFailed, UnknownEvent, VersionConflict
from mnemosyne.figures import plural
from mnemosyne.services.footprints import Disk, Report, ignore_news
from mnemosyne.services.memories import ATTEMPTS
from mnemosyne.services.sessions import Archive, find_own, read_stream, read_trashed


@attrs.frozen
class Forgotten:
    """The result of forgetting: ``erased`` contents; ``recorded`` says whether the event was new to the log."""

    session: UUID
    erased: int
    recorded: bool


async def describe(archive: Archive, wanted: str) -> tuple[UUID, str]:
    """The session that a person wants to delete, and its description for the confirmation. Raises NotFound, also for a
    branch.
    """
    stream = await find_own(archive, wanted)
    try:
        found = await read_stream(archive, stream)
    except (UnknownEvent, LogDamaged) as error:
        return stream, f"which is damaged: {error}"
    name = found.started.external_id if found.started else "-"
    return stream, f"{name}, {plural(found.turns, 'turn')}"


async def forget(archive: Archive, stream: UUID, now: Callable[[], int], correlation_id: str) -> Forgotten:
    """Erase a session's content and the words in its events, and record that in its stream. Repeating it is harmless,
    and completes an interrupted deletion.

    The words are erased first: were the event first, a crash in between would leave a log with a false claim. The event
    is appended only if nothing was written since the erasing; so everything before it is erased, and everything that a
    running server writes after it, knowing that no content is stored any more, is complete. Of a damaged session only
    its identity remains, so that it can start again.
    """
    erased = 0
    for remaining in reversed(range(ATTEMPTS)):
        at = now()
        events = await _read_whole(archive, stream)
        version = (await archive.events.sizes(stream))[stream].events if events is None else len(events)
        erased += await archive.events.forget(stream, partial(lose, at=at) if events is None else redact)
        if events and isinstance(events[-1].envelope.event, SessionForgotten):
            return Forgotten(stream, erased, recorded=False)
        try:
            await archive.journal.append(_append(stream, version, ForgetSession(at=at), correlation_id))
        except VersionConflict:
            if not remaining:
                raise
        else:
            break
    return Forgotten(stream, erased, recorded=True)


async def _read_whole(archive: Archive, stream: UUID) -> Sequence[Recorded[Event]] | None:
    """The events of a session; None if it is damaged."""
    try:
        events = await archive.events.read(stream)
    except UnknownEvent:
        return None
    return events if is_whole([each.envelope.event for each in events]) else None


def _append(stream: UUID, version: int, command: ForgetSession, correlation_id: str) -> Append:
    # The decision only needs to know that the session exists.
    events = decide(command, Session(version=version))
    return Append(stream, version, tuple(Envelope(event, correlation_id, type(command).__name__) for event in events))


async def forget_all(
    archive: Archive, streams: Iterable[UUID], now: Callable[[], int], new_id: Callable[[], str]
) -> list[Forgotten]:
    """Delete the contents of sessions, one after the other."""
    return [await forget(archive, stream, now, new_id()) for stream in streams]


async def choose_old(archive: Archive, *, now: int, days: int | None, stored_bytes: int | None) -> Sequence[Victim]:
    """The sessions that retention would delete: those whose time in the trash is over, those inactive for ``days``
    days, then the oldest until the rest fits into ``stored_bytes``. None: no limit.
    """
    active, trashed = await read_last_active(archive), await read_trashed(archive)
    if stored_bytes is not None:
        sizes = await archive.events.sizes()
    else:
        # The sizes of the others do not matter, and counting them would read all contents.
        active = {
            stream: at
            for stream, at in active.items()
            if retention.is_old(at, now=now, days=days) or retention.has_expired(trashed.get(stream), now)
        }
        sizes = {stream: each for one in active for stream, each in (await archive.events.sizes(one)).items()}
    found = [
        RetainedSession(each, at, sizes.get(each, StreamSizes()).stored_bytes, trashed.get(each))
        for each, at in active.items()
    ]
    return retention.victims(found, now=now, days=days, stored_bytes=stored_bytes)


async def read_last_active(archive: Archive) -> Mapping[UUID, int]:
    """The time of each session's last activity (µs of UTC), without sessions deleted since."""
    last = await archive.events.pick_last((*ACTIVE, SessionForgotten))
    return {each.stream: each.envelope.event.at for each in last if isinstance(each.envelope.event, ACTIVE)}


async def clean(disk: Disk, report: Report = ignore_news) -> str:
    """Remove erased bytes from the database's files: ``rewritten``, or ``kept: `` and the reason."""
    try:
        await disk.rewrite_content(report)
    except LogFailed as error:
        return f"kept: {error}"
    return "rewritten"
