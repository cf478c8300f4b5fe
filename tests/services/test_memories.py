"""Pins are recorded once while a server runs, and objects are found by their ids."""

from pathlib import Path

import pytest

from mnemosyne.domain.objects.decide import Pin
from mnemosyne.domain.objects.events import ObjectCreated, ObjectPinned
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import GapRecorded
from mnemosyne.domain.session.state import Session
from mnemosyne.errors import NotFound
from mnemosyne.services import memories
from tests.golden.sessions import FOLDERS, opened
from tests.services.talking import Talk, body, rich_session, talking, user


async def an_object(talk: Talk) -> str:
    events = await talk.archive.log.read(talk.stream)
    return next(each.envelope.event.object for each in events if isinstance(each.envelope.event, ObjectCreated))


def pinning(object_id: str) -> Pin:
    return Pin(at=1, object=object_id, reason="r", until_turn=None)


async def test_a_pin_and_a_concurrent_server_s_event_are_both_recorded() -> None:
    async with talking() as talk:
        await rich_session(talk)
    wanted = await an_object(talk)
    versions: list[int] = []

    def command(state: Session) -> Pin:
        versions.append(state.version)
        if len(versions) == 1:  # a server writes between our reading and our writing
            gap = GapRecorded(at=1, since=1, turns=1, reason="r")
            talk.archive.log.submit(Append(talk.stream, state.version, (Envelope(gap, "c"),)))
        return pinning(wanted)

    assert len(await memories.decide(talk.archive, talk.stream, command, "c")) == 1
    assert versions[1] == versions[0] + 1
    last = [type(each.envelope.event) for each in await talk.archive.log.read(talk.stream)][-2:]
    assert last == [GapRecorded, ObjectPinned]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_objects_are_read_from_a_part_of_the_events(folder: Path) -> None:
    archive = opened(folder)
    for stream in await archive.events.streams():
        whole = memories.fold(await archive.events.read(stream))
        held, branches = await memories.read_objects(archive, stream)
        assert (held.objects, branches) == (whole.memory.objects, frozenset(whole.branches))
        assert _of_branches(held, branches) == _of_branches(whole.memory, branches)


def _of_branches(memory: Memory, branches: frozenset[str]) -> dict[str, object]:
    return {name: (memory.view_of(name).objects, memory.view_of(name).before) for name in branches}


async def test_unknown_id_or_session_is_reported() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One")]))
    with pytest.raises(NotFound, match="no object 'zzzzzzz'"):
        await memories.find(talk.archive, "zzzzzzz", None)
    with pytest.raises(NotFound, match="no session"):
        await memories.find(talk.archive, "zzzzzzz", "elsewhere")
