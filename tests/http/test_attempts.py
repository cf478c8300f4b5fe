"""A turn that is sent twice: what the answers of one attempt brought back is not in the other, and memory knows."""

import json

import pytest

from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.objects.fidelity import Cause
from tests.http.managing import Client, Json, Stage, open_stage, think
from tests.http.test_epochs import (
    MINUTES,
    Clock,
    answer,
    below_full,
    client_of,
    explore,
    read,
    reads,
    restore,
    results_of,
    violations,
)

COMES_BACK = "is restored here"
STANDS = "is in your context in full"


class Twice:
    """A managed conversation of which an object left, whose last request is sent twice: the model asks for the object
    in the first attempt, and in the second reads a file.
    """

    def __init__(self, stage: Stage, client: Client, gone: str) -> None:
        self.stage = stage
        self.client = client
        self.gone = gone

    @classmethod
    async def begin(cls, stage: Stage, clock: Clock) -> tuple["Twice", list[Json]]:
        """It, and the replies of the first attempt and of the second."""
        client = client_of(stage)
        message = await explore(client, stage, 18)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 2, first=18)
        gone = next(each.object for each in await stage.events() if isinstance(each, ObjectDegraded))
        client.history.append({"role": "user", "content": results_of(message)})
        answer(stage, [think(), restore(gone)], [think(), read("/first.py")])
        first = await client.send()
        answer(stage, [think(), read("/second.py")])
        second = await client.send()
        return cls(stage, client, gone), [first, second]

    async def go_on(self, reply: Json) -> str:
        """What the model is told when the client goes on from a reply, and it asks for the object then."""
        self.client.history.append({"role": "assistant", "content": reply["content"]})
        answer(self.stage, [think(), restore(self.gone)], [think(), read("/third.py")])
        await self.client.turn(*results_of(reply))
        return json.dumps(self.stage.upstream[-1]["messages"][-1])

    async def is_gone(self) -> bool:
        """Whether memory holds that the branch shows less of the object than all."""
        return self.gone in await below_full(self.stage)


@pytest.mark.parametrize(("number", "told"), [(1, COMES_BACK), (0, STANDS)])
async def test_whichever_attempt_is_gone_on_from_memory_knows_what_came_back_in_it(number: int, told: str) -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        twice, replies = await Twice.begin(stage, clock)
        assert await twice.is_gone()  # the second attempt did not show what the first one had back
        assert told in await twice.go_on(replies[number])
        assert not await twice.is_gone()
        assert violations(stage) == []
        await stage.rounds()


async def test_the_log_says_why_it_left_again() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        twice, _ = await Twice.begin(stage, clock)
        again = [
            each for each in await stage.events() if isinstance(each, ObjectDegraded) and each.object == twice.gone
        ]
        assert [each.cause for each in again[1:]] == [Cause.ATTEMPT]
        assert again[1].after is again[0].after
