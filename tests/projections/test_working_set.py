"""The rows of each context equal the fold of the session's events, whatever the client did."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history.memory_travel import snapshot
from mnemosyne.domain.history.working_set import WindowView
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import (
    Link,
    LinkRelation,
    ObjectDegraded,
    ObjectEvent,
    ObjectRestored,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.protection import Resident
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import BranchOpened, Event, SessionForgotten
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.errors import NotFound
from mnemosyne.projections.projector import Projector
from mnemosyne.projections.rebuilding import rebuild
from mnemosyne.projections.working_set import WINDOW_NOW, WORKING_SET, WORKING_SETS
from mnemosyne.services import windows
from mnemosyne.services.sessions import Archive
from tests.adapters.log_support import open_database
from tests.domain.remembered import about, made
from tests.domain.session_events import opened_branch
from tests.golden.sessions import FOLDERS, opened
from tests.plain.log import PlainLog
from tests.services.talking import Plain, rich_session, talking

Shown = tuple[WindowView, Sequence[Resident]]


async def check(archive: Archive, database: Database) -> dict[str, Shown]:
    """Bring the rows up to date and compare them with the fold; return what each branch of the last session shows."""
    store = PostgresProjections(database)
    assert (await Projector(WORKING_SETS, archive.events, store).catch_up()).error is None
    shown_by_branch: dict[str, Shown] = {}
    for stream in await archive.events.streams():
        events = await archive.events.read(stream)
        branches = {each.envelope.event.branch for each in events if isinstance(each.envelope.event, BranchOpened)}
        shown_by_branch = {}
        for branch in sorted(branches):
            where = {"stream": stream, "branch": branch}
            rows, views = await store.select((WORKING_SETS,), ((WORKING_SET, where), (WINDOW_NOW, where)))
            try:
                folded = snapshot(events, branch)
            except NotFound:
                assert views == []
                continue
            assert (
                await windows.standings(archive, stream, list(map(windows.working_object, rows))) == folded.standings()
            )
            assert [row["tokens"] or 0 for row in rows] == [each.tokens for each in folded.standings()]
            assert windows.window_view(branch, views[0]) == folded.window
            assert views[0]["observed"] == (folded.session.branches[branch].wire is None)
            shown_by_branch[branch] = folded.window, folded.standings()
    return shown_by_branch


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_the_rows_of_a_log_of_any_version_equal_the_fold(folder: Path, dsn: str) -> None:
    async with open_database(dsn) as database:
        await check(opened(folder), database)


async def test_the_rows_of_a_session_with_every_event_equal_the_fold(dsn: str) -> None:
    async with talking() as talk:
        await rich_session(talk)
    async with open_database(dsn) as database:
        assert len(await check(talk.archive, database)) > 2


@st.composite
def stories(draw: st.DrawFn) -> list[Event]:
    """Draw events of objects in branches that fork from one another, each valid in its state."""
    events: list[Event] = [opened_branch()]
    state = reduce(evolve, events, Session())
    for number in range(draw(st.integers(1, 14))):
        branch = draw(st.sampled_from(sorted(state.branches)))
        shown = list(state.memory.standings(branch))
        what = draw(st.sampled_from(("make", "derive", "move", "move", "happen", "happen", "fork", "compact")))
        if what == "fork":
            kept, forked_at = draw(st.integers(0, 10)), draw(st.integers(0, 6))
            event: Event = opened_branch(f"fork-{number}", branch, kept=kept, forked_at=forked_at)
        elif what == "compact":
            event = compacted(branch, draw(st.integers(1, 9)))
        elif what == "make" or not shown:
            event = made(f"o{number}", draw(st.integers(0, 9)), branch=branch, links=links_to(draw, shown))
        elif what == "derive":
            event = made(f"d{number}", branch=branch, role=Role.DERIVED, links=links_to(draw, shown))
        else:
            each, fidelity = draw(st.sampled_from(shown))
            turn = draw(st.integers(1, 9))
            event = moved(each.id, branch, fidelity, turn) if what == "move" else draw(happening(each.id))
        events.append(event)
        state = evolve(state, event)
    return [*events, *draw(st.sampled_from(([], [SessionForgotten(at=1)])))]


def compacted(branch: str, turn: int) -> EpochBegan:
    fields: dict[str, Any] = {"epoch": 1, "messages": 0, "reason": "r", "freed": 0, "price": 0, "payback": None}
    return EpochBegan(at=1, branch=branch, turn=turn, hour=False, **fields)


def links_to(draw: st.DrawFn, shown: Sequence[tuple[MemoryObject, Fidelity]]) -> tuple[Link, ...]:
    ids = [each.id for each, _ in shown]
    if not ids:
        return ()
    return tuple(draw(st.lists(st.builds(Link, st.sampled_from(LinkRelation), st.sampled_from(ids)), max_size=3)))


def moved(object_id: str, branch: str, before: Fidelity, turn: int) -> ObjectEvent:
    where: Any = {"at": 1, "object": object_id, "branch": branch, "turn": turn, "before": before}
    if before is Fidelity.FULL:
        return ObjectDegraded(**where, after=Fidelity.STUB, cause=Cause.PRESSURE)
    return ObjectRestored(**where, after=Fidelity.FULL, cause=Cause.FAULT)


def happening(object_id: str) -> st.SearchStrategy[ObjectEvent]:
    """Return a strategy for any other event of an object."""
    unlike = (ObjectDegraded, ObjectRestored)
    return st.sampled_from([each for each in about(object_id) if not isinstance(each, unlike)])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories())
def test_the_rows_of_random_events_equal_the_fold(dsn: str, events: list[Event]) -> None:
    state = reduce(evolve, events, Session())

    async def rows_of(log: PlainLog, stream: UUID) -> None:
        async with open_database(dsn) as database:
            store = PostgresProjections(database)
            await store.create(WORKING_SETS)
            await rebuild(WORKING_SETS, log, store)
            for branch in state.branches:
                (rows,) = await store.select((WORKING_SETS,), [(WORKING_SET, {"stream": stream, "branch": branch})])
                found = await windows.standings(Plain(log), stream, list(map(windows.working_object, rows)))
                assert [(each.object, each.fidelity) for each in found] == list(state.memory.standings(branch)), branch

    log, stream = PlainLog(event_codec()), UUID(int=1)
    log.submit(Append(stream, 0, tuple(Envelope(event, "c") for event in events)))
    trio.run(rows_of, log, stream)


def test_a_later_restore_and_eviction_do_not_count_in_an_earlier_fork() -> None:
    full, stub = Fidelity.FULL, Fidelity.STUB
    moves = [moved("o0", "main", full, 1), moved("o0", "main", stub, 2), moved("o0", "main", full, 1)]
    last = moved("o0", "main", stub, 1)
    events = [opened_branch(), made("o0", 0, branch="main"), *moves, last]
    state = reduce(evolve, [*events, opened_branch("fork", "main", kept=1, forked_at=1)], Session())
    assert [fidelity for _, fidelity in state.memory.standings("fork")] == [full]
