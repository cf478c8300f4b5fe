"""A session's name given by a person is shown everywhere; a closed session counts as ended until its next turn."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.decide import StartManaging, SwitchManaging
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.errors import BadEntry, ContentForgotten, NotFound
from mnemosyne.services import memories, overviews
from mnemosyne.services.forgetting import forget
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.pins import pin, unpin
from mnemosyne.services.session_edits import LONGEST_TITLE, edit, read_grounding, undo
from mnemosyne.services.switching import switch_session
from mnemosyne.services.verifying import verify
from tests.domain.session_events import began, opened_branch
from tests.services.talking import Talk, body, plain, rich_session, talking, user
from tests.services.test_memories import an_object


async def rename(talk: Talk, title: str) -> bool:
    return (await edit(talk.archive, str(talk.stream), title=title, stamp=WriteStamp(9, "w")))[1]


async def test_a_session_has_the_name_that_a_person_gave_it_until_it_is_emptied_or_forgotten() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Paint the shed.")]))
        assert await rename(talk, " The\nshed ")
        assert not await rename(talk, "The shed")
        assert await overviews.read_title(talk.archive, talk.stream) == "The shed"
        assert await rename(talk, "")
        assert await overviews.read_title(talk.archive, talk.stream) == "Paint the shed."
        assert await rename(talk, "The secret shed \ud800")
        assert (await verify(talk.archive, talk.stream)).verdict == "ok"
        await forget(talk.archive, talk.stream, lambda: 11, "c")
        assert "secret" not in repr(await talk.archive.log.read(talk.stream))
        assert await overviews.read_title(talk.archive, talk.stream) == ""
        with pytest.raises(ContentForgotten):
            await rename(talk, "The secret shed")


async def test_a_name_has_a_maximum_length() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Paint the shed.")]))
        with pytest.raises(BadEntry, match="at most 100 characters"):
            await rename(talk, "x" * (LONGEST_TITLE + 1))


async def test_closing_is_recorded_once_until_the_next_turn_opens_the_session() -> None:
    archive, stream = plain(), stream_of("local", "s")
    started = SessionStarted(at=1, tenant="local", external_id="s", client="c", client_version=None, salt=b"s")
    for expected, events in ((0, (started, opened_branch(), began(1, "m", at=2))), (4, (began(2, "m", at=20),))):
        await archive.journal.append(Append(stream, expected, tuple(Envelope(each, "c") for each in events)))
        for is_new in (True, False):
            stamp = WriteStamp(10 + expected, "w")
            assert await edit(archive, "s", closed=True, stamp=stamp) == (stream, is_new)


async def test_an_edit_that_changes_nothing_is_not_recorded_and_each_can_be_taken_back() -> None:
    archive, stream = plain(), stream_of("local", "s")
    started = SessionStarted(at=1, tenant="local", external_id="s", client="c", client_version=None, salt=b"s")
    await archive.journal.append(Append(stream, 0, (Envelope(started, "c"),)))
    for change, back in (({"closed": True}, {"closed": False}), ({"grounding": "strict"}, {"grounding": ""})):
        for edits, is_new in ((back, False), (change, True), (change, False), (back, True)):
            assert await edit(archive, "s", **edits, stamp=WriteStamp(9, "w")) == (stream, is_new)
    assert await read_grounding(archive, stream) == ""


async def test_the_last_change_of_a_session_is_undone_and_redone() -> None:
    async with talking() as talk:
        await rich_session(talk)
    archive, wanted, stamps = talk.archive, str(talk.stream), map(WriteStamp, count(9), map(str, count()))
    with pytest.raises(NotFound, match="no change to undo"):
        await undo(archive, wanted, next(stamps))
    pinned = await an_object(talk)

    async def change_pin(change: Callable[..., Awaitable[object]], **given: Any) -> None:
        await change(archive, pinned, reason="r", stamp=next(stamps), **given)

    async def read() -> tuple[object, ...]:
        state = memories.fold(await archive.events.read(talk.stream))
        return state.title, state.closed, state.grounding, state.switched, dict(state.memory.pins_of(pinned))

    for change in (
        lambda: edit(archive, wanted, title="The shed", closed=True, stamp=next(stamps)),
        lambda: edit(archive, wanted, title="", grounding="strict", stamp=next(stamps)),
        lambda: switch_session(archive, talk.stream, StartManaging(at=9, why="w"), next(stamps).id),
        lambda: switch_session(archive, talk.stream, SwitchManaging(at=9, on=False, why="w"), next(stamps).id),
        lambda: switch_session(archive, talk.stream, StartManaging(at=9, why="w"), next(stamps).id),
        lambda: change_pin(pin, branch="fork-1", turns=3),
        lambda: change_pin(pin),
        lambda: change_pin(unpin),
    ):
        before = await read()
        await change()
        after = await read()
        assert before != after
        for expected in (before, after, before, after):
            assert (await undo(archive, wanted, next(stamps)))[1]
            assert await read() == expected
