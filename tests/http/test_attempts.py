"""A turn that the client sends twice: an object restored in one attempt is not in the other, and the memory knows
the difference.
"""

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
    """A managed conversation with an evicted object, whose last request is sent twice: the model asks for the object
    in the first attempt and reads a file in the second.
    """

    def __init__(self, stage: Stage, client: Client, gone: str) -> None:
        self.stage = stage
        self.client = client
        self.gone = gone

    @classmethod
    async def begin(cls, stage: Stage, clock: Clock) -> tuple["Twice", list[Json]]:
        """The conversation, with the replies of the first and of the second attempt."""
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

    async def continue_from(self, reply: Json) -> str:
        """The memory result that the model gets if the client continues from this reply and the model then asks for
        the object.
        """
        self.client.history.append({"role": "assistant", "content": reply["content"]})
        answer(self.stage, [think(), restore(self.gone)], [think(), read("/third.py")])
        await self.client.turn(*results_of(reply))
        return json.dumps(self.stage.upstream[-1]["messages"][-1])

    async def is_evicted(self) -> bool:
        """Whether the memory holds that the branch shows the object at less than full size."""
        return self.gone in await below_full(self.stage)


@pytest.mark.parametrize(("number", "told"), [(1, COMES_BACK), (0, STANDS)])
async def test_memory_knows_what_the_attempt_that_the_client_continues_has_restored(number: int, told: str) -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        twice, replies = await Twice.begin(stage, clock)
        assert await twice.is_evicted()  # the second attempt did not show the object that the first one restored
        assert told in await twice.continue_from(replies[number])
        assert not await twice.is_evicted()
        assert violations(stage) == []
        await stage.rounds()


async def test_degradation_names_the_unused_attempt_as_its_cause() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        twice, _ = await Twice.begin(stage, clock)
        again = [
            each for each in await stage.events() if isinstance(each, ObjectDegraded) and each.object == twice.gone
        ]
        assert [each.cause for each in again[1:]] == [Cause.ATTEMPT]
        assert again[1].after is again[0].after
