"""Verifies whole sessions against their log, in memory for a window of turns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from uuid import UUID

import attrs

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import History, history_of
from mnemosyne.domain.history.verification import Discrepancy, Fetch, Task, Verifier
from mnemosyne.domain.ports import Recorded, StreamSizes
from mnemosyne.domain.session.events import Event
from mnemosyne.errors import ContentForgotten, ContentMissing, LogDamaged, UnknownEvent
from mnemosyne.services.sessions import Archive, find

WINDOW_BYTES = 16 * 1024 * 1024
WINDOW_TASKS = 128
"""Limits of one window: bytes to hash, and number of bodies and replies."""


@attrs.frozen
class Verification:
    """The result of verifying a session. Its ``turns`` took ``attempts`` client requests; ``rounds`` are the managed
    requests to the provider. Of both, ``checked`` were rebuilt completely; ``forgotten`` cannot be, because their
    content was erased on request. ``unrecorded`` turns went unrecorded.
    """

    session: UUID
    external_id: str | None
    turns: int
    attempts: int
    rounds: int
    checked: int
    forgotten: int
    unrecorded: int
    differences: tuple[Discrepancy, ...]
    unreadable: str | None = None
    """The reason if its events cannot be read at all; then the other fields are empty."""

    @property
    def is_sound(self) -> bool:
        """Whether everything can be read and equals the record."""
        return self.unreadable is None and not self.differences

    @property
    def verdict(self) -> str:
        """``unreadable``, otherwise ``differs`` if anything does, otherwise ``forgotten`` if any content was erased,
        otherwise ``ok``.
        """
        if self.unreadable is not None:
            return "unreadable"
        if self.differences:
            return "differs"
        return "forgotten" if self.forgotten else "ok"


Bars = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Makes a progress bar with a label."""


async def verify_sessions(archive: Archive, wanted: str | None, bars: Bars) -> list[Verification]:
    """Verify the session that a person means, or all; a damaged one does not stop the others. Raises NotFound."""
    streams = [await find(archive, wanted)] if wanted is not None else list(await archive.events.streams())
    found = []
    for number, stream in enumerate(streams, start=1):
        with bars(f"session {number} of {len(streams)}") as progress:
            found.append(await _verify_safely(archive, stream, progress))
    return found


async def _verify_safely(archive: Archive, stream: UUID, progress: Callable[[int, int], None]) -> Verification:
    try:
        return await verify(archive, stream, progress)
    except (LogDamaged, UnknownEvent) as error:
        return Verification(stream, None, 0, 0, 0, 0, 0, 0, differences=(), unreadable=str(error))


async def verify(archive: Archive, stream: UUID, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Verify one session; ``progress`` gets the number of bodies done and their total."""
    events = await archive.events.read(stream)
    history = history_of(str(stream), events)
    gone = _find_erased(history, events, (await archive.events.sizes(stream)).get(stream, StreamSizes()))
    check = _Check(archive, stream, gone)
    for window in _windows(Verifier(history).tasks()):
        await check.run(window)
        if progress is not None:
            progress(window[-1][0], len(history.bodies))
    return Verification(
        session=stream,
        external_id=history.started.external_id if history.started else None,
        turns=history.turns,
        attempts=len(history.attempts),
        rounds=len(history.bodies) - len(history.attempts),
        checked=len(history.bodies) - len(check.forgotten | check.differing),
        forgotten=len(check.forgotten - check.differing),
        unrecorded=history.unrecorded,
        differences=tuple(check.differences),
    )


def _find_erased(history: History, events: Sequence[Recorded[Event]], sizes: StreamSizes) -> set[bytes]:
    """The erased contents: those named before the session was deleted, and not again since.

    A session without any content was deleted, even if a crash prevented the event.
    """
    if sizes.contents == 0 and sizes.forgotten > 0:
        return _find_named(events)
    return _find_named(events[: history.forgotten]) - _find_named(events[history.forgotten :])


def _find_named(events: Iterable[Recorded[Event]]) -> set[bytes]:
    named: set[bytes] = set()
    for each in events:
        with suppress(ValueError):  # the verifier will report the place and the reason
            named.update(time_travel.digests_of(each.envelope.event))
    return named


Numbered = tuple[int, Task | Discrepancy]
"""A task with the number of bodies begun up to it."""


def _windows(tasks: Iterable[Task | Discrepancy]) -> Iterator[list[Numbered]]:
    window: list[Numbered] = []
    weight = bodies = 0
    for task in tasks:
        bodies += isinstance(task, Discrepancy) or not task.is_reply
        window.append((bodies, task))
        weight += task.weight if isinstance(task, Task) else 0
        if weight >= WINDOW_BYTES or len(window) == WINDOW_TASKS:
            yield window
            window, weight = [], 0
    if window:
        yield window


class _Check:
    """The check of one session and its results so far."""

    def __init__(self, archive: Archive, stream: UUID, erased: set[bytes]) -> None:
        self._archive = archive
        self._stream = stream
        self._erased = erased
        self._missing: dict[bytes, str] = {}
        self.differences: list[Discrepancy] = []
        self.forgotten: set[int] = set()
        self.differing: set[int] = set()
        """Bodies with a difference in themselves or in their reply, by the version of their event."""

    async def run(self, window: list[Numbered]) -> None:
        """Check a window of tasks, with one fetch for all their contents."""
        tasks = [task for _, task in window if isinstance(task, Task)]
        needed = {digest for task in tasks for digest in task.needs}
        held = await self._fetch(sorted(needed - self._erased - self._missing.keys()))
        for _, task in window:
            if isinstance(task, Discrepancy):
                self._differs(task)
            else:
                await self._run(task, held)

    async def _run(self, task: Task, held: dict[bytes, bytes]) -> None:
        missing = task.first_of(self._missing) if self._missing else None
        if missing is not None:
            self._differs(Discrepancy(task.attempt, self._missing[missing]))
        elif self._erased and task.first_of(self._erased) is not None:
            self.forgotten.add(task.attempt.body_version)
        else:
            # If the body that it builds on could not be checked, it needs more than was fetched.
            more = await self._fetch(sorted(task.needs - held.keys()))
            if task.needs <= held.keys() | more.keys():
                self._judge(task, (held | more).__getitem__ if more else held.__getitem__)
            else:
                await self._run(task, held)  # now the missing content is known

    def _judge(self, task: Task, fetch: Fetch) -> None:
        difference = task.check(fetch)
        if difference is not None:
            self._differs(difference)

    def _differs(self, difference: Discrepancy) -> None:
        self.differences.append(difference)
        self.differing.add(difference.attempt.body_version)

    async def _fetch(self, digests: list[bytes]) -> dict[bytes, bytes]:
        """The readable ones of these contents; the others are recorded. Few are unreadable, so bisecting finds them
        quickly.
        """
        if not digests:
            return {}
        try:
            return await self._archive.contents.fetch(self._stream, digests)
        except (ContentForgotten, ContentMissing) as error:
            if len(digests) == 1:
                self._note(digests[0], error)
                return {}
        half = len(digests) // 2
        return await self._fetch(digests[:half]) | await self._fetch(digests[half:])

    def _note(self, digest: bytes, error: ContentForgotten | ContentMissing) -> None:
        if isinstance(error, ContentForgotten):
            self._erased.add(digest)
        else:
            self._missing[digest] = str(error)
