import pytest

from mnemosyne.adapters.plain_log import PlainLog
from mnemosyne.archive import contexts, sessions
from mnemosyne.archive.exporting import export
from mnemosyne.archive.forgetting import candidates, forget
from mnemosyne.archive.verifying import verify
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session import GapRecorded, SessionForgotten
from mnemosyne.domain.time_travel import Place
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.storage import event_codec
from tests.archive.talking import Plain, assistant, body, plain, rich_session, talking, user


def _now() -> int:
    return 99


async def test_nothing_is_left_and_the_log_stays_valid() -> None:
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
            await contexts.rebuild(talk.archive, talk.stream, history, history.at("main", Place(1)))
        with pytest.raises(ContentForgotten, match="nothing left to export"):
            [line async for line in export(talk.archive, talk.stream, event_codec())]


async def test_forgetting_twice_changes_nothing() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        assert (await forget(talk.archive, talk.stream, _now, "c")).recorded
        version = len(await talk.archive.log.read(talk.stream))
        again = await forget(talk.archive, talk.stream, _now, "c")
        assert (again.erased, again.recorded) == (0, False)
        assert len(await talk.archive.log.read(talk.stream)) == version


async def test_a_crash_before_the_event_leaves_a_session_that_is_forgotten_and_can_be_finished() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        await talk.archive.log.forget(talk.stream)
        assert (await verify(talk.archive, talk.stream)).verdict == "forgotten"
        assert (await forget(talk.archive, talk.stream, _now, "c")).recorded


class Busy(PlainLog):
    """A log to which a server writes while the session is being forgotten."""

    turns = 0

    async def append(self, append: Append) -> int:
        if self.turns:
            self.turns -= 1
            event = GapRecorded(at=1, since=1, turns=1, reason="busy")
            await super().append(Append(append.stream, append.expected, (Envelope(event, "c"),)))
        return await super().append(append)


async def test_a_server_that_goes_on_writing_does_not_keep_it_from_being_recorded() -> None:
    log = Busy(event_codec())
    async with talking(Plain(log)) as talk:
        await talk.ask(body([user("One.")]))
        log.turns = 3
        assert (await forget(talk.archive, talk.stream, _now, "c")).recorded
        events = [each.envelope.event for each in await talk.archive.log.read(talk.stream)]
    assert isinstance(events[-1], SessionForgotten)
    assert sum(isinstance(event, GapRecorded) for event in events) == 3


async def test_what_is_said_afterwards_can_be_verified_and_what_was_said_only_before_stays_erased() -> None:
    archive = plain()
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
        rebuilt = await contexts.rebuild(archive, talk.stream, history, history.at("main", Place(1)))
    assert rebuilt.attempt.address == again
    assert rebuilt.body == body(first)
    assert report.verdict == "forgotten"
    assert (report.forgotten, report.checked) == (2, 2)


async def test_sessions_are_found_by_either_name_or_its_beginning() -> None:
    archive = plain()
    async with talking(archive, "alpha-one") as one, talking(archive, "alpha") as two:
        await one.ask(body([user("One.")]))
        await two.ask(body([user("Two.")]))
    assert await sessions.find(archive, str(one.stream).upper()) == one.stream
    assert await sessions.find(archive, str(one.stream)[:13]) == one.stream
    assert await sessions.find(archive, "alpha-") == one.stream
    assert await sessions.find(archive, "alpha") == two.stream  # a whole name comes before a beginning
    with pytest.raises(NotFound, match="may mean 2 sessions"):
        await sessions.find(archive, "alp")
    for wrong in ("", "beta", "alpha-one-two"):
        with pytest.raises(NotFound, match="There is no session"):
            await sessions.find(archive, wrong)


async def test_retention_looks_at_what_sessions_hold_and_when_they_were_active() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        sizes = await talk.archive.log.sizes()
        (candidate,) = await candidates(talk.archive, sizes)
    assert candidate.session == talk.stream
    assert candidate.last_active_at == 1_000_000
    assert candidate.stored_bytes == sizes[talk.stream].stored_bytes
