"""What objects and their summaries cost over one long session: the step that remembers a turn, and the curator's work.

All in one process, on a log in memory: what is measured is what we compute, not the database. The history is that of
``history.py``.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from uuid import UUID

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.history import history, kind_of
from benchmarks.load import CLAUDE_CODE
from benchmarks.replies import reply_of
from mnemosyne.actors.awake import AwakeSessions
from mnemosyne.actors.budget import HelperBudget
from mnemosyne.actors.curator import Curator
from mnemosyne.actors.messages import ArrivedRequest, Begin, Begun, Due, Finish, Identity, Owed
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session import SessionActor
from mnemosyne.actors.summarizing import Summarizer
from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.events import ObjectCreated, ObjectSummarized
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.budget import Budget
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.wire.messages import MESSAGES
from tests.actors.spending import LoggedSpending

IDENTITY = Identity(stream=UUID(int=0), tenant="local", external_id="a session")

AROUND = 20
"""A turn's number stands for as many turns before and after it."""

EARLY, LATE = 100, 2_000
QUICK_EARLY, QUICK_LATE = 20, 40

ONCE = 1.0

_NOTHING = Owed(limit=0, given_up=frozenset())


@attrs.define
class Measured:
    """Seconds by turn, from the first: of the step that remembers it, and of finding out what is due."""

    turns: int
    remembering: list[float] = attrs.field(factory=list)
    due: list[float] = attrs.field(factory=list)
    summarizing: float = 0.0
    log: PlainLog = attrs.field(factory=lambda: PlainLog(event_codec()))


@cache
def measured(quick: bool) -> Measured:
    """The whole session, recorded, remembered and then summarized."""
    return trio.run(_measure, quick)


class _Timed(SessionActor):
    """An actor that notes how long it takes to remember what a request brought."""

    seconds = 0.0

    async def _do_owed(self) -> None:
        start = time.perf_counter()
        await super()._do_owed()
        self.seconds += time.perf_counter() - start


async def _measure(quick: bool) -> Measured:
    whole = history(kind_of(quick))
    found = Measured(whole.turns)
    log = found.log
    actor = _Timed(IDENTITY, event_log=log, contents=log, journal=log, new_salt=_salt)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        for turn in range(1, whole.turns + 1):
            headers = (("user-agent", CLAUDE_CODE),)
            request = ArrivedRequest(
                at=turn, headers=headers, raw=whole.body(turn), correlation_id="", dialect=MESSAGES
            )
            begun = await actor.mailbox.post(Begin(request=request)).wait()
            assert isinstance(begun, Begun)
            await actor.mailbox.post(_NOTHING).wait()  # it remembers before it takes the next question
            found.remembering.append(actor.seconds)
            actor.seconds = 0.0
            start = time.perf_counter()
            await actor.mailbox.post(_NOTHING).wait()
            found.due.append(time.perf_counter() - start)
            reply = reply_of(whole.reply(turn), turn)
            finish = Finish(at=turn, address=begun.address, status=200, reply=reply, correlation_id="")
            await actor.mailbox.post(finish).wait()
        actor.stop()
    async with _registry(log) as registry:
        start = time.perf_counter()
        await _curate(registry, log)
        found.summarizing = time.perf_counter() - start
    return found


def _salt() -> bytes:
    return b"s" * 16


@asynccontextmanager
async def _registry(log: PlainLog) -> AsyncIterator[SessionRegistry]:
    async with trio.open_nursery() as nursery:
        registry = SessionRegistry(nursery, event_log=log, contents=log, journal=log, new_salt=_salt)
        yield registry
        nursery.cancel_scope.cancel()


async def _curate(registry: SessionRegistry, log: PlainLog) -> None:
    """Let the curator work until nothing is due."""
    budget = HelperBudget(LoggedSpending(log), Budget(0, 0.0), lambda: 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Curator(AwakeSessions(registry), log, Summarizer(None, budget), budget, lambda: 0, str).run)
        registry.changes.note(IDENTITY)
        position = log.committed.position
        while True:
            _, asked = registry.ask(IDENTITY, Owed(limit=1, given_up=frozenset()))
            due = await asked.wait()
            assert isinstance(due, Due)
            if not due.summaries:
                break
            position = await log.committed.beyond(position)
        nursery.cancel_scope.cancel()


def steps(_: Sequence[Server], quick: bool) -> list[Row]:
    """Milliseconds of each step, early and late in the session: they should not grow with it."""
    found = measured(quick)
    rows = []
    for name, seconds in (("remember a turn", found.remembering), ("find what is due", found.due)):
        for turn in (QUICK_EARLY, QUICK_LATE) if quick else (EARLY, LATE):
            near = [1_000 * each for each in seconds[turn - AROUND : turn + AROUND]]
            rows.append(spread(f"{name}, around turn {turn}", "ours", "ms", near))
    return [*rows, single(f"remember {found.turns} turns", "ours", "s", sum(found.remembering))]


def made(_: Sequence[Server], quick: bool) -> list[Row]:
    """How often work is done that need be done once, and how long the curator takes for all of it."""
    found = measured(quick)
    events = [recorded.envelope.event for recorded in trio.run(_events, found.log)]
    created = [event for event in events if isinstance(event, ObjectCreated)]
    places = [(event.branch, place) for event in created for place in event.places]
    summaries = [event for event in events if isinstance(event, ObjectSummarized)]
    distinct = {(event.object, event.fidelity) for event in summaries}
    return [
        single("blocks in objects ÷ distinct blocks", "ours", "ratio", len(places) / len(set(places)), ONCE),
        single("summaries made ÷ distinct summaries", "ours", "ratio", len(summaries) / len(distinct), ONCE),
        single(f"objects of {found.turns} turns", "ours", "", len(created)),
        single(f"summaries of {found.turns} turns", "ours", "", len(summaries)),
        single(f"summarize {found.turns} turns", "ours", "s", found.summarizing),
    ]


async def _events(log: PlainLog) -> Sequence[Recorded[Event]]:
    return await log.tail(after=0, limit=10**7)


GROUP = Group(name="memory", variants=(), parts=(Part("steps", steps), Part("made", made)))
