"""Helpers never spend more than the budget: not at once, not in two processes, not after a crash."""

import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.actors.purse import Purse
from mnemosyne.domain.objects.events import Losses, ObjectSummarized
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.spending import DAY, Budget
from tests.actors.support import STREAM, StoppableLog

TODAY = 5 * DAY


def turn(at: int, tokens: int) -> TurnFinished:
    """A turn of Claude Opus 5.5, whose input costs 4,000 nanodollars a token."""
    return TurnFinished(
        at=at,
        branch="main",
        turn=1,
        attempt=1,
        status=200,
        reply=b"",
        message_id=None,
        model="claude-opus-5-5",
        stop_reason=None,
        error_type=None,
        usage={"input_tokens": tokens, "output_tokens": 0},
    )


def summary(at: int, nanodollars: int) -> ObjectSummarized:
    return ObjectSummarized(
        at=at,
        object="o",
        fidelity=Fidelity.DETAILED,
        text=b"",
        size=1,
        tokens=1,
        helper="h",
        losses=Losses(),
        nanodollars=nanodollars,
    )


async def tell(log: StoppableLog, *events: object) -> None:
    version = len(await log.read(STREAM))
    await log.append(Append(STREAM, version, tuple(Envelope(event, "c") for event in events)))


def purse(log: StoppableLog, a_day: int = 1_000_000, share: float = 0.05) -> Purse:
    return Purse(log, Budget(a_day, share), lambda: TODAY)


async def test_room_is_the_share_of_the_day_s_turns_and_at_most_the_day_s_sum() -> None:
    log = StoppableLog()
    assert not await purse(log).take(1)
    await tell(log, turn(TODAY, 100), turn(TODAY - 1, 10**6), turn(TODAY + DAY, 10**6))
    assert not await purse(log).take(20_001)
    assert await purse(log).take(20_000)
    assert not await purse(log, a_day=100).take(101)
    assert await purse(log, a_day=100).take(100)
    assert await purse(log, a_day=0).take(0)


async def test_what_any_process_has_on_record_counts_today_and_no_longer() -> None:
    log = StoppableLog()
    await tell(log, turn(TODAY, 100), summary(TODAY - 1, 10**9), summary(TODAY, 5_000))
    mine = purse(log)
    assert not await mine.take(15_001)
    assert await mine.take(15_000)
    await tell(log, summary(TODAY, 15_000))
    mine.put_back(15_000)
    assert not await mine.take(1)
    assert not await purse(log).take(1)


async def test_a_new_day_begins_with_nothing_spent() -> None:
    log = StoppableLog()
    await tell(log, turn(TODAY, 100), summary(TODAY, 20_000))
    now = [TODAY]
    mine = Purse(log, Budget(1_000_000, 0.05), lambda: now[0])
    assert not await mine.take(1)
    now[0] += DAY
    await tell(log, turn(now[0], 100))
    assert await mine.take(20_000)


@given(
    st.lists(st.tuples(st.integers(1, 9_000), st.integers(1, 9_000), st.sampled_from(["logged", "lost", "unspent"])))
)
def test_what_is_spent_never_exceeds_the_budget(requests: list[tuple[int, int, str]]) -> None:
    async def main() -> None:
        log = StoppableLog()
        await tell(log, turn(TODAY, 100))
        mine, spent = purse(log), 0
        for estimate, cost, end in requests:
            if not await mine.take(estimate):
                assert spent + estimate > 20_000
                continue
            if end == "unspent":
                mine.put_back(estimate)
                continue
            cost = min(cost, estimate)
            spent += cost
            mine.put_back(estimate - cost)
            if end == "logged":
                await tell(log, summary(TODAY, cost))
                mine.put_back(cost)
            else:
                mine.write_off(cost)
        assert spent <= 20_000

    trio.run(main)


async def test_what_is_asked_for_at_the_same_time_is_not_given_twice() -> None:
    log = StoppableLog()
    await tell(log, turn(TODAY, 100))
    mine = purse(log)
    given: list[bool] = []

    async def ask() -> None:
        given.append(await mine.take(15_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
    assert sorted(given) == [False, True]
