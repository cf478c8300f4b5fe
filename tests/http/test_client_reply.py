"""The channel from the relay to the client keeps the order, joins outputs that arrive together, and is bounded."""

from contextlib import aclosing

import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.http.client_reply import CHUNKS_IN_FLIGHT, ClientReply, RelayProgress
from mnemosyne.http.turn_log import Unrecorded


async def test_outputs_that_arrive_together_are_sent_in_one_write() -> None:
    reply = ClientReply(Unrecorded(), RelayProgress())
    taken: list[bytes] = []

    async def take() -> None:
        async for chunk in reply.body():
            taken.append(chunk)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        for frame in (b"one ", b"two ", b"three"):
            await reply.hand_over(frame)
        await wait_all_tasks_blocked()
        assert taken == [b"one two three"]
        reply.close(None)


async def test_sender_waits_for_a_client_that_reads_nothing() -> None:
    progress = RelayProgress()
    reply = ClientReply(Unrecorded(), progress)
    for _ in range(CHUNKS_IN_FLIGHT):
        await reply.hand_over(b"x")
    assert progress.waiting_for_client == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reply.hand_over, b"the last")
        await wait_all_tasks_blocked()
        assert progress.waiting_for_client == 1
        async with aclosing(reply.body()) as body:
            assert await anext(body) == b"x" * CHUNKS_IN_FLIGHT + b"the last"
        await wait_all_tasks_blocked()
        assert progress.waiting_for_client == 0
