"""Does the work that sessions owe (``domain/objects/work.py``), off the request path: fetches, has it summarized,
reports back.

It holds nothing that matters: what is due follows from each session's state. It gives way to turns, waits while the
database is away, and leaves an object alone that it cannot do.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast
from uuid import UUID

import trio

from mnemosyne.actors.budget import HelperBudget
from mnemosyne.actors.messages import Due, Identity, Owed, SummaryMade
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session import SessionActor
from mnemosyne.actors.summarizing import NothingToSay, Summarizer, Written
from mnemosyne.backoff import backoff
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.work import OwedSummary, Target
from mnemosyne.domain.ports import ContentStore, Ticket
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece, Recipe
from mnemosyne.errors import ActorStopped, LogUnavailable, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)

AT_ONCE = 2
"""Summaries that are made at a time."""

BATCH = 8
"""Summaries of one session before another session has its turn."""

GIVE_WAY_SECONDS, MOST_GIVEN_WAY = 0.01, 100
"""How long it waits before it looks again whether a turn is being recorded, and how often."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until it tries again where the log could not be read or written."""

SESSIONS_REMEMBERED = 64
"""Of how many sessions at least it is remembered what could not be done; of more, only of those that are awake."""

_LATER = (LogUnavailable, VersionConflict, ActorStopped)


class Curator:
    """The task that keeps the sessions of ``registry`` curated. ``now`` gives µs of UTC, ``new_id`` a name for what
    one piece of work sets off.
    """

    def __init__(
        self,
        registry: SessionRegistry,
        contents: ContentStore,
        summarizer: Summarizer,
        budget: HelperBudget,
        now: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        self._registry = registry
        self._contents = contents
        self._summarizer = summarizer
        self._budget = budget
        self._now = now
        self._new_id = new_id
        self._slots = trio.Semaphore(AT_ONCE)
        self._given_up: dict[UUID, set[Target]] = {}
        self._pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)

    async def run(self) -> None:
        """Work until cancelled. Nothing that fails here ends it."""
        while True:
            identity = await self._registry.changes.next()
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
                self._registry.changes.note(identity)

    async def _curate(self, identity: Identity) -> tuple[bool, bool]:
        """Do some of what a session owes; whether to look at it again, and whether the log let us."""
        try:
            due = await self._due(identity)
        except _LATER:
            return True, False
        except MnemosyneError as error:
            log.warning("session %s cannot be curated: %s", identity.stream, error)
            return False, True
        postponed: list[OwedSummary] = []
        async with trio.open_nursery() as nursery:
            for each in due.summaries:
                await self._slots.acquire()
                nursery.start_soon(self._do, identity, each, postponed)
        return bool(due.summaries), not postponed

    async def finish(self, identity: Identity) -> None:
        """Do all that a session owes, one thing after the other, without giving way to its turns."""
        postponed: list[OwedSummary] = []
        while not postponed and (due := await self._due(identity)).summaries:
            for each in due.summaries:
                await self._try(identity, each, postponed)

    async def _due(self, identity: Identity) -> Due:
        given_up = frozenset(self._given_up.get(identity.stream, ()))
        actor, asked = self._registry.ask(identity, Owed(limit=BATCH, given_up=given_up))
        with self._discarding(identity, actor):
            due = await asked.wait()
            assert isinstance(due, Due)
            if due.ticket is not None:
                await due.ticket.durable()  # only then are the contents there
            return due

    async def _do(self, identity: Identity, owed: OwedSummary, postponed: list[OwedSummary]) -> None:
        try:
            await self._quiet()
            await self._try(identity, owed, postponed)
        finally:
            self._slots.release()

    async def _try(self, identity: Identity, owed: OwedSummary, postponed: list[OwedSummary]) -> None:
        try:
            await self._summarize(identity, owed)
        except _LATER as error:
            log.debug("a summary in session %s is made later: %s", identity.stream, error)
            postponed.append(owed)
        except (MnemosyneError, NothingToSay, ValueError) as error:
            log.info("object %s of session %s is not summarized: %s", owed.object, identity.stream, error)
            self._give_up(identity, owed)
        except Exception:
            log.exception("object %s of session %s could not be summarized", owed.object, identity.stream)
            self._give_up(identity, owed)

    def _give_up(self, identity: Identity, owed: OwedSummary) -> None:
        self._given_up.setdefault(identity.stream, set()).add(owed.target)
        if len(self._given_up) > SESSIONS_REMEMBERED:
            awake = {stream: targets for stream, targets in self._given_up.items() if self._registry.is_awake(stream)}
            self._given_up = awake

    async def _quiet(self) -> None:
        """Let turns go first, for a while."""
        for _ in range(MOST_GIVEN_WAY):
            if not self._registry.busy:
                return
            await trio.sleep(GIVE_WAY_SECONDS)

    async def _summarize(self, identity: Identity, owed: OwedSummary) -> None:
        made_of = recipe.apply(Recipe(), recipe.decode(owed.content))
        digests = {piece.digest for piece in made_of.pieces if isinstance(piece, Piece)}
        wanted = digests if owed.detailed is None else {*digests, owed.detailed}
        found = await self._contents.fetch(identity.stream, sorted(wanted))
        content = recipe.assemble(made_of.pieces, found.__getitem__)
        full = await trio.to_thread.run_sync(full_text, content, abandon_on_cancel=True)
        detailed = None if owed.detailed is None else found[owed.detailed].decode()
        written = await self._summarizer.write(owed, full, detailed)
        recorded = False
        try:
            recorded = await self._tell(identity, owed, written)
        finally:
            (self._budget.release if recorded else self._budget.charge)(written.nanodollars)

    async def _tell(self, identity: Identity, owed: OwedSummary, written: Written) -> bool:
        """Report back; whether it is on record now."""
        command, data = written.command(owed, self._now()), written.text.encode()
        actor, asked = self._registry.ask(
            identity, SummaryMade(command=command, data=data, correlation_id=self._new_id())
        )
        with self._discarding(identity, actor):
            ticket = cast("Ticket | None", await asked.wait())
            if ticket is not None:
                await ticket.durable()
            return ticket is not None

    @contextmanager
    def _discarding(self, identity: Identity, actor: SessionActor) -> Iterator[None]:
        """Let go of an actor whose state turns out not to be the log's: the next one reads it again."""
        try:
            yield
        except (VersionConflict, ActorStopped):
            self._registry.discard(identity.stream, actor)
            raise
