"""The services of an actor in a replay answer as recorded, without waiting."""

import math

import attrs
import pytest
import trio
from trio.testing import MockClock

from mnemosyne.actors.patience import USUAL
from mnemosyne.domain.session.input_events import Awaited, InputsSoFar
from mnemosyne.domain.text.passages import Passage
from mnemosyne.errors import LogFailed
from mnemosyne.replay.recorded_services import RecordedServices
from tests.actors.test_actor_services import FOUND, NO_ANSWER, TOLD, slowly
from tests.not_none import not_none


async def test_the_index_answers_each_question_as_often_as_recorded() -> None:
    outside = RecordedServices(InputsSoFar(found=(TOLD, NO_ANSWER)))
    outside.begin()
    again = not_none(await outside.search("what?", ["abc2345"], 5, 0.2))
    assert [(hit.object, hit.passage) for hit in again.hits] == [("abc2345", Passage(3, 9))]
    assert again.missing == FOUND.missing
    assert await outside.search("what?", ["abc2345"], 5, 0.2) is None
    assert outside.noted == InputsSoFar(found=(TOLD, NO_ANSWER))
    assert await outside.search("what?", ["abc2345"], 5, 0.2) is None
    assert await outside.search("another?", ["abc2345"], 5, 0.2) is None
    assert outside.noted == InputsSoFar(found=(TOLD, NO_ANSWER))


async def test_recorded_lateness_is_immediate_and_anything_else_is_awaited(autojump_clock: MockClock) -> None:
    then = InputsSoFar(late=(Awaited.SUMMARIES,), late_calls=("a",), unread_calls=("b",))
    outside = RecordedServices(attrs.evolve(then))
    assert await outside.in_time(Awaited.SUMMARIES, math.inf, slowly) is None
    assert await outside.call_in_time("a", slowly) is None
    with pytest.raises(LogFailed):
        await outside.call_in_time("b", slowly)
    assert trio.current_time() == 0.0
    assert await outside.in_time(Awaited.RESTORES, outside.patience.restores, slowly) == "done"
    assert outside.noted == then
    assert USUAL.restores < outside.patience.restores
