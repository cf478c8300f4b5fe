"""A decision waits for outside services no longer than its limits, and records their results as inputs."""

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.domain.recall.object_search import PassageHit, SearchResult
from mnemosyne.domain.session.decision_inputs import question_of
from mnemosyne.domain.session.input_events import Awaited, FoundPassage, IndexFound, InputsSoFar
from mnemosyne.domain.text.passages import Passage
from mnemosyne.errors import LogUnavailable

FOUND = SearchResult(passages=[PassageHit("abc2345", Passage(3, 9), 0.5)], missing=2)
KEY = question_of("what?", ["abc2345"], 5)
TOLD = IndexFound(question=KEY, passages=(FoundPassage(object="abc2345", start=3, end=9, score=50),), missing=2)
NO_ANSWER = IndexFound(question=KEY, passages=None, missing=0)


async def finds(question: str, among: Collection[str], limit: int, least: float) -> SearchResult:
    return FOUND


async def hangs(question: str, among: Collection[str], limit: int, least: float) -> SearchResult:
    return await trio.sleep_forever()


async def fails(question: str, among: Collection[str], limit: int, least: float) -> SearchResult:
    raise LogUnavailable("it is away")


async def slowly() -> str:
    await trio.sleep(10)
    return "done"


async def too_slowly() -> str:
    with trio.fail_after(5):
        return await slowly()


async def unreadable() -> str:
    raise LogUnavailable("it is away")


async def test_timely_result_is_returned_without_a_recorded_input(autojump_clock: MockClock) -> None:
    outside = ActorServices()
    assert await outside.in_time(Awaited.SUMMARIES, 11.0, slowly) == "done"
    assert await outside.call_in_time("a", slowly) == "done"
    assert outside.noted == InputsSoFar()


async def test_late_result_is_recorded_until_another_decision_begins(autojump_clock: MockClock) -> None:
    outside = ActorServices()
    assert await outside.in_time(Awaited.SUMMARIES, 5.0, slowly) is None
    assert await outside.call_in_time("a\ud800", too_slowly) is None
    with pytest.raises(LogUnavailable):
        await outside.call_in_time("b", unreadable)
    assert outside.noted == InputsSoFar(late=(Awaited.SUMMARIES,), late_calls=("a?",), unread_calls=("b",))
    outside.begin()
    assert outside.noted == InputsSoFar()


@pytest.mark.parametrize("last", [too_slowly, unreadable])
async def test_index_hits_are_not_recorded_for_a_call_without_an_answer(
    autojump_clock: MockClock, last: Callable[[], Awaitable[str]]
) -> None:
    """A call without an answer asks no service in a replay, either."""
    outside = ActorServices(finds)

    async def answer() -> str:
        await outside.search("what?", ["abc2345"], 5, 0.2)
        return await last()

    with suppress(LogUnavailable):
        await outside.call_in_time("a", answer)
    assert outside.noted.found == ()
    assert (*outside.noted.late_calls, *outside.noted.unread_calls) == ("a",)


@pytest.mark.parametrize(("find", "told"), [(finds, TOLD), (hangs, NO_ANSWER), (fails, NO_ANSWER)])
async def test_index_answer_or_its_absence_is_recorded(
    autojump_clock: MockClock, find: object, told: IndexFound
) -> None:
    outside = ActorServices(find)  # type: ignore[arg-type]
    found = await outside.search("what?", ["abc2345"], 5, 0.2)
    assert found == (FOUND if told is TOLD else None)
    assert outside.noted == InputsSoFar(found=(told,))


async def test_without_an_index_no_input_is_recorded() -> None:
    outside = ActorServices()
    assert await outside.search("what?", [], 5, 0.2) is None
    assert outside.noted == InputsSoFar()
