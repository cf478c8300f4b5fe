"""What deciding asks of the world: it waits no longer than it may, and notes what came of it."""

import math
from collections.abc import Collection

import pytest
import trio
from trio.testing import MockClock

from mnemosyne.actors.outside import Outside
from mnemosyne.domain.recall.object_search import PassageHit, SearchResult
from mnemosyne.domain.session.ground_events import Awaited, FoundPassage, IndexFound
from mnemosyne.domain.session.grounds import GroundsSoFar, question_of
from mnemosyne.domain.text.passages import Passage
from mnemosyne.errors import LogUnavailable

FOUND = SearchResult(hits=[PassageHit("abc2345", Passage(3, 9), 0.5)], missing=2)
KEY = question_of("what?", ["abc2345"], 5)
TOLD = IndexFound(question=KEY, passages=(FoundPassage(object="abc2345", start=3, end=9),), missing=2)
NO_ANSWER = IndexFound(question=KEY, passages=None, missing=0)


async def finds(question: str, among: Collection[str], limit: int) -> SearchResult:
    return FOUND


async def hangs(question: str, among: Collection[str], limit: int) -> SearchResult:
    return await trio.sleep_forever()


async def fails(question: str, among: Collection[str], limit: int) -> SearchResult:
    raise LogUnavailable("it is away")


async def slowly() -> str:
    await trio.sleep(10)
    return "done"


async def test_what_comes_in_time_is_had_and_nothing_is_noted_of_it(autojump_clock: MockClock) -> None:
    outside = Outside()
    assert await outside.in_time(Awaited.PLANNER, 11.0, slowly) == "done"
    assert await outside.call_in_time("a", math.inf, slowly) == "done"
    assert outside.noted == GroundsSoFar()


async def test_what_comes_too_late_is_noted_until_another_decision_begins(autojump_clock: MockClock) -> None:
    outside = Outside()
    assert await outside.in_time(Awaited.PLANNER, 5.0, slowly) is None
    assert await outside.call_in_time("a\ud800", 8.0, slowly) is None
    outside.note_unread("b")
    assert outside.noted == GroundsSoFar(late=(Awaited.PLANNER,), late_calls=("a?",), unread_calls=("b",))
    outside.begin()
    assert outside.noted == GroundsSoFar()


@pytest.mark.parametrize(("find", "told"), [(finds, TOLD), (hangs, NO_ANSWER), (fails, NO_ANSWER)])
async def test_what_the_index_answers_is_noted_and_that_it_does_not(
    autojump_clock: MockClock, find: object, told: IndexFound
) -> None:
    outside = Outside(find)  # type: ignore[arg-type]
    found = await outside.search("what?", ["abc2345"], 5, 0.5)
    assert found == (FOUND if told is TOLD else None)
    assert outside.noted == GroundsSoFar(found=(told,))


async def test_without_an_index_there_is_nothing_to_note() -> None:
    outside = Outside()
    assert await outside.search("what?", [], 5, 0.5) is None
    assert outside.noted == GroundsSoFar()
