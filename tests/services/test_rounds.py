"""A managed session in the archive: each round rebuilt, verified, and the session loaded as it was folded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import Identity
from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.domain.history.time_travel import History, history_of, place_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import RoundBegan
from mnemosyne.errors import NotFound
from mnemosyne.services import contexts, verifying
from mnemosyne.services.exporting import export, import_file
from mnemosyne.services.forgetting import forget
from tests.actors.support import CODEC
from tests.http.managing import Client, look, model_says, open_stage, recall, results, text, think
from tests.services.talking import IMPORTING, Plain, plain

LOOP = {
    "replies": [
        model_says(think("I forgot."), text("Let me see. " * 40), recall()),
        model_says(think("So."), look(at="this"), recall("and that? " * 40)),
        model_says(recall("again?")),
        model_says(think("Done."), text("It is there.")),
    ]
}


@attrs.frozen
class Managed:
    """The log of a managed session with a fork, and what the provider was sent."""

    archive: Plain
    stream: UUID
    recorded: Sequence[Recorded[Event]]
    sent: Sequence[bytes]
    client: Sequence[bytes]

    @property
    def history(self) -> History:
        return history_of(str(self.stream), self.recorded)


@pytest.fixture
async def managed() -> Managed:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        await client.work("And now?")
        del client.history[2:]
        await client.turn(*results({"content": client.history[1]["content"]}), text("Never mind."))
    (stream,) = await stage.log.streams()
    recorded = await stage.log.read(stream)
    sent = [each.body for each in stage.standin.messages]
    return Managed(Plain(stage.log), stream, recorded, sent, client.bodies)


async def test_every_round_and_every_request_is_verified(managed: Managed) -> None:
    report = await verifying.verify(managed.archive, managed.stream)
    assert report.differences == ()
    assert report.verdict == "ok"
    assert (report.attempts, report.rounds) == (len(managed.client), len(managed.sent))
    assert report.checked == len(managed.client) + len(managed.sent)


async def test_nothing_is_ok_after_a_session_was_forgotten(managed: Managed) -> None:
    await forget(managed.archive, managed.stream, lambda: 99, "c")
    report = await verifying.verify(managed.archive, managed.stream)
    assert (report.verdict, report.checked) == ("forgotten", 0)
    assert report.forgotten == len(managed.client) + len(managed.sent)


@attrs.frozen
class Damaged:
    """A log that tells of other events than it holds."""

    log: PlainLog
    told: Sequence[Recorded[Event]]

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        return self.told

    def __getattr__(self, name: str) -> object:
        return getattr(self.log, name)


async def test_a_round_that_is_not_what_was_sent_is_named(managed: Managed) -> None:
    def damaged(each: Recorded[Event]) -> Recorded[Event]:
        event = each.envelope.event
        if not isinstance(event, RoundBegan) or (event.turn, event.round) != (2, 2):
            return each
        return attrs.evolve(each, envelope=attrs.evolve(each.envelope, event=attrs.evolve(event, sha256=bytes(32))))

    @attrs.frozen
    class Archive:
        events: Any
        contents: Any
        journal: Any
        directory: Any

    log, directory = managed.archive.log, managed.archive.directory
    told = Archive(Damaged(log, [damaged(each) for each in managed.recorded]), log, log, directory)
    report = await verifying.verify(told, managed.stream)
    assert report.verdict == "differs"
    assert "turn 2.1/2 of branch main" in report.differences[0].sentence


async def test_it_arrives_whole_on_another_machine(managed: Managed, tmp_path: Path) -> None:
    lines = [line async for line in export(managed.archive, managed.stream, CODEC)]
    await trio.Path(tmp_path / "s").write_bytes(b"".join(lines))
    other = plain()
    await import_file(other, tmp_path / "s", CODEC, attrs.evolve(IMPORTING, tenant="t"), lambda *_: None)
    assert [each.envelope for each in await other.log.read(managed.stream)] == [
        each.envelope for each in managed.recorded
    ]
    report = await verifying.verify(other, managed.stream)
    assert (report.verdict, report.rounds) == ("ok", len(managed.sent))


async def test_an_address_with_a_round_shows_what_went_upstream(managed: Managed) -> None:
    history = managed.history
    shown: list[bytes] = []
    for branch in history.lines:
        for attempt in history.lines[branch].attempts:
            for number in range(1, len(attempt.rounds) + 1):
                at = attempt.address
                place = place_of(f"{at.turn}.{at.attempt}/{number}")
                found = await contexts.context_of(managed.archive, managed.stream, history, history.at(branch, place))
                assert found.rebuilt.proven
                messages = [block for block in found.view.blocks if block.section == "messages"]
                assert messages
                assert all(block.origin is not None and block.origin <= at.turn for block in messages)
                shown.append(found.rebuilt.body)
    assert sorted(shown) == sorted(managed.sent)
    own = await contexts.rebuild(managed.archive, managed.stream, history, history.at("main", place_of("1")))
    assert own.body == managed.client[0]
    with pytest.raises(NotFound, match="2 rounds, and not 3"):
        history.at("main", place_of("1/3"))


async def test_the_reply_to_a_round_is_the_providers_and_that_to_the_turn_the_clients(managed: Managed) -> None:
    history = managed.history
    for address, hidden in (("1", False), ("1/1", True), ("1/2", True)):
        found = await contexts.context_of(
            managed.archive, managed.stream, history, history.at("main", place_of(address))
        )
        assert found.reply_size
        assert any(block.name == "memory_query" for block in found.reply) is hidden


async def test_it_is_loaded_as_it_is_folded(managed: Managed) -> None:
    identity = Identity(stream=managed.stream, tenant="t", external_id="s")
    folded = Loaded(identity, PlainLog(CODEC), PlainLog(CODEC), lambda: b"")
    for version, each in enumerate(managed.recorded, 1):
        folded.note(each.envelope.event)
        loaded = Loaded(identity, PlainLog(CODEC), PlainLog(CODEC), lambda: b"")
        loaded.load(managed.recorded[:version])
        assert loaded.state == folded.state
