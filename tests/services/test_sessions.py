"""A session is found by any of its names, if that means only one."""

import copy

import pytest

from mnemosyne.domain.session.directory import stream_of
from mnemosyne.errors import NotFound
from mnemosyne.services.sessions import events_of, find, find_own
from tests.http.managing import Client, open_stage, recall, text
from tests.services.talking import Plain, body, plain, talking, user


async def two_sessions() -> Plain:
    archive = plain()
    for name in ("alpha", "alphabet"):
        async with talking(archive, name) as talk:
            await talk.ask(body([user(f"I am {name}.")]))
    return archive


async def test_a_session_is_found_by_id_name_or_prefix() -> None:
    archive = await two_sessions()
    first, second = await archive.events.streams()
    for wanted in (str(first), str(first).upper(), str(first)[:8], "alpha"):
        assert await find(archive, wanted) == first
    assert await find(archive, "alphab") == second
    stream, events = await events_of(archive, "alphabet")
    assert (stream, len(events)) == (second, len(await archive.events.read(second)))


async def test_a_branch_s_client_name_finds_its_session_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Even if the client used the name for a side call before."""
    async with open_stage({"replies": [{"content": [recall()]}, {"text": "There."}]}) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        fork = Client(stage.url, session="forked", history=copy.deepcopy(client.history))
        await Client(stage.url, session="forked", tools=[]).turn(text("A title?"))
        await fork.work("And now?")
        archive, owner = Plain(stage.log), stream_of("t", "s")
        assert await find(archive, "forked") == owner
        assert caplog.messages[-1] == f"'forked' is branch fork-1 of session {owner} (s)."
        said = len(caplog.messages)
        assert await find(archive, "s") == owner
        title = stream_of("t", "forked")
        assert await find(archive, str(title)) == title
        assert len(caplog.messages) == said
        with pytest.raises(
            NotFound, match=r"'forked' is branch fork-1 of session .* \(s\): only whole sessions can be removed"
        ):
            await find_own(archive, "forked")
        assert await find_own(archive, "s") == owner


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("", "There is no session ''"), ("al", "'al' matches 2"), ("x", "no"), ("a\0", "no"), ("a\udfff", "no")],
)
async def test_an_ambiguous_or_unknown_name_is_refused(wanted: str, said: str) -> None:
    with pytest.raises(NotFound, match=said):
        await find(await two_sessions(), wanted)
