"""One seed is one schedule."""

import pytest
import trio

from campaigns.simulation.schedule import Deadlock, make_run


async def _race() -> list[int]:
    """The order in which tasks finish that are all ready at once, after a thread and a pause."""
    order: list[int] = []

    async def finish(number: int) -> None:
        await trio.lowlevel.checkpoint()
        await trio.to_thread.run_sync(lambda: order.append(number))
        await trio.sleep(3_600)
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(finish, number)
    return order


def test_one_seed_is_one_order_and_another_is_another() -> None:
    orders = [tuple(make_run(seed).run(_race)) for seed in range(8)]
    assert orders == [tuple(make_run(seed).run(_race)) for seed in range(8)]
    assert len(set(orders)) > 1


def test_one_seed_has_one_trace() -> None:
    runs = [make_run(seed) for seed in (1, 1, 2)]
    for each in runs:
        each.run(_race)
    first, again, other = [each.trace.digest for each in runs]
    assert first == again
    assert first != other


def test_tasks_that_wait_for_each_other_are_reported() -> None:
    async def deadlock() -> None:
        one, two = trio.Event(), trio.Event()

        async def wait(for_this: trio.Event, then: trio.Event) -> None:
            await for_this.wait()
            then.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, one, two)
            nursery.start_soon(wait, two, one)

    with pytest.raises(Deadlock):
        make_run(0).run(deadlock)
