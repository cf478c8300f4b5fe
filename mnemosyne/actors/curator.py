"""Does the work that sessions owe (``domain/objects/work.py``), off the request path: fetches, has it summarized,
reports back.

It holds nothing that matters: what is due follows from each session's state. It may run in another process than the
sessions, waits while the database is away, and leaves an object alone that it cannot do.
"""

import logging
from collections.abc import Callable, Sequence, Set
from typing import Protocol
from uuid import UUID

import trio

from mnemosyne.actors.budget import HelperBudget
from mnemosyne.actors.changes import Changes
from mnemosyne.actors.messages import Identity, SummaryMade
from mnemosyne.actors.summarizing import NothingToSay, Summarizer, Written
from mnemosyne.backoff import backoff
from mnemosyne.bounded import Lru
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.work import OwedSummary, Target
from mnemosyne.domain.ports import ContentStore
from mnemosyne.domain.text.parts import join
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece, Recipe
from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)

AT_ONCE = 2
"""Summaries that are made at a time."""

BATCH = 8
"""Summaries of one session before another session has its turn."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until it tries again where the log could not be read or written."""

SESSIONS_REMEMBERED = 256
"""Of how many sessions it is remembered what could not be done; of others it is tried once more."""

LATER = (LogUnavailable, VersionConflict, ActorStopped)
"""Why something is tried again: it is no fault of the work itself."""


class CuratedSessions(Protocol):
    """The sessions that are awake, wherever they are. What can be had later raises one of ``LATER``."""

    async def wait_for_change(self) -> Identity:
        """Wait for a session in which something happened, and take it off the list. One task waits at a time."""
        ...

    async def due(self, identity: Identity, limit: int, given_up: Set[Target]) -> Sequence[OwedSummary]:
        """At most ``limit`` summaries that a session owes, none that was ``given_up``; all that they are made of is
        durable.
        """
        ...

    async def tell(self, identity: Identity, made: SummaryMade) -> bool:
        """Report a summary back; whether it is on record now."""
        ...


class Curator:
    """The task that keeps sessions curated. ``now`` gives µs of UTC, ``new_id`` a name for what one piece of work sets
    off.
    """

    def __init__(
        self,
        sessions: CuratedSessions,
        contents: ContentStore,
        summarizer: Summarizer,
        budget: HelperBudget,
        now: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        self._sessions = sessions
        self._contents = contents
        self._summarizer = summarizer
        self._budget = budget
        self._now = now
        self._new_id = new_id
        self._changes = Changes()
        self._slots = trio.Semaphore(AT_ONCE)
        self._given_up: Lru[UUID, set[Target]] = Lru(SESSIONS_REMEMBERED)
        self._pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)

    async def run(self) -> None:
        """Work until cancelled. Nothing that fails here ends it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen)
            nursery.start_soon(self._work)

    async def _listen(self) -> None:
        while True:
            self._changes.note(await self._sessions.wait_for_change())

    async def _work(self) -> None:
        while True:
            identity = await self._changes.next()
            try:
                again, done = await self._curate(identity)
            except Exception:
                log.exception("session %s could not be curated", identity.stream)
                continue
            if done:
                self._pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
            else:
                await trio.sleep(next(self._pauses))
            if again:
                self._changes.note(identity)

    async def _curate(self, identity: Identity) -> tuple[bool, bool]:
        """Do some of what a session owes; whether to look at it again, and whether the log let us."""
        try:
            due = await self._due(identity)
        except LATER:
            return True, False
        except MnemosyneError as error:
            log.warning("session %s cannot be curated: %s", identity.stream, error)
            return False, True
        postponed: list[OwedSummary] = []
        async with trio.open_nursery() as nursery:
            for each in due:
                nursery.start_soon(self._try, identity, each, postponed)
        return bool(due), not postponed

    async def finish(self, identity: Identity) -> None:
        """Do all that a session owes, one thing after the other, without giving way to its turns."""
        postponed: list[OwedSummary] = []
        while not postponed and (due := await self._due(identity)):
            for each in due:
                await self._try(identity, each, postponed)

    async def _due(self, identity: Identity) -> Sequence[OwedSummary]:
        given_up = frozenset(self._given_up.get(identity.stream) or ())
        return await self._sessions.due(identity, BATCH, given_up)

    async def _try(self, identity: Identity, owed: OwedSummary, postponed: list[OwedSummary]) -> None:
        try:
            await self._summarize(identity, owed)
        except LATER as error:
            log.debug("a summary in session %s is made later: %s", identity.stream, error)
            postponed.append(owed)
        except (MnemosyneError, NothingToSay, ValueError) as error:
            log.info("object %s of session %s is not summarized: %s", owed.object, identity.stream, error)
            self._give_up(identity, owed)
        except Exception:
            log.exception("object %s of session %s could not be summarized", owed.object, identity.stream)
            self._give_up(identity, owed)

    def _give_up(self, identity: Identity, owed: OwedSummary) -> None:
        targets = self._given_up.get(identity.stream) or self._given_up.put(identity.stream, set())
        targets.add(owed.target)

    async def _summarize(self, identity: Identity, owed: OwedSummary) -> None:
        async with self._slots:
            written = await self._write(identity, owed)
        recorded = False
        try:
            recorded = await self._tell(identity, owed, written)  # those of a batch become durable together
        finally:
            (self._budget.release if recorded else self._budget.charge)(written.nanodollars)

    async def _write(self, identity: Identity, owed: OwedSummary) -> Written:
        made_of = recipe.apply(Recipe(), recipe.decode(owed.content))
        digests = {piece.digest for piece in made_of.pieces if isinstance(piece, Piece)}
        wanted = digests if owed.detailed is None else {*digests, owed.detailed}
        found = await self._contents.fetch(identity.stream, sorted(wanted))
        content = recipe.assemble(made_of.pieces, found.__getitem__)
        parts = await trio.to_thread.run_sync(full_parts, content, owed.by_user, abandon_on_cancel=True)
        detailed = None if owed.detailed is None else found[owed.detailed].decode()
        return await self._summarizer.write(owed, join(parts), detailed, parts)

    async def _tell(self, identity: Identity, owed: OwedSummary, written: Written) -> bool:
        """Report back; whether it is on record now."""
        command, data = written.command(owed, self._now()), written.text.encode()
        made = SummaryMade(command=command, data=data, correlation_id=self._new_id())
        return await self._sessions.tell(identity, made)
