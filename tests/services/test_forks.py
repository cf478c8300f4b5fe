"""A session is left after a whole reply, by the name that its client gives it."""

import pytest

from mnemosyne.errors import NotFound
from mnemosyne.services.forks import find_fork_point
from tests.services.talking import assistant, body, talking, user


async def test_the_last_whole_reply_up_to_the_turn_is_where_it_goes_on() -> None:
    async with talking() as talk:
        said = [user("one")]
        await talk.ask(body(said))
        said += [assistant("Done."), user("two")]
        await talk.ask(body(said))
        said += [assistant("Done."), user("three")]
        await talk.interrupt(await talk.ask(body(said), reply=None), "the client left")
        name = "a client's session"
        first = await find_fork_point(talk.archive, name, 1)
        assert (first.session, first.turn, first.message_id) == (name, 1, "msg_1")
        for turn in (2, 3, None):
            assert (await find_fork_point(talk.archive, str(talk.stream)[:8], turn)).message_id == "msg_2"
        with pytest.raises(NotFound, match="no whole reply up to turn 0"):
            await find_fork_point(talk.archive, name, 0)
        with pytest.raises(NotFound, match="There is no session"):
            await find_fork_point(talk.archive, "another", None)


async def test_a_session_without_a_name_cannot_be_left() -> None:
    async with talking(name="chain:abc") as talk:
        await talk.ask(body([user("one")]))
        with pytest.raises(NotFound, match="gave it no name"):
            await find_fork_point(talk.archive, str(talk.stream), None)
