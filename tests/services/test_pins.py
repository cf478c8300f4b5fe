"""What a person pins is recorded once, for as long as was said."""

import pytest

from mnemosyne.errors import NotFound
from mnemosyne.services import memories
from mnemosyne.services.pins import Pinning, pin, unpin
from tests.services.talking import rich_session, talking
from tests.services.test_memories import an_object


async def test_a_pin_for_some_turns_counts_from_the_last_turn_of_the_object_s_branch() -> None:
    async with talking() as talk:
        await rich_session(talk)
    wanted = await an_object(talk)
    done = await pin(talk.archive, f"#{wanted.upper()}", reason="r", turns=3, at=1, correlation_id="c")
    assert done == Pinning(stream=talk.stream, object=wanted, recorded=True)
    found = await memories.find(talk.archive, wanted, None)
    assert found.object.pin is not None
    assert found.object.pin.until_turn == found.session.branches[found.object.branch].turns + 3


async def test_the_same_pin_again_is_no_news_and_unpinning_ends_it() -> None:
    async with talking() as talk:
        await rich_session(talk)
    wanted = await an_object(talk)

    async def recorded(pinned: bool) -> bool:
        if pinned:
            return (await pin(talk.archive, wanted, reason="r", at=1, correlation_id="c")).recorded
        return (await unpin(talk.archive, wanted, reason="r", at=1, correlation_id="c")).recorded

    assert [await recorded(pinned) for pinned in (False, True, True, False, False)] == [False, True, False, True, False]


async def test_an_object_that_is_not_there_is_not_pinned() -> None:
    async with talking() as talk:
        await rich_session(talk)
    before = await talk.archive.log.sizes(talk.stream)
    with pytest.raises(NotFound):
        await pin(talk.archive, "nosuch", reason="r", at=1, correlation_id="c")
    assert await talk.archive.log.sizes(talk.stream) == before
