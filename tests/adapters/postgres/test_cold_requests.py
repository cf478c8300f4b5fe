"""The causes of cache misses as a table equal those of `usage --misses`, grow, are rebuilt, and are erased."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
import trio

from mnemosyne.adapters.postgres import cold_requests
from mnemosyne.adapters.postgres.bills import PostgresBills
from mnemosyne.adapters.postgres.cold_requests import ColdRequests, clear
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.app.storage import storage_of
from mnemosyne.domain.ports import Append, Content
from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.errors import LogUnavailable
from mnemosyne.projections.catalog import ALL
from mnemosyne.services.cache_misses import PromptReader, PromptRequest, read_all_misses
from tests.adapters.log_support import query
from tests.adapters.postgres.test_sql_views import WINDOWS, filled, rows
from tests.golden.sessions import CODEC, FOLDERS
from tests.projections.support import POSTGRES, World, open_world
from tests.services.talking import Talk, talking
from tests.services.test_cache_misses import Client, misfortune, record
from tests.waiting import DEADLINE

NAMES = [folder.name for folder in FOLDERS]

GROUPS = """select sentence, is_miss, count(*) as requests, sum(tokens) as tokens, round(coalesce(sum(dollars), 0), 6)
as dollars from cache_miss_causes group by 1, 2 order by 1"""


async def store(world: World, talk: Talk, after: int = 0, upto: int | None = None) -> None:
    """Copy some of a session's events from memory into the database, and update the read models."""
    await copy(world, talk, after, upto)
    await update(world)


async def copy(world: World, talk: Talk, after: int = 0, upto: int | None = None) -> None:
    events = await talk.archive.events.read(talk.stream, after=after, upto=upto)
    held = talk.archive.log._contents[talk.stream].values()
    contents = tuple(Content(sha256(data).digest(), data) for data in held if data is not None)
    await world.journal.append(Append(talk.stream, after, tuple(each.envelope for each in events), contents))


async def update(world: World) -> None:
    for projection in ALL:
        assert (await world.projector(projection).catch_up()).error is None


async def explain_all(world: World, event_log: type[PostgresEventLog] = PostgresEventLog) -> int:
    """The number of sessions that were explained."""
    cold, number = ColdRequests(world.database, storage_of(world.database, event_log=event_log)), 0
    while await cold.explain_next():
        number += 1
    return number


async def groups(world: World, streams: Sequence[UUID]) -> list[dict[str, object]]:
    """What `usage --misses` says, as rows of ``GROUPS``."""
    found = await read_all_misses(storage_of(world.database), streams)
    return [
        {
            "sentence": each.text,
            "is_miss": each.is_miss,
            "requests": each.requests,
            "tokens": each.tokens,
            "dollars": round(each.nanodollars / 1e9, 6),
        }
        for each in sorted(found, key=lambda each: each.text)
    ]


async def explained(world: World) -> list[dict[str, object]]:
    return [
        each | {"tokens": int(each["tokens"]), "dollars": float(each["dollars"])} for each in await rows(world, GROUPS)
    ]


@pytest.mark.release
async def test_the_causes_in_sql_are_those_of_usage_misses_after_each_part_and_after_a_rebuild(dsn: str) -> None:
    async with talking() as talk:
        await record(talk, Client(), 10, misfortune)
        async with open_world(POSTGRES, dsn, CODEC) as world:
            assert await explain_all(world) == 0  # without read models
            await store(world, talk)
            assert await explain_all(world) == 1
            assert await explain_all(world) == 0
            found = await explained(world)
            assert found == await groups(world, [talk.stream])
            assert "the MCP server github changed its tools" in [each["sentence"] for each in found]
            places = await rows(
                world, "select name, changed_part, byte_offset from cache_miss_causes where name ~ '^mcp'"
            )
            assert [(each["name"], each["changed_part"]) for each in places] == [("mcp__github__merge", "tools")]
            assert places[0]["byte_offset"] > 0
            missed = await PostgresBills(world.database, world.log).count_missed()  # type: ignore[arg-type]
            assert missed.keys() == {
                ("tools", "mcp"),
                ("expiry", "time"),
                ("messages", "hook"),
                ("route", "client"),
                ("provider", "provider"),
            }
            assert sum(missed.values()) == sum(int(str(each["tokens"])) for each in found if each["is_miss"])
            await world.database.run(clear)
            assert await explain_all(world) == 1
            assert await explained(world) == found


