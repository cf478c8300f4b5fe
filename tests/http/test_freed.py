"""A finished turn is freed at once, however it ended, without a run of the garbage collector, which is rare in a
server and stops every session. (For a broken reply, only the web server's error objects wait for it.)
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
from mnemosyne.http.reply_rounds import SplicedRounds
from tests.http.managing import Json, Stage, bare_stage, look, model_says, recall, text, think
from tests.profiles import cover
from tests.waiting import until

CALLS: Json = {"replies": [model_says(think(), look(at=1)), model_says(think(), recall()), model_says(text("Done."))]}
SEES: Json = {"when": {"prompt": "again"}, "replies": [model_says(think(), recall()), model_says(text("Here."))]}
HANGS: Json = {"when": {"prompt": "for ever"}, "reply": model_says(text("x" * 10_000), pace={"between": 3600})}
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
    await stage.client().work("go on")


async def work_unstreamed(stage: Stage) -> None:
    await stage.client(stream=False).work("go on")


async def disconnect(stage: Stage) -> None:
    asked = len(stage.standin.messages)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.client().work, "for ever")
        await until(lambda: len(stage.standin.messages) > asked)
        nursery.cancel_scope.cancel()


async def fail(stage: Stage) -> None:
    await stage.client().work("fail")


async def try_again(stage: Stage) -> None:
    """The proxy retries hidden rounds only."""
    await stage.client().turn(text("again"))


async def outrun(stage: Stage) -> None:
    """Another process writes to the session, so the actor's decision is refused."""
    client = stage.client()
    await client.work("go on")
    await stage.switch(on=True, stream=await stage.stream())
    await client.work("go on")


ENDS = [work, work_unstreamed, disconnect, fail, try_again, outrun]


@pytest.mark.parametrize(
    ("end", "mode"),
    cover({end.__name__: end for end in ENDS}, {mode.value: mode for mode in (Mode.MANAGE, Mode.OBSERVE)}),
)
async def test_finished_turn_is_freed_without_garbage_collection(
    mode: Mode, end: Callable[[Stage], Awaitable[None]], loopback_clock: MockClock
) -> None:
    gc.collect()
    gc.disable()
    try:
        async with bare_stage(HANGS, FAILS, AGAIN, RESET, SEES, CALLS, mode=mode) as stage:
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
    """The objects of these classes that are still alive."""
    return [weakref.ref(each) for each in gc.get_objects() if isinstance(each, kinds)]
