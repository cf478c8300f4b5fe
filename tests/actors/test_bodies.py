"""An actor's cached bodies follow the log: the right one is chosen, copies are independent, and losing them loses
nothing.
"""

import pytest

from mnemosyne.actors import bodies
from mnemosyne.actors.bodies import Histories
from mnemosyne.actors.loaded import Loaded
from mnemosyne.domain.session.state import Branch
from mnemosyne.domain.wire import transcript
from tests.actors.support import IDENTITY, LONG, STREAM, StoppableLog, open_process, request, salt
from tests.domain.recorded import dumps


async def session(log: StoppableLog) -> Loaded:
    loaded = Loaded(IDENTITY, log, log, salt)
    loaded.load(await log.read(STREAM))
    return loaded


@pytest.fixture
async def log() -> StoppableLog:
    """A conversation that was forked in its second turn."""
    log = StoppableLog()
    async with open_process(log) as process:
        await process.turn(LONG)
        await process.turn(LONG, "ok", "one way")
        await process.turn(LONG, "other", "another way")
    return log


def branches(loaded: Loaded) -> list[Branch]:
    return list(loaded.state.branches.values())


async def test_nearest_branch_has_the_longest_common_prefix(log: StoppableLog) -> None:
    loaded = await session(log)
    for texts, name in ((("ok", "one way"), "main"), (("other", "another way"), "fork-1")):
        found, body = await loaded.bodies.nearest(branches(loaded), request(LONG, *texts, "yes", "go on"))
        assert found == name
        assert body is not None
        assert body.raw == request(LONG, *texts)


async def test_unreadable_body_is_no_base_for_a_request(log: StoppableLog) -> None:
    loaded = await session(log)
    log.away = True
    assert await loaded.bodies.nearest(branches(loaded), request(LONG)) == (None, None)


async def test_a_body_is_read_from_the_log_once(log: StoppableLog) -> None:
    loaded = await session(log)
    (main,) = (branch for branch in branches(loaded) if branch.name == "main")
    assert loaded.bodies.find_held(main) is None
    body, before = await loaded.bodies.last(main), log.fetched
    assert await loaded.bodies.last(main) is body is loaded.bodies.find_held(main)
    assert log.fetched == before
    assert body.recipe == main.body, "what is built on is what the log holds"


async def test_a_copy_does_not_change_the_original_caches(log: StoppableLog) -> None:
    loaded = await session(log)
    apart = loaded.bodies.apart()
    apart.known.add(b"new")
    await apart.nearest(branches(loaded), request(LONG))
    assert b"new" not in loaded.bodies.known
    assert [loaded.bodies.find_held(branch) for branch in branches(loaded)] == [None, None]
    assert [await Histories(loaded.bodies).of(branch) for branch in (*branches(loaded), None)] == [None] * 3


async def test_size_of_cached_bodies_is_bounded(log: StoppableLog, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(request(LONG, "ok", "one way"))
    monkeypatch.setattr(bodies, "BYTES_HELD", 3 * size)
    async with open_process(log) as process:
        for number in range(5):
            await process.turn(LONG, "ok", f"agent {number}", agent=f"a{number}")
        await process.turn(5 * LONG, agent="large")
    loaded = await session(log)
    *_, large = branches(loaded)
    for branch in branches(loaded)[:-1]:
        await loaded.bodies.last(branch)
    assert 0 < sum(map(len, loaded.bodies.list_held())) <= 3 * size
    newest = await loaded.bodies.last(large)
    assert loaded.bodies.list_held() == [newest.raw], "the newest stays whatever its size"


async def test_new_reply_is_read_from_the_cache(log: StoppableLog) -> None:
    loaded = await session(log)
    data = dumps({"role": "assistant", "content": LONG})
    change, _ = transcript.store_reply(data, set())
    loaded.bodies.hold_stored(change, data)
    assert await loaded.bodies.read_stored(change) == data
    assert [each.raw for each in loaded.bodies.replies] == [data]
    assert log.fetched == 0


async def test_deleted_contents_are_in_no_cache(log: StoppableLog) -> None:
    loaded = await session(log)
    for branch in branches(loaded):
        await loaded.bodies.last(branch)
    assert loaded.bodies.known
    loaded.bodies.forget()
    assert not loaded.bodies.known
    assert [loaded.bodies.find_held(branch) for branch in branches(loaded)] == [None, None]
