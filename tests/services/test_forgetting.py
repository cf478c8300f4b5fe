from typing import Any
from uuid import UUID

import pytest

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history.time_travel import TurnPlace
from mnemosyne.domain.objects.events import ObjectCreated, ObjectPinned
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import GapRecorded, SessionForgotten
from mnemosyne.domain.session.redaction import redact
from mnemosyne.errors import ContentForgotten, LogFailed
from mnemosyne.replay.deciding import review
from mnemosyne.services import contexts, memories
from mnemosyne.services.exporting import export
from mnemosyne.services.footprints import Report
from mnemosyne.services.forgetting import choose_old, clean, forget, forget_all, read_last_active
from mnemosyne.services.verifying import verify
from tests.plain.log import PlainLog
from tests.services.talking import Plain, Talk, assistant, body, plain, rich_session, talking, user


def _now() -> int:
    return 99


async def test_deletion_removes_all_content_and_keeps_a_valid_log() -> None:
    async with talking() as talk:
        await rich_session(talk)
        before = (await verify(talk.archive, talk.stream)).attempts
        done = await forget(talk.archive, talk.stream, _now, "c")
        report = await verify(talk.archive, talk.stream)
        sizes = (await talk.archive.log.sizes(talk.stream))[talk.stream]
        assert done.erased == sizes.forgotten > 0
        assert sizes.contents == 0
        assert (report.verdict, report.forgotten, report.checked, report.attempts) == ("forgotten", before, 0, before)
        history = await talk.history()
        with pytest.raises(ContentForgotten, match="was forgotten"):
            await contexts.rebuild(talk.archive, talk.stream, history, history.at("main", TurnPlace(1)))
        with pytest.raises(ContentForgotten, match="nothing left to export"):
            [line async for line in export(talk.archive, talk.stream, event_codec())]


CANARY = "the heron nests at noon"
MESSAGES = [
    user(f"Read docs/heron.md: {CANARY}. We decided to use herons, because owls are asleep."),
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "mcp__heron__watch", "input": {"path": "docs/heron.md"}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": f"{CANARY} at heron.example. " * 90}],
    },
    assistant("Herons it is, because owls are asleep."),
    user("Go on."),
]


async def session_with_canary(archive: Plain) -> Talk:
    """A session whose objects contain the canary; its server has stopped."""
    async with talking(archive) as talk:
        await talk.ask(body(MESSAGES[:1]))
        await talk.ask(body(MESSAGES[:3]))
        await talk.ask(body(MESSAGES))
    version = len(await archive.log.read(talk.stream))
    (made, *_) = await objects(talk)
    pinned = ObjectPinned(at=1, object=made.object, reason=CANARY, until_turn=None)
    await archive.log.append(Append(talk.stream, version, (Envelope(pinned, "c"),)))
    return talk


async def objects(talk: Talk) -> list[ObjectCreated]:
    """All objects in the log, in order."""
    events = [each.envelope.event for each in await talk.archive.log.read(talk.stream)]
    return [event for event in events if isinstance(event, ObjectCreated)]


async def memory(talk: Talk) -> Memory:
    return memories.fold(await talk.archive.log.read(talk.stream)).memory


async def test_no_event_contains_deleted_words() -> None:
    talk = await session_with_canary(plain())
    assert b"heron" in talk.archive.log.state_bytes(talk.stream)
    before = [(each.version, each.position) for each in await talk.archive.log.read(talk.stream)]
    await forget(talk.archive, talk.stream, _now, "c")
    assert b"heron" not in talk.archive.log.state_bytes(talk.stream)
    after = [(each.version, each.position) for each in await talk.archive.log.read(talk.stream)]
    assert after == [*before, (len(before) + 1, len(before) + 1)]
    assert all(each.forgotten and not each.stub for each in (await memory(talk)).objects.values())


async def test_a_session_that_continues_after_deletion_makes_the_same_objects_under_new_ids() -> None:
    new, talk = plain(), await session_with_canary(plain())
    first = await objects(talk)
    await forget(talk.archive, talk.stream, _now, "c")
    made = []
    for archive, known in ((new, 0), (talk.archive, len(first))):
        async with talking(archive) as again:
            await again.ask(body([*MESSAGES, assistant("On."), user("And on.")]))
        made.append((await objects(again))[known:])
    second = made[1]
    shown = [[(each.kind, each.places, each.stub, each.tokens) for each in some] for some in made]
    assert shown[0] == shown[1] != []
    assert {place.message for each in second for place in each.places} >= {0, 1, 2, 3}
    assert {each.object for each in first}.isdisjoint(each.object for each in second)
    remembered = await memory(talk)
    assert remembered.view_of("main").objects == tuple(each.object for each in second)
    assert all(remembered.objects[each].forgotten for each in {each.object for each in first})
    assert (await review(talk.archive, str(talk.stream))).differences == []
    assert (await verify(talk.archive, talk.stream)).verdict == "forgotten"


