"""A session is found by whatever people call it, and only where that means one."""

import pytest

from mnemosyne.errors import NotFound
from mnemosyne.services.sessions import events_of, find
from tests.services.talking import Plain, body, plain, talking, user


async def two_sessions() -> Plain:
    archive = plain()
    for name in ("alpha", "alphabet"):
        async with talking(archive, name) as talk:
            await talk.ask(body([user(f"I am {name}.")]))
    return archive


async def test_by_its_id_the_client_s_name_or_the_beginning_of_either() -> None:
    archive = await two_sessions()
    first, second = await archive.events.streams()
    for wanted in (str(first), str(first).upper(), str(first)[:8], "alpha"):
        assert await find(archive, wanted) == first
    assert await find(archive, "alphab") == second
    stream, events = await events_of(archive, "alphabet")
    assert (stream, len(events)) == (second, len(await archive.events.read(second)))


@pytest.mark.parametrize(("wanted", "said"), [("", "There is no session ''"), ("al", "'al' may mean 2"), ("x", "no")])
async def test_what_means_none_or_several_is_refused(wanted: str, said: str) -> None:
    with pytest.raises(NotFound, match=said):
        await find(await two_sessions(), wanted)
