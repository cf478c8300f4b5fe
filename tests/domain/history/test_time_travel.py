import attrs
import pytest

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import Status, TurnPlace, history_of, place_of
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import TurnBegan, TurnRelation
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.domain.wire import recipe
from mnemosyne.errors import BadOption, LogFailed, NotFound
from tests.services.talking import assistant, body, rich_session, talking, user


async def test_following_a_body_back_gives_what_folding_forward_gives() -> None:
    async with talking() as talk:
        await rich_session(talk)
        events = await talk.archive.log.read(talk.stream)
        history = history_of("s", events)
        state = Session()
        compared = 0
        for each in events:
            state = evolve(state, each.envelope.event)
            for branch in state.branches.values():
                if branch.body_version == each.version:
                    attempt = next(found for found in history.attempts if found.version == each.version)
                    assert time_travel.body_of(history, attempt.body_version) == branch.body
                    compared += 1
    assert compared >= 12


async def test_a_fork_shares_its_parents_turns_up_to_the_fork() -> None:
    async with talking() as talk:
        start = [user("One."), assistant("Done."), user("Two.")]
        await talk.ask(body(start[:1]))
        await talk.ask(body(start))
        await talk.ask(body([*start, assistant("Done."), user("Three.")]))
        left = await talk.ask(body([*start, assistant("Done."), user("Other.")]))
        history = await talk.history()
    assert left == Address("fork-1", 3, 1)
    assert history.line("fork-1").last == 3
    assert history.at("fork-1", TurnPlace(2)).address == Address("main", 2, 1)
    assert history.at("fork-1", TurnPlace()).address == left
    assert history.turns == 4
    assert history.first_turns(history.at("fork-1", TurnPlace())) == [1, 2, 2, 3, 3]


async def test_each_attempt_has_its_status() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]), reply=None)
        await talk.ask(body([user("One.")]), reply=None)
        await talk.ask(body([user("One.")]))
        await talk.interrupt(Address("main", 1, 2), "the client left")
        history = await talk.history()
    attempts = history.turn("main", 1)
    assert [attempt.status for attempt in attempts] == [Status.OPEN, Status.INTERRUPTED, Status.FINISHED]
    assert [attempt.began.relation for attempt in attempts] == [
        TurnRelation.FIRST,
        TurnRelation.REPEATS,
        TurnRelation.REPEATS,
    ]
    assert history.at("main", TurnPlace()).address.attempt == 3
    assert history.at("main", TurnPlace(1, 1)).status is Status.OPEN


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (None, TurnPlace()),
        ("7", TurnPlace(7)),
        ("7.2", TurnPlace(7, 2)),
        ("7.2/1", TurnPlace(7, 2, 1)),
        ("7/3", TurnPlace(7, None, 3)),
    ],
)
def test_an_address_is_turn_attempt_and_round(text: str | None, place: TurnPlace) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize("text", ["", "x", "7.", "-1", "7/", "7.1.1", "\u0667"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="TURN"):
        place_of(text)


async def test_a_missing_turn_is_refused_with_the_existing_ones() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        history = await talk.history()
    with pytest.raises(NotFound, match=r"no branch 'side'; its branches: main"):
        history.at("side", TurnPlace())
    with pytest.raises(NotFound, match=r"turns 1 to 1, and not 0"):
        history.at("main", TurnPlace(0))
    with pytest.raises(NotFound, match=r"1 attempt, and not 2"):
        history.at("main", TurnPlace(1, 2))
    with pytest.raises(NotFound, match=r"1 round, and not 2"):
        history.at("main", TurnPlace(1, 1, 2))


async def test_contradictory_events_are_refused() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        await talk.ask(body([user("One."), assistant("Done."), user("Two.")]))
        history = await talk.history()
    last = history.at("main", TurnPlace(2))
    for wrong in (
        attrs.evolve(last.began, base=99),
        attrs.evolve(last.began, base=last.version),
        attrs.evolve(last.began, body=recipe.encode(recipe.BodyChange(head=10**6))),
        attrs.evolve(last.began, size=3),
    ):
        bodies = {**history.bodies, last.version: wrong}
        with pytest.raises(LogFailed):
            time_travel.body_of(attrs.evolve(history, bodies=bodies), last.version)


async def test_a_session_that_begins_with_a_gap_is_read() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]))
        events = await talk.archive.log.read(talk.stream)
    later = [each for each in events if not isinstance(each.envelope.event, TurnBegan)]
    history = history_of("s", later)
    assert history.turns == 0
    assert history.lines["main"].last == 0
    with pytest.raises(NotFound, match="no turns"):
        history.at("main", TurnPlace())