async def test_content_added_after_a_deletion_is_deleted_by_the_next() -> None:
    talk = await session_with_canary(plain())
    await forget(talk.archive, talk.stream, _now, "c")
    async with talking(talk.archive) as again:
        await again.ask(body([*MESSAGES, assistant("On."), user("And on.")]))
    await talk.archive.log.forget(talk.stream, redact)  # and then the program was killed
    assert (await forget(talk.archive, talk.stream, _now, "c")).recorded
    events = [each.envelope.event for each in await talk.archive.log.read(talk.stream)]
    assert sum(isinstance(event, SessionForgotten) for event in events) == 2
    assert isinstance(events[-1], SessionForgotten)
    generations = (await memory(talk)).generation
    async with talking(talk.archive) as again:
        await again.ask(body([*MESSAGES, assistant("On."), user("And on."), assistant("Yes."), user("On.")]))
    made = [each.object for each in await objects(talk)]
    assert generations == 2
    assert len(set(made)) == len(made)


async def test_deleting_twice_changes_nothing_and_a_crash_before_the_event_can_be_completed() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        await talk.archive.log.forget(talk.stream, redact)  # and then the program was killed
        assert (await verify(talk.archive, talk.stream)).verdict == "forgotten"
        assert (await forget(talk.archive, talk.stream, _now, "c")).recorded
        version = len(await talk.archive.log.read(talk.stream))
        again = await forget(talk.archive, talk.stream, _now, "c")
        assert (again.erased, again.recorded) == (0, False)
        assert len(await talk.archive.log.read(talk.stream)) == version


class Busy(PlainLog):
    """A log to which a server writes while the session is being forgotten."""

    turns = 0

    async def append(self, append: Append) -> int:
        if self.turns:
            self.turns -= 1
            event = GapRecorded(at=1, since=1, turns=1, reason="busy")
            await super().append(Append(append.stream, append.expected, (Envelope(event, "c"),)))
        return await super().append(append)


async def test_deletion_is_recorded_while_a_server_writes() -> None:
    log = Busy(event_codec())
    async with talking(Plain(log)) as talk:
        await talk.ask(body([user("One.")]))
        log.turns = 3
        assert (await forget(talk.archive, talk.stream, _now, "c")).recorded
        events = [each.envelope.event for each in await talk.archive.log.read(talk.stream)]
    assert isinstance(events[-1], SessionForgotten)
    assert sum(isinstance(event, GapRecorded) for event in events) == 3


async def test_later_content_is_verified_and_earlier_content_stays_deleted(archive: Plain) -> None:
    first = [user("One, and only once. " * 30)]
    async with talking(archive) as talk:
        await talk.ask(body(first), reply="This was the reply. " * 20)
        await talk.ask(body([*first, assistant("x"), user("Two. " * 100)]))
        await forget(archive, talk.stream, _now, "c")
    async with talking(archive) as talk:  # the server reads the log again
        again = await talk.ask(body(first), reply=None)
        await talk.ask(body([*first, assistant("Another. " * 50), user("Go on.")]), reply=None)
        report = await verify(archive, talk.stream)
        history = await talk.history()
        rebuilt = await contexts.rebuild(archive, talk.stream, history, history.at("main", TurnPlace(1)))
    assert rebuilt.attempt.address == again
    assert rebuilt.body == body(first)
    assert report.verdict == "forgotten"
    assert (report.forgotten, report.checked) == (2, 2)


async def test_deleted_sessions_are_active_again_only_after_a_new_turn() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]), reply=None)
        assert await read_last_active(talk.archive) == {talk.stream: (await talk.history()).last_at}
    await forget(talk.archive, talk.stream, _now, "c")
    assert await read_last_active(talk.archive) == {}
    async with talking(talk.archive) as again:
        await again.ask(body([user("And now?")]))
    assert list(await read_last_active(talk.archive)) == [talk.stream]


class Counting(PlainLog):
    """A log that notes the streams that are read."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.read_whole: list[UUID | None] = []

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Any:
        self.read_whole.append(stream)
        return await super().read(stream, after=after, upto=upto)

    async def sizes(self, stream: UUID | None = None) -> Any:
        self.read_whole.append(stream)
        return await super().sizes(stream)


async def test_retention_by_days_chooses_old_sessions_and_reads_no_others() -> None:
    log = Counting(event_codec())
    archive = Plain(log)
    for name in ("old", "older", "new"):
        async with talking(archive, name) as talk:
            await talk.ask(body([user(f"I am {name}.")]))
    day = 24 * 3600 * 10**6
    log.read_whole.clear()
    assert not await choose_old(archive, now=9 * day, days=10, stored_bytes=None)
    assert log.read_whole == []
    chosen = [each.candidate.session for each in await choose_old(archive, now=9 * day, days=8, stored_bytes=None)]
    assert set(log.read_whole) == set(chosen) == set(await log.streams())
    done = await forget_all(archive, chosen, lambda: 1, lambda: "c")
    assert [(each.session, each.recorded) for each in done] == [(stream, True) for stream in chosen]


@pytest.mark.parametrize(("failure", "said"), [(None, "rewritten"), (LogFailed("it is busy"), "kept: it is busy")])
async def test_the_outcome_for_the_files_is_reported(failure: LogFailed | None, said: str) -> None:
    class Files:
        async def disk_bytes(self) -> int:
            return 0

        async def rewrite_content(self, report: Report) -> None:
            if failure is not None:
                raise failure

    assert await clean(Files()) == said
