"""What no story tells: clients, models, providers and people do whatever a generator comes upon, and the judge finds
nothing. Each dialect is walked in.
"""

from collections.abc import Sequence

import trio
from hypothesis import example, given

from campaigns.walks import walks
from mnemosyne.domain.session.round_events import Mode
from tests.profiles import examples
from tests.scenarios.agent import Agent
from tests.scenarios.openai_agents import ChatAgent, ResponsesAgent
from tests.scenarios.scene import in_memory
from tests.waiting import DEADLINE


def walk(steps: Sequence[walks.Step], kind: type[Agent]) -> None:
    """One walk, judged."""

    async def go() -> None:
        with trio.fail_after(DEADLINE):
            async with in_memory("walk", sober=True) as scene:
                await walks.take(scene, steps, kind)

    trio.run(go)


@examples(20)
@given(walks.walks)
def test_whatever_happens_nothing_breaks_and_nothing_shows(steps: Sequence[walks.Step]) -> None:
    walk(steps, Agent)


@examples(8)
@given(walks.walks)
def test_nor_does_it_in_responses(steps: Sequence[walks.Step]) -> None:
    walk(steps, ResponsesAgent)


FROM_THE_BEGINNING = [
    walks.Works([([], None)], 5),
    walks.Restarts(Mode.OBSERVE),
    walks.Rewinds(0, [([], None)]),
    walks.Works([([], None)], 5),
]
"""It begins anew, and shares its system prompt with what was managed: so it is, too, from its first request on."""


@examples(8)
@example(FROM_THE_BEGINNING)
@given(walks.walks)
def test_nor_does_it_in_chat_completions(steps: Sequence[walks.Step]) -> None:
    walk(steps, ChatAgent)
