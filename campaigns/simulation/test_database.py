"""The simulated database keeps the contract of the log in fair weather; in bad weather it loses or delays appends."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from campaigns.simulation.database import LogConnection, SharedLog, Weather
from mnemosyne.adapters.postgres.batches import prepare
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.errors import LogUnavailable
from tests.adapters.log_support import CODEC, World, make_append, running, stream, texts
from tests.adapters.postgres.test_content_store import TestContentStore
from tests.adapters.postgres.test_event_log import TestEventLog

__all__ = ["TestContentStore", "TestEventLog"]

BATCH = [prepare(make_append(stream(1), 0, "a", "b"), CODEC)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A simulated database behind the real journal, for the contracts that every log keeps."""
    async with trio.open_nursery() as later:
        log = LogConnection(SharedLog(CODEC), random.Random(0), later, seconds=(0.0,))
        async with running(GroupJournal(log, CODEC)) as journal:
            yield World(journal, log, log)


@asynccontextmanager
async def _open_connection(*, fate: str) -> AsyncIterator[LogConnection]:
    """A connection that breaks after the next append, which is committed, lost, or late."""

    class Fated(random.Random):
        def random(self) -> float:
            return 0.0

        def uniform(self, a: float, b: float) -> float:
            return b

        def choice(self, seq):  # type: ignore[no-untyped-def]
            return fate if fate in seq else seq[0]

    async with trio.open_nursery() as later:
        yield LogConnection(SharedLog(CODEC), Fated(), later, weather=Weather.LOSSY)


async def _append_and_break(connection: LogConnection) -> list[str]:
    with pytest.raises(LogUnavailable):
        await connection.commit(BATCH)
    return texts(await connection.log.read(stream(1)))


async def test_a_retry_finds_an_append_committed_before_the_break(autojump_clock: object) -> None:
    async with _open_connection(fate="committed") as connection:
        assert await _append_and_break(connection) == ["a", "b"]
        connection.change(Weather.FAIR)
        assert (await connection.commit(BATCH)).errors == (None,)
        assert texts(await connection.log.read(stream(1))) == ["a", "b"]


async def test_a_lost_append_is_not_in_the_log(autojump_clock: object) -> None:
    async with _open_connection(fate="lost") as connection:
        assert await _append_and_break(connection) == []


@pytest.mark.parametrize("tried_again", [False, True])
async def test_a_late_append_is_applied_once(autojump_clock: object, *, tried_again: bool) -> None:
    async with _open_connection(fate="late") as connection:
        assert await _append_and_break(connection) == []
        connection.change(Weather.FAIR)
        if tried_again:
            await connection.commit(BATCH)
    assert texts(await connection.log.read(stream(1))) == ["a", "b"]


async def test_an_append_of_a_dead_server_has_no_effect() -> None:
    async with trio.open_nursery() as later:
        connection = LogConnection(SharedLog(CODEC), random.Random(0), later, weather=Weather.HUNG)
        async with trio.open_nursery() as nursery:

            async def commit() -> None:
                with pytest.raises(LogUnavailable):
                    await connection.commit(BATCH)

            nursery.start_soon(commit)
            connection.cut()
        assert await connection.log.streams() == []
