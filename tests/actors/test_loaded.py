"""A loaded session is the fold of its events, and parses the next request against its cached bodies."""

import gc

import attrs
import pytest

from mnemosyne.actors.loaded import MANY, Loaded
from mnemosyne.actors.messages import ArrivedRequest, Recognized
from mnemosyne.domain.session.decide import ForgetSession, decide
from mnemosyne.domain.session.state import Session, evolve_all
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.normal_form import Echo
from tests.actors.support import IDENTITY, LONG, STREAM, StoppableLog, events_of, headers, open_process, request, salt


def fresh(log: StoppableLog) -> Loaded:
    return Loaded(IDENTITY, log, log, salt)


async def loaded(log: StoppableLog) -> Loaded:
    """The session as recorded."""
    session = fresh(log)
    session.load(await log.read(STREAM))
    return session


def arrived(*texts: str, agent: str | None = None) -> ArrivedRequest:
    return ArrivedRequest(at=9, headers=headers(agent=agent), raw=request(*texts), correlation_id="c", dialect=MESSAGES)


@pytest.fixture
async def log() -> StoppableLog:
    """A conversation of two turns and one of a sub-agent."""
    log = StoppableLog()
    async with open_process(log) as process:
        await process.turn(LONG, answer="one")
        await process.turn(LONG, "one", "u2", answer="two")
        await process.turn("Look into it.", agent="a", answer="seen")
    return log


@pytest.mark.parametrize("times", [1, MANY])
async def test_applying_events_together_equals_one_by_one(log: StoppableLog, times: int) -> None:
    one_by_one, together = fresh(log), fresh(log)
    events = [event for event in await events_of(log) for _ in range(times)][: times * 4]
    for event in events:
        one_by_one.note(event)
    await together.note_all(events)
    assert together.state == one_by_one.state
    assert together.known == one_by_one.known


async def test_previewed_events_are_not_folded_again_and_others_are(log: StoppableLog) -> None:
    session, events = fresh(log), await events_of(log)
    planned_rewrite = session.preview(events[:2])
    assert session.state == Session()
    assert session.preview(events[:3]) == evolve_all(Session(), events[:3])
    assert session.preview(events[:2]) is planned_rewrite
    await session.note_all(events[:2])
    assert session.state is planned_rewrite
    other = [attrs.evolve(each) for each in events[2:4]]
    session.preview(events[2:])
    session.apart().preview(other)
    assert session.preview(other) == evolve_all(planned_rewrite, events[2:4])
    await session.note_all(events[2:])
    assert session.state == evolve_all(Session(), events)


async def test_preview_keeps_one_state_per_call(log: StoppableLog) -> None:
    session, events = fresh(log), await events_of(log)
    before = sum(isinstance(held, Session) for held in gc.get_objects())
    session.preview([*events, *events[-1:] * 200])
    gc.collect()
    assert sum(isinstance(held, Session) for held in gc.get_objects()) <= before + 2


async def test_request_continues_the_branch_of_its_own_conversation(log: StoppableLog) -> None:
    session = await loaded(log)
    command, reading = await session.read_turn(arrived(LONG, "one", "u2", "two", "u3"))
    assert (command.base, command.echo, command.echoed_attempt) == ("main", Echo.SAME, 1)
    assert command.chains[:3] == session.state.branches["main"].chains
    assert reading.transcript.raw == request(LONG, "one", "u2", "two", "u3")
    command, _ = await session.read_turn(arrived("Look into it.", "seen", "And?", agent="a"))
    assert command.base == "agent-1"


async def test_reading_a_request_or_changing_a_copy_does_not_change_the_session(log: StoppableLog) -> None:
    session = await loaded(log)
    before, known = session.state, set(session.known)
    await session.read_turn(arrived(LONG, "one", "u2", "two", LONG + "more"))
    apart = session.apart()
    for event in decide(ForgetSession(at=9), apart.state):
        apart.note(event)
    assert apart.state != session.state == before
    assert session.known == known


async def test_history_belongs_to_the_session_with_the_model_s_replies(log: StoppableLog) -> None:
    session = await loaded(log)
    assert (await session.recognize(arrived(LONG, "one", "otherwise"))).is_ours
    other = await session.recognize(arrived(LONG, "another answer", "u2"))
    assert not other.is_ours, "many begin with the same words"
    assert await session.recognize(arrived("Something else.")) == Recognized()


async def test_continuing_the_end_matches_better_than_branching_off_before(log: StoppableLog) -> None:
    session = await loaded(log)
    leaves, goes_on = arrived(LONG, "one", "otherwise"), arrived(LONG, "one", "u2", "two", "u3")
    rewritten = arrived(LONG, "one", "u2", "another answer", "u3")
    found = [await session.recognize(each) for each in (leaves, rewritten, goes_on)]
    assert found == sorted(found)
    assert [each.goes_on for each in found] == [False, False, True]
