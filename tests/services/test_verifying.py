from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast
from uuid import UUID

import attrs
import pytest

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import Event, TurnBegan, TurnFinished
from mnemosyne.errors import ContentMissing, LogDamaged
from mnemosyne.services import verifying
from mnemosyne.services.verifying import verify
from tests.domain.recorded import requests, sessions
from tests.plain.directory import PlainDirectory
from tests.plain.log import PlainLog
from tests.services.talking import Plain, assistant, body, rich_session, talking, user


@attrs.define
class Counting:
    """Contents that count the requested digests, some of which may be lost."""

    log: PlainLog
    asked: int = 0
    lost: set[bytes] = attrs.field(factory=set)

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        self.asked += len(digests)
        if self.lost.intersection(digests):
            raise ContentMissing("content is damaged")
        return await self.log.fetch(stream, digests)


@attrs.define
class Counted:
    """An archive with such contents."""

    events: Any
    contents: Counting
    journal: PlainLog

    @property
    def directory(self) -> PlainDirectory:
        return PlainDirectory(self.events)

    @classmethod
    def of(cls, archive: Plain) -> "Counted":
        return cls(archive.log, Counting(archive.log), archive.log)


@attrs.define
class Altered:
    """A log in which one event is another, or that cannot be read."""

    log: PlainLog
    stream: UUID
    version: int = 0
    event: object = None

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> list[Recorded[Event]]:
        recorded = await self.log.read(stream, after=after, upto=upto)
        if stream != self.stream:
            return list(recorded)
        if self.event is None:
            raise LogDamaged("a page of its files is torn")
        return [
            attrs.evolve(each, envelope=attrs.evolve(each.envelope, event=self.event))
            if each.version == self.version
            else each
            for each in recorded
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def counted(self) -> "Counted":
        """An archive with this log."""
        return Counted(self, Counting(self.log), self.log)


@pytest.mark.parametrize("tasks", [1, 3, 128])
async def test_a_session_with_every_kind_of_branch_is_verified(tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "WINDOW_TASKS", tasks)
    reported: list[tuple[int, int]] = []
    async with talking() as talk:
        await rich_session(talk)
        report = await verify(talk.archive, talk.stream, lambda done, total: reported.append((done, total)))
        events = await talk.archive.log.read(talk.stream)
    assert (report.verdict, report.external_id) == ("ok", "a client's session")
    assert report.checked == report.attempts == len(talk.sent)
    assert report.attempts == sum(isinstance(each.envelope.event, TurnBegan) for each in events)
    assert report.turns == len(talk.sent) - 2  # two were sent twice
    assert reported[-1] == (report.attempts, report.attempts)


@pytest.mark.release
async def test_verification_fetches_each_content_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "WINDOW_TASKS", 4)  # a window's contents are fetched once
    session = max(sessions(), key=lambda each: len(each["turns"]))
    async with talking() as talk:
        for raw in requests(session, 120):
            await talk.ask(raw)
        counted = Counted.of(talk.archive)
        assert (await verify(counted, talk.stream)).verdict == "ok"
        held = (await talk.archive.log.sizes(talk.stream))[talk.stream].contents
    assert counted.contents.asked < 2 * held


async def test_lost_content_differs_only_in_the_turns_that_contain_it() -> None:
    async with talking() as talk:
        first = [user("One. " * 100)]
        await talk.ask(body(first))
        await talk.ask(body([*first, assistant("Done."), user("Two. " * 100)]))
        await talk.ask(body([user("Another. " * 100)], system="short", tools=[]), ("x-claude-code-agent-id", "a"))
        counted = Counted.of(talk.archive)
        history = await talk.history()
        text = next(
            piece
            for piece in time_travel.body_of(history, history.turn("main", 2)[0].body_version).pieces
            if piece.length == 500
        )
        counted.contents.lost = {getattr(text, "digest", b"")}
        report = await verify(counted, talk.stream)
    assert report.verdict == "differs"
    assert {difference.address for difference in report.differences} == {
        Address("main", 1, 1),
        Address("main", 2, 1),
    }
    assert "damaged" in report.differences[0].what
    assert report.checked == 1


async def test_a_wrong_hash_size_or_base_is_reported_with_its_turn() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        await talk.ask(body([user("One."), assistant("Done."), user("Two.")]))
        began = (await talk.history()).turn("main", 2)[0]
        for event, what in (
            (attrs.evolve(began.began, sha256=bytes(32)), "has the SHA-256"),
            (attrs.evolve(began.began, sha256=b"\xff" * 32), "has the SHA-256"),
            (attrs.evolve(began.began, size=7), "bytes, and not 7"),
            (attrs.evolve(began.began, base=1), "is not known"),
            (attrs.evolve(began.began, body=b"\xff"), "ends within a number"),
        ):
            altered = Altered(talk.archive.log, talk.stream, began.version, event)
            (difference,) = (await verify(altered.counted(), talk.stream)).differences
            assert difference.address == Address("main", 2, 1)
            assert what in difference.sentence


async def test_a_reply_with_another_message_id_differs() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        events = await talk.archive.log.read(talk.stream)
        (finished,) = (each for each in events if isinstance(each.envelope.event, TurnFinished))
        event = attrs.evolve(cast("TurnFinished", finished.envelope.event), message_id="msg_other")
        altered = Altered(talk.archive.log, talk.stream, finished.version, event)
        report = await verify(altered.counted(), talk.stream)
    assert [difference.what for difference in report.differences] == ["the reply is not the message msg_other"]


async def test_unreadable_session_does_not_stop_verification_of_others(archive: Plain) -> None:
    for name in ("torn", "whole"):
        async with talking(archive, name) as talk:
            await rich_session(talk)
    torn = stream_of("local", "torn")
    found = await verifying.verify_sessions(
        Altered(archive.log, torn).counted(), None, lambda label: nullcontext(lambda done, total: None)
    )
    assert {each.session: each.verdict for each in found} == {torn: "unreadable", talk.stream: "ok"}
    assert [each.unreadable for each in found if not each.is_sound] == ["a page of its files is torn"]


async def test_one_or_all_sessions_are_verified_each_with_a_progress_bar(archive: Plain) -> None:
    for name in ("one", "other"):
        async with talking(archive, name) as talk:
            await rich_session(talk)
    labels: list[str] = []

    def bars(label: str) -> AbstractContextManager[Callable[[int, int], None]]:
        labels.append(label)
        return nullcontext(lambda done, total: None)

    found = await verifying.verify_sessions(archive, None, bars)
    assert [each.verdict for each in found] == ["ok", "ok"]
    assert [each.session for each in await verifying.verify_sessions(archive, "other", bars)] == [talk.stream]
    assert labels == ["session 1 of 2", "session 2 of 2", "session 1 of 1"]
