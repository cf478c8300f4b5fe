r"""Every scenario, judged request by request: through the application in memory, and through a server as a user runs
it.

Together they check the promise never to break a session, from outside.
"""

from pathlib import Path

import pytest
import trio

from campaigns.scenarios.scene import in_memory, served
from campaigns.scenarios.stories import STORIES
from tests.waiting import DEADLINE

NAMES = [pytest.param(name, marks=[pytest.mark.soak] if told.long else []) for name, told in STORIES.items()]


@pytest.mark.parametrize("name", NAMES)
async def test_scenario_breaks_nothing_and_leaks_nothing(name: str) -> None:
    told = STORIES[name]
    with trio.fail_after(DEADLINE):
        async with in_memory(name, window=told.window) as scene:
            await told.play(scene)
            assert scene.judge.rewrites or not told.rewrites
            if told.costs:
                scene.judge.assess_cost()
                scene.check()


@pytest.mark.soak
async def test_scenario_breaks_nothing_through_a_real_server(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for name, told in STORIES.items():
            async with server.scene(name) as scene:
                await told.play(scene)
