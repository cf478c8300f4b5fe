"""What is over is freed at once, however it ended: nothing of a turn waits for a search for garbage. That comes rarely
to a server, and holds every session while it looks. (Of a reply that breaks off, what the web server makes of the error
waits for it.)
"""

import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mnemosyne.actors.session import SessionActor
from mnemosyne.actors.turn import Turn
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.http.client_reply import ClientReply
from mnemosyne.http.rounds import SplicedRounds
from tests.http.managing import Client, Json, Stage, look, open_stage, recall, said, text, think
from tests.waiting import until

CALLS: Json = {"replies": [said(think(), look(at=1)), said(think(), recall()), said(text("Done."))]}
SEES: Json = {"when": {"prompt": "again"}, "replies": [said(think(), recall()), said(text("Here."))]}
HANGS: Json = {"when": {"prompt": "for ever"}, "reply": said(text("x" * 10_000), pace={"between": 3600})}
FAILS: Json = {"when": {"prompt": "fail"}, "reply": {"failure": {"status": 500}}}
AGAIN: Json = {
    "when": {"prompt": "again", "rounds": 1},
    "times": 2,
    "reply": {"failure": {"status": 429, "retry_after": 0.01}},
}
RESET: Json = {
    "when": {"prompt": "again", "rounds": 1},
    "times": 1,
    "reply": {"faults": [{"kind": "cut_before_reply", "reset": True}]},
}


async def work(stage: Stage) -> None:
    await Client(stage.url).work("go on")


async def work_unstreamed(stage: Stage) -> None:
    await Client(stage.url, stream=False).work("go on")


async def leave(stage: Stage) -> None:
    asked = len(stage.standin.messages)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Client(stage.url).work, "for ever")
        await until(lambda: len(stage.standin.messages) > asked)
        nursery.cancel_scope.cancel()


async def fail(stage: Stage) -> None:
    await Client(stage.url).work("fail")


async def try_again(stage: Stage) -> None:
    """Only a hidden round is tried again by us."""
    await Client(stage.url).turn(text("again"))


async def outrun(stage: Stage) -> None:
    """Another process writes to the session, so what its actor decides is refused."""
    client = Client(stage.url)
    await client.work("go on")
    await stage.switch(on=True, stream=await stage.stream())
    await client.work("go on")


ENDS = [work, work_unstreamed, leave, fail, try_again, outrun]


@pytest.mark.parametrize("end", ENDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("mode", [Mode.MANAGE, Mode.OBSERVE])
async def test_a_turn_that_is_over_is_freed_without_a_search_for_garbage(
    mode: Mode, end: Callable[[Stage], Awaitable[None]], loopback_clock: MockClock
) -> None:
    gc.collect()
    gc.disable()
    try:
        async with open_stage(HANGS, FAILS, AGAIN, RESET, SEES, CALLS, mode=mode) as stage:
            await end(stage)
            await until(lambda: not stage.proxy.progress.running)
            over = list_alive(Turn, ClientReply, SplicedRounds)
            await until(lambda: not any(each() for each in over))
            actors = list_alive(SessionActor)
            for stream, awake in tuple(stage.process.registry._awake.items()):
                stage.process.registry.discard(stream, awake.actor)
            del awake
            assert actors
            await wait_all_tasks_blocked()
            await until(lambda: not any(each() for each in actors))
    finally:
        gc.enable()


def list_alive(*kinds: type) -> list[weakref.ref[object]]:
    """Those that there are, unless they are freed."""
    return [weakref.ref(each) for each in gc.get_objects() if isinstance(each, kinds)]
