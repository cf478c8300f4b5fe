"""Random stories of a managed conversation never violate the provider's rules, and every round can be rebuilt."""

from collections.abc import Sequence
from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.window.window_size import WINDOW
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Client, Json, Stage, assert_nothing_of_ours, open_stage, text, think
from tests.http.test_epochs import (
    MINUTES,
    SMALL,
    TOOLS,
    Clock,
    answer,
    edit,
    read,
    restore,
    results_of,
    run,
    violations,
)
from tests.profiles import examples

STEPS = st.lists(
    st.sampled_from(("read", "again", "run", "edit", "say", "restore", "mixed", "pause", "back", "retry", "restart")),
    min_size=15,
    max_size=30,
)


@examples(8)
@given(steps=STEPS, window=st.sampled_from((5_000, SMALL, WINDOW)))
def test_random_stories_never_violate_provider_rules_and_every_round_is_rebuilt(steps: list[str], window: int) -> None:
    async def story() -> None:
        async with open_standin({"rules": []}) as standin:
            log, clock, client = StoppableLog(), Clock(), Client("", tools=TOOLS)
            left = list(enumerate(steps))
            while left:
                async with open_stage(standin=standin, log=log, window=window, clock=clock) as stage:
                    client.url = stage.url
                    while left and left[0][1] != "restart":
                        await play_step(stage, client, clock, *left.pop(0))
                        assert violations(stage) == []
                    left = left[1:]
            if standin.messages:
                await stage.rounds()
            assert_nothing_of_ours(client)

    trio.run(story)


async def play_step(stage: Stage, client: Client, clock: Clock, number: int, step: str) -> None:
    """One step of a story."""
    if step == "pause":
        clock.now += 10 * MINUTES
        return
    if step == "back" and len(client.history) > 4:
        del client.history[2 + number * 2 % (len(client.history) - 2) :]
    if step == "retry" and client.history and client.history[-1]["role"] == "assistant":
        del client.history[-1]
        message = await client.send()
        client.history.append({"role": "assistant", "content": message["content"]})
        return
    known = [each for each in await log_of(stage) if isinstance(each, ObjectDegraded)]
    path = f"/src/part_{number if step == 'read' else number % 3}.py"
    asked = restore(known[number % len(known)].object) if known else restore("abcdefg")
    asks: dict[str, list[Sequence[Json]]] = {
        "run": [[think(), run(f"make part_{number % 2}")]],
        "edit": [[think(), text("I change it."), edit(path)]],
        "say": [[think(), text(f"Step {number} is done.")]],
        "restore": [[think(), asked], [think("Ah."), read(path)]],
        "mixed": [[think(), asked, read(path)]],
    }
    rounds = asks.get(step, [[think(), read(path)]])
    answer(stage, *rounds, [text("And so on.")])
    content = results_of(client.history[-1]) if client.history and calls_of(client) else [text(f"Do step {number}.")]
    if client.history and client.history[-1]["role"] == "user":
        content = [*client.history.pop()["content"], text(f"And step {number}.")]
    message = await client.turn(*content)
    assert "error" not in message, message


def calls_of(client: Client) -> bool:
    return any(block["type"] == "tool_use" for block in client.history[-1]["content"])


async def log_of(stage: Stage) -> list[Any]:
    return list(await stage.events()) if await stage.log.streams() else []
