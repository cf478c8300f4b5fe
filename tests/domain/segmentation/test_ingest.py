"""Ingesting requests: every object contains exactly its blocks, and the state equals the fold of the events."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio

from mnemosyne.actors.messages import CompleteDeferred
from mnemosyne.domain.history.time_travel import history_of, place_of
from mnemosyne.domain.objects.events import BlockPlace, ObjectCreated, TurnAssessed
from mnemosyne.domain.objects.ids import ID_LENGTH, ID_LETTERS, object_id
from mnemosyne.domain.segmentation import ingest
from mnemosyne.services import contexts, memories
from tests.domain.recorded import sessions
from tests.replay.recordings import played, session
from tests.replay.session_tapes import tape_of
from tests.services.talking import Plain, body, rich_session, talking, user

Request = Mapping[str, Any]


def blocks_of(message: Request) -> list[Any]:
    """Return the blocks that a place's block number counts."""
    content = message["content"]
    return [content] if isinstance(content, str) else list(content)


def values_in(text: str) -> list[Any]:
    """Parse JSON values that follow each other."""
    values, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        values.append(value)
    return values


async def check_contents(archive: Plain) -> int:
    """Check that every object of a log contains its blocks as in the request; return how many were checked."""
    (stream,) = await archive.log.streams()
    events = await archive.log.read(stream)
    history = history_of(str(stream), events)
    objects = memories.fold(events).memory.objects
    looked = 0
    for created in (each.envelope.event for each in events if isinstance(each.envelope.event, ObjectCreated)):
        attempt = history.at(created.branch, place_of(str(created.turn)))
        request = json.loads((await contexts.rebuild(archive, stream, history, attempt)).body)
        there = [blocks_of(request["messages"][place.message])[place.block] for place in created.places]
        content = await memories.content_of(archive, stream, objects[created.object])
        assert values_in(content.decode()) == there
        looked += 1
    return looked


def test_the_content_of_an_object_is_exactly_its_blocks() -> None:
    log, _ = played(tape_of(session(turns=8)))
    assert trio.run(check_contents, Plain(log)) > 3


def test_the_content_of_recorded_objects_is_exactly_their_blocks() -> None:
    shortest = sorted(sessions(every=9), key=lambda each: len(each["messages"]))[:3]
    for recorded in shortest:
        log, _ = played(tape_of(recorded))
        trio.run(check_contents, Plain(log))


async def test_every_turn_of_a_conversation_is_assessed_exactly_once() -> None:
    async with talking() as talk:
        await rich_session(talk)
    events = [each.envelope.event for each in await talk.archive.log.read(talk.stream)]
    assessed = [(event.branch, event.turn) for event in events if isinstance(event, TurnAssessed)]
    assert len(set(assessed)) == len(assessed)
    assert {branch.rsplit("-", 1)[0] for branch, _ in assessed} == {"main", "fork", "agent", "successor"}


async def test_a_pause_measures_no_message_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking() as talk:
        await talk.ask(body([user("Is it built?")]))
        await talk.actor.mailbox.post(CompleteDeferred()).wait()
        monkeypatch.setattr(ingest, "features_of_message", None)  # calling it would fail
        await talk.actor.mailbox.post(CompleteDeferred(closes=True)).wait()
        events = [each.envelope.event for each in await talk.archive.log.read(talk.stream)]
    assert [event.open_from for event in events if isinstance(event, TurnAssessed)] == [0, 1]


def test_ids_are_short_and_specific_to_the_session() -> None:
    first = object_id(b"salt" * 4, b"blocks", b"main")
    assert len(first) == ID_LENGTH
    assert set(first) <= set(ID_LETTERS)
    assert first == object_id(b"salt" * 4, b"blocks", b"main") != object_id(b"tlas" * 4, b"blocks", b"main")


def ran(number: int, command: str, answer: str, *, failed: bool = False) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": answer, "is_error": failed}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


async def test_an_object_that_supersedes_an_admitted_one_is_admitted() -> None:
    missing = "ls: cannot access 'build/out.bin': No such file or directory"
    messages = [
        user("Is it built?"),
        *ran(1, "ls build/out.bin", missing, failed=True),
        *ran(2, "ls build/out.bin", "build/out.bin"),
        *ran(3, "ls build/out.bin", "build/out.bin"),
        user("Thanks."),
    ]
    async with talking() as talk:
        for count in range(1, len(messages) + 1, 2):
            await talk.ask(body(messages[:count]))
        objects = memories.fold(await talk.archive.log.read(talk.stream)).memory.objects
    again = [each for each in objects.values() if each.source_key == "Bash ls build/out.bin"]
    assert [(each.admission.admitted, each.stale) for each in again] == [(True, True), (True, True), (True, False)]


async def test_the_blocks_of_a_message_are_not_compared_pairwise(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, equal = [0], BlockPlace.__eq__

    def counted(self: BlockPlace, other: object) -> bool:
        compared[0] += 1
        return equal(self, other)

    monkeypatch.setattr(BlockPlace, "__eq__", counted)
    async with talking() as talk:
        await talk.ask(body([{"role": "user", "content": [{"type": "text", "text": f"x{n}"} for n in range(1_000)]}]))
        await talk.ask(body([user("Go on.")]))
    assert compared[0] < 100_000


async def test_the_entities_of_a_very_long_text_are_taken_from_both_ends() -> None:
    words = "and so on, " * 20_000
    async with talking() as talk:
        await talk.ask(body([user(f"See src/begin.py {words} src/middle.py {words} src/end.py")]))
        (long_text,) = memories.fold(await talk.archive.log.read(talk.stream)).memory.objects.values()
    assert long_text.key_entities == ("src/begin.py", "src/end.py")
