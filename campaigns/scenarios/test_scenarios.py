"""Every story, judged request by request, through the application in memory.

Together with the walks they check the promise never to break a session, from outside.
"""

import pytest
import trio

from campaigns.scenarios.scene import in_memory
from campaigns.scenarios.stories import REWRITING, STORIES
from tests.waiting import DEADLINE


@pytest.mark.parametrize("name", STORIES)
async def test_story_breaks_nothing_and_leaks_nothing(name: str) -> None:
    with trio.fail_after(DEADLINE):
        async with in_memory(name) as scene:
            await STORIES[name](scene)
            assert scene.judge.rewrites or name not in REWRITING
