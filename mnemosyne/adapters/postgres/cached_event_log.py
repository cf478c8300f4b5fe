"""The event log for a process that is asked about the same sessions again and again: what it read stays in memory."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.bounded import Lru
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import SessionForgotten

HELD_EVENTS = 50_000
"""Of all streams together; a longer one is held alone."""

Events = Sequence[Recorded[Any]]


class CachedEventLog(PostgresEventLog):
    """The same log. Of a stream that is read whole once more, only what came since is asked of the database, with the
    last event known before: if that is another one, or the session was forgotten, all is read anew. What an erasing
    that was cut short has taken away is noticed once it is done again.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        """See PostgresEventLog."""
        super().__init__(*args, **options)
        self._held: Lru[UUID, Events] = Lru(HELD_EVENTS, len)

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Events:
        """See ports.EventLog. Also raises UnknownEvent."""
        if after or upto is not None:
            return await super().read(stream, after=after, upto=upto)
        events = await self._go_on(stream) or await super().read(stream)
        if _was_forgotten(events):
            self._held.pop(stream)
            return events
        return self._held.put(stream, events)

    async def _go_on(self, stream: UUID) -> Events:
        """What is held of a stream with what came since; nothing where it is not held, or not what it was."""
        held = self._held.get(stream)
        if not held:
            return ()
        last, *more = await super().read(stream, after=held[-1].version - 1) or (None,)
        return (*held, *more) if last == held[-1] and not _was_forgotten(more) else ()


def _was_forgotten(events: Events) -> bool:
    return any(isinstance(each.envelope.event, SessionForgotten) for each in events)
