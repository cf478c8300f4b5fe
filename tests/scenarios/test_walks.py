"""What no story tells: clients, models, providers and people do whatever a generator comes upon, and the judge finds
nothing.
"""

from collections.abc import Sequence

import trio
from hypothesis import given

from tests.profiles import examples
from tests.scenarios import walks
from tests.scenarios.scene import in_memory
from tests.waiting import DEADLINE


@examples(20)
@given(walks.walks)
def test_whatever_happens_nothing_breaks_and_nothing_shows(steps: Sequence[walks.Step]) -> None:
    async def walk() -> None:
        with trio.fail_after(DEADLINE):
            async with in_memory("walk", sober=True) as scene:
                await walks.take(scene, steps)

    trio.run(walk)
