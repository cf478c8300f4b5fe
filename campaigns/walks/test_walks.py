"""Random walks beyond the stories: clients, models, providers and users act as a generator draws, and the judge
finds no fault, in each dialect.
"""

from collections.abc import Sequence

import pytest
import trio
from hypothesis import example, given

from campaigns.scenarios.agent import Agent
from campaigns.scenarios.openai_agents import ChatAgent, ResponsesAgent
from campaigns.scenarios.scene import in_memory
from campaigns.walks import walks
from mnemosyne.domain.session.round_events import Mode
from tests.profiles import examples
from tests.waiting import DEADLINE

FROM_THE_BEGINNING = [
    walks.Works([([], None)], 5),
    walks.Restarts(Mode.OBSERVE),
    walks.Rewinds(0, [([], None)]),
    walks.Works([([], None)], 5),
]
"""It begins anew, and shares its system prompt with what was managed: so it is, too, from its first request on."""


@pytest.mark.parametrize("kind", [Agent, ResponsesAgent, ChatAgent])
@examples(12)
@example(steps=FROM_THE_BEGINNING)
@given(steps=walks.walks)
def test_random_walk_breaks_nothing_and_leaks_nothing(kind: type[Agent], steps: Sequence[walks.Step]) -> None:
    async def play() -> None:
        with trio.fail_after(DEADLINE):
            async with in_memory("walk", sober=True) as scene:
                await walks.take(scene, steps, kind)

    trio.run(play)
