"""The session of a request, looked up in both directories: in memory and in PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import attrs
import pytest

from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope, EventLog
from mnemosyne.domain.session.directory import Alias, Directory, stream_of
from mnemosyne.domain.session.events import BranchKind, Event, SessionStarted
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.errors import LogFailed
from tests.adapters.log_support import query
from tests.domain.session_events import began, opened_branch, round_began
from tests.plain.directory import PlainDirectory
from tests.projections.support import KINDS, PLAIN, POSTGRES, World, open_world

HELLO, REPLY, AGAIN, OTHER = (bytes([number]) * 16 for number in range(1, 5))


def speaks(external_id: str) -> ClientHeaders:
    return ClientHeaders(
        client="claude-code",
        version=None,
        external_id=external_id,
        parent_external_id=None,
        agent_id=None,
        parent_agent_id=None,
    )


def started(tenant: str, external_id: str) -> SessionStarted:
    return SessionStarted(
        at=1, tenant=tenant, external_id=external_id, client="claude-code", client_version=None, salt=b"s"
    )


async def session(world: World, tenant: str, external_id: str, *events: object) -> None:
    stream = stream_of(tenant, external_id)
    envelopes = tuple(Envelope(event, "c") for event in (started(tenant, external_id), *events))
    await world.journal.append(Append(stream, 0, envelopes))


@asynccontextmanager
async def directory_of(world: World) -> AsyncIterator[Directory]:
    """Open the directory with the world's log."""
    if world.kind == PLAIN:
        yield PlainDirectory(cast("EventLog[Event]", world.log))
        return
    assert isinstance(world.tail, PostgresEventLog)
    yield PostgresDirectory(world.database, world.tail)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_history_is_found_in_the_managed_sessions_of_its_tenant(kind: str, dsn: str) -> None:
    first = attrs.evolve(began(1, None), chains=(HELLO,))
    second = attrs.evolve(began(2, None), kept=1, chains=(REPLY, AGAIN))
    async with open_world(kind, dsn, event_codec()) as world:
        await session(world, "t", "short", first, round_began(1))
        await session(world, "t", "long", first, round_began(1), second, attrs.evolve(round_began(1), turn=2))
        await session(world, "t", "observed", first, second)
        await session(world, "t", "lately", first, second, attrs.evolve(round_began(1), turn=2))
        await session(world, "u", "foreign", first, round_began(1), second, attrs.evolve(round_began(1), turn=2))
        await session(world, "o", "observed", first, second)
        async with directory_of(world) as directory:
            assert {*await directory.find_managed("t", [HELLO])} == {"short", "long"}
            found = await directory.find_managed("t", [HELLO, REPLY, AGAIN, OTHER])
            assert ({*found[:2]}, found[2:]) == ({"long", "lately"}, ["short"])
            assert list(await directory.find_managed("t", [REPLY, OTHER])) == []
            assert list(await directory.find_managed("t", [])) == []
            assert list(await directory.find_managed("u", [HELLO])) == ["foreign"]
            assert [await directory.has_managed(tenant) for tenant in "tuo"] == [True, True, False]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unnamed_session_is_found_by_its_histories(kind: str, dsn: str) -> None:
    first = attrs.evolve(began(1, None), chains=(HELLO,))
    second = attrs.evolve(began(2, None), kept=1, chains=(REPLY, AGAIN))
    async with open_world(kind, dsn, event_codec()) as world:
        await session(world, "t", "chain:main:1:a", first)
        await session(world, "t", "chain:main:1:b", first, second)
        await session(world, "t", "named", first, second)
        await session(world, "u", "chain:main:1:a", first, second)
        async with directory_of(world) as directory:
            assert list(await directory.find_unnamed("t", [HELLO, REPLY, AGAIN])) == [
                "chain:main:1:b",
                "chain:main:1:a",
            ]
            assert {*await directory.find_unnamed("t", [HELLO])} == {"chain:main:1:a", "chain:main:1:b"}
            assert list(await directory.find_unnamed("u", [AGAIN])) == ["chain:main:1:a"]
            assert list(await directory.find_unnamed("t", [OTHER])) == []


async def test_a_directory_with_damaged_tables_raises_rather_than_finding_nothing(dsn: str) -> None:
    async with open_world(POSTGRES, dsn, event_codec()) as world, directory_of(world) as directory:
        await session(world, "t", "s", attrs.evolve(began(1, None), chains=(HELLO,)), round_began(1))
        assert list(await directory.find_managed("t", [HELLO])) == ["s"]
        query(dsn, "drop table mnemosyne.directory_rounds, mnemosyne.directory_speakers")
        with pytest.raises(LogFailed):
            await directory.find_managed("t", [HELLO])
        with pytest.raises(LogFailed):
            await directory.root_of("t", "forked")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_is_found_by_another_name_that_its_client_used(kind: str, dsn: str) -> None:
    own = attrs.evolve(began(1, None), speaker=speaks("s"))
    fork = attrs.evolve(began(2, None), speaker=speaks("forked"))
    agent = attrs.evolve(opened_branch("agent-1"), kind=BranchKind.AGENT, lane="agent:a", parent="main", agent_id="a")
    async with open_world(kind, dsn, event_codec()) as world:
        await session(world, "t", "s", own, fork, agent)
        await session(world, "t", "forked")
        async with directory_of(world) as directory:
            assert [await directory.root_of("t", name) for name in ("forked", "a")] == ["s", "s"]
            assert [await directory.root_of("t", name) for name in ("s", "nobody")] == [None, None]
            assert await directory.root_of("u", "forked") is None
            of = stream_of("t", "s")
            assert list(await directory.aliases("forked")) == [Alias(of, "s", "main")]
            assert list(await directory.aliases("a")) == [Alias(of, "s", "agent-1")]
            assert [list(await directory.aliases(name)) for name in ("s", "nobody", "")] == [[], [], []]
