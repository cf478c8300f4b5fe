"""For recorded sessions, live tables equal rebuilt ones wherever the projector was, even after kills."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mnemosyne.actors.messages import Finish
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append
from mnemosyne.domain.wire.reply import ReplyBuilder
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.rebuilding import rebuild
from tests.domain import recorded
from tests.domain.recorded import dumps
from tests.plain.log import PlainLog
from tests.projections.support import KINDS, PLAIN, World, dump_of, killed_at, open_world, rebuilt_dump
from tests.services.talking import Plain, Talk, rich_session, talking

CODEC = event_codec()
USAGE_NAMES = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


async def replay_session(talk: Talk, session: dict[str, Any], limit: int | None) -> None:
    """Replay a recorded session to the actor, with the recorded usage."""
    counts = [turn for turn in session["turns"][:limit] if turn["msg"]]
    for turn, body in zip(counts, recorded.requests(session, limit), strict=True):
        usage = {USAGE_NAMES[name]: value for name, value in (turn["usage"] or {}).items() if name in USAGE_NAMES}
        builder = ReplyBuilder()
        builder.take_raw(dumps({"id": "msg", "model": session["model"], "content": [], "usage": usage}))
        builder.end_raw()
        address = await talk.ask(body, reply=None)
        end = Finish(at=7, address=address, status=200, reply=builder.result(), correlation_id="c")
        await talk.actor.mailbox.post(end).wait()


@asynccontextmanager
async def replayed(kind: str, dsn: str, source: PlainLog, seed: int) -> AsyncIterator[World]:
    """A world to which a log is appended portion by portion, while projectors start and are killed."""
    random_ = random.Random(seed)
    events = await source.tail(after=0, limit=10**9)
    async with open_world(kind, dsn, CODEC) as world:
        for event in events:
            await world.journal.append(Append(event.stream, event.version - 1, (event.envelope,)))
            if random_.random() < 30 / len(events):
                for projection in ALL:
                    await killed_at(random_.randrange(1, 40), world.projector(projection, page=7).catch_up)
            if random_.random() < 5 / len(events):
                await check(world)
        yield world


async def check(world: World) -> None:
    for projection in ALL:
        status = await world.projector(projection).catch_up()
        assert status.error is None
        assert await dump_of(world.store, projection) == await rebuilt_dump(world.log, projection)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 10))])
async def test_a_session_with_every_event_is_the_same_live_and_rebuilt(
    kind: str, seed: int, request: pytest.FixtureRequest
) -> None:
    async with talking() as talk:
        await rich_session(talk)
    dsn = "" if kind == PLAIN else request.getfixturevalue("dsn")
    async with replayed(kind, dsn, talk.archive.log, seed) as world:
        await check(world)
        for projection in ALL:
            await check_rebuild(world, projection)


async def check_rebuild(world: World, projection: Projection) -> None:
    before = await dump_of(world.store, projection)
    await rebuild(projection, world.tail, world.store, page=11)
    assert await dump_of(world.store, projection) == before


async def recorded_sessions(limit: int | None, every: int = 1) -> PlainLog:
    archive = Plain(PlainLog(CODEC))
    for session in recorded.sessions(every):
        async with talking(archive, session["name"]) as talk:
            await replay_session(talk, session, limit)
    return archive.log


IN_CI = [PLAIN, *(pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS if kind != PLAIN)]


@pytest.mark.parametrize("kind", IN_CI)
async def test_the_beginnings_of_recorded_sessions_are_the_same_live_and_rebuilt(
    kind: str, request: pytest.FixtureRequest
) -> None:
    log = await recorded_sessions(4, every=12)
    dsn = "" if kind == PLAIN else request.getfixturevalue("dsn")
    async with replayed(kind, dsn, log, 3) as world:
        await check(world)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
async def test_all_recorded_sessions_are_the_same_live_and_rebuilt(kind: str, request: pytest.FixtureRequest) -> None:
    log = await recorded_sessions(None)
    dsn = "" if kind == PLAIN else request.getfixturevalue("dsn")
    async with replayed(kind, dsn, log, 4) as world:
        await check(world)
        for projection in ALL:
            await check_rebuild(world, projection)
