"""What the simulated database does to appends in bad weather; in fair weather it keeps the log's contract
(``tests/adapters/postgres/test_event_log.py``).
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mnemosyne.adapters.postgres.batches import prepare
from mnemosyne.errors import LogUnavailable
from tests.adapters.log_support import CODEC, said, stream, texts
from tests.adapters.simulated_database import LogConnection, SharedLog, Weather

BATCH = [prepare(said(stream(1), 0, "a", "b"), CODEC)]


@asynccontextmanager
async def _open_connection(*, fate: str) -> AsyncIterator[LogConnection]:
    """A connection that breaks behind the next append, which is heard, unheard, or late."""

    class Fated(random.Random):
        def random(self) -> float:
            return 0.0

        def uniform(self, a: float, b: float) -> float:
            return b

        def choice(self, seq):  # type: ignore[no-untyped-def]
            return fate if fate in seq else seq[0]

    async with trio.open_nursery() as later:
        yield LogConnection(SharedLog(CODEC), Fated(), later, weather=Weather.LOSSY)


async def _break_at(connection: LogConnection) -> list[str]:
    with pytest.raises(LogUnavailable):
        await connection.commit(BATCH)
    return texts(await connection.log.read(stream(1)))


async def test_what_was_heard_before_it_broke_is_found_by_who_tries_again(autojump_clock: object) -> None:
    async with _open_connection(fate="heard") as connection:
        assert await _break_at(connection) == ["a", "b"]
        connection.change(Weather.FAIR)
        assert (await connection.commit(BATCH)).errors == (None,)
        assert texts(await connection.log.read(stream(1))) == ["a", "b"]


async def test_what_was_not_heard_is_not_there(autojump_clock: object) -> None:
    async with _open_connection(fate="unheard") as connection:
        assert await _break_at(connection) == []


@pytest.mark.parametrize("tried_again", [False, True])
async def test_what_is_late_takes_hold_once(autojump_clock: object, *, tried_again: bool) -> None:
    async with _open_connection(fate="late") as connection:
        assert await _break_at(connection) == []
        connection.change(Weather.FAIR)
        if tried_again:
            await connection.commit(BATCH)
    assert texts(await connection.log.read(stream(1))) == ["a", "b"]


async def test_nothing_of_a_dead_server_takes_hold() -> None:
    async with trio.open_nursery() as later:
        connection = LogConnection(SharedLog(CODEC), random.Random(0), later, weather=Weather.HUNG)
        async with trio.open_nursery() as nursery:

            async def commit() -> None:
                with pytest.raises(LogUnavailable):
                    await connection.commit(BATCH)

            nursery.start_soon(commit)
            connection.cut()
        assert await connection.log.streams() == []