class CountingLog(PostgresEventLog):
    """A log that counts how often a session is read."""

    reads = 0

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Any:
        type(self).reads += 1
        return await super().read(stream, after=after, upto=upto)


async def test_a_session_is_read_only_for_a_cold_request_that_is_not_explained_and_only_that_is_rebuilt(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    explained: list[list[int]] = []
    read = PromptReader.read

    async def note(self: PromptReader, request: PromptRequest, *others: Any, **more: Any) -> Any:
        explained[-1].append(request.attempt.address.turn)
        return await read(self, request, *others, **more)

    monkeypatch.setattr(PromptReader, "read", note)
    async with talking() as talk:
        await record(talk, Client(), 6, misfortune)
        events = await talk.archive.events.read(talk.stream)
    ends = [each.version - 1 for each in events if isinstance(each.envelope.event, TurnBegan)][1:]
    async with open_world(POSTGRES, dsn, CODEC) as world:
        reads = []
        for after, upto in pairwise([0, *ends, len(events)]):
            await store(world, talk, after, upto)
            explained.append([])
            await explain_all(world, CountingLog)
            reads.append(CountingLog.reads)
    assert reads == [1, 1, 2, 2, 3, 3]  # the start, the tool of turn 3, the pause before turn 5
    assert explained == [[1], [], [3], [], [5], []]


class Once:
    """The progress of a log that grows only once."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.is_quiet = trio.Event()

    async def beyond(self, position: int) -> int:
        if position == self.position:
            self.is_quiet.set()
            await trio.sleep_forever()
        return self.position


async def test_an_unchanged_log_is_not_read_again_once_the_read_models_have_its_last_event(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold_requests, "GATHER_SECONDS", 0)
    refused = trio.Event()

    class Noting(ColdRequests):
        async def explain_next(self, position: int = 0) -> bool:
            try:
                return await super().explain_next(position)
            except LogUnavailable:
                refused.set()
                raise

    async with talking() as talk, open_world(POSTGRES, dsn, CODEC) as world, trio.open_nursery() as nursery:
        await record(talk, Client(), 4, misfortune)
        await update(world)
        await copy(world, talk)
        progress = Once(await world.log.last_position())  # type: ignore[attr-defined]
        nursery.start_soon(Noting(world.database, storage_of(world.database)).run, progress)
        with trio.fail_after(DEADLINE):
            await refused.wait()
            assert not progress.is_quiet.is_set()
            await update(world)
            await progress.is_quiet.wait()
        assert await explained(world)
        nursery.cancel_scope.cancel()


async def test_the_causes_of_a_forgotten_session_are_erased_and_do_not_return(dsn: str) -> None:
    async with talking() as talk:
        await record(talk, Client(), 4, misfortune)
        async with open_world(POSTGRES, dsn, CODEC) as world:
            await store(world, talk)
            await explain_all(world)
            events = PostgresEventLog(world.database, CODEC)
            missed = await PostgresBills(world.database, events).count_missed()
            await events.forget(talk.stream, lambda event: event)
            assert query(dsn, "select count(*) from mnemosyne.cold_requests") == [(0,)]
            assert await PostgresBills(world.database, events).count_missed() == missed != {}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in WINDOWS else pytest.mark.release) for each in NAMES]
)
async def test_golden_logs_have_the_causes_of_usage_misses(name: str, dsn: str) -> None:
    async with filled(dsn, name) as world:
        await explain_all(world)
        sessions = await rows(world, "select id from sessions")
        assert await explained(world) == await groups(world, [each["id"] for each in sessions])
