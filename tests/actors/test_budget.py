"""Helpers never spend more than the budget: not at once, not in two processes, not after a crash."""

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.actors.helper_calls import HelperBudget
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.budget import DAY, Budget, DaySpending
from mnemosyne.domain.session.events import TurnFinished
from tests.actors.spending import LoggedSpending
from tests.actors.support import STREAM, StoppableLog
from tests.domain.remembered import summarized
from tests.domain.session_events import finished

TODAY = 5 * DAY


def turn(at: int, tokens: int) -> TurnFinished:
    """A turn of Claude Opus 5.5, whose input costs 4,000 nanodollars a token. Its number is ``tokens``."""
    return finished(tokens, "claude-opus-5-5", {"input_tokens": tokens, "output_tokens": 0}, at=at)


def summary(at: int, nanodollars: int) -> ObjectSummarized:
    return attrs.evolve(summarized("o", Fidelity.DETAILED, 1), at=at, nanodollars=nanodollars)


async def append(log: StoppableLog, *events: object) -> None:
    version = len(await log.read(STREAM))
    await log.append(Append(STREAM, version, tuple(Envelope(event, "c") for event in events)))


def budget(log: StoppableLog, a_day: int = 1_000_000, share: float = 0.05) -> HelperBudget:
    return HelperBudget(LoggedSpending(log), Budget(a_day, share), lambda: TODAY)


async def test_budget_is_a_share_of_the_day_s_turns_up_to_a_daily_limit(log: StoppableLog) -> None:
    assert not await budget(log).reserve(1)
    await append(log, turn(TODAY, 100), turn(TODAY - 1, 10**6), turn(TODAY + DAY, 10**6))
    assert not await budget(log).reserve(20_001)
    assert await budget(log).reserve(20_000)
    assert not await budget(log, a_day=100).reserve(101)
    assert await budget(log, a_day=100).reserve(100)
    assert await budget(log, a_day=0).reserve(0)


async def test_recorded_spending_of_every_process_counts_for_its_day(log: StoppableLog) -> None:
    await append(log, turn(TODAY, 100), summary(TODAY - 1, 10**9), summary(TODAY, 5_000))
    mine = budget(log)
    assert not await mine.reserve(15_001)
    assert await mine.reserve(15_000)
    await append(log, summary(TODAY, 15_000))
    mine.release(15_000)
    assert not await mine.reserve(1)
    assert not await budget(log).reserve(1)


@given(
    st.lists(st.tuples(st.integers(1, 9_000), st.integers(1, 9_000), st.sampled_from(["logged", "lost", "unspent"])))
)
def test_spending_never_exceeds_the_budget(requests: list[tuple[int, int, str]]) -> None:
    async def main() -> None:
        log = StoppableLog()
        await append(log, turn(TODAY, 100))
        mine, spent = budget(log), 0
        for estimate, cost, end in requests:
            if not await mine.reserve(estimate):
                assert spent + estimate > 20_000
                continue
            if end == "unspent":
                mine.release(estimate)
                continue
            cost = min(cost, estimate)
            spent += cost
            mine.release(estimate - cost)
            if end == "logged":
                await append(log, summary(TODAY, cost))
                mine.release(cost)
            else:
                mine.charge(cost)
        assert spent <= 20_000

    trio.run(main)


async def test_concurrent_reservations_do_not_share_the_same_money(log: StoppableLog) -> None:
    await append(log, turn(TODAY, 100))
    mine = budget(log)
    results: list[bool] = []

    async def ask() -> None:
        results.append(await mine.reserve(15_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
    assert sorted(results) == [False, True]


async def test_spending_recorded_during_a_read_is_not_reserved_again(log: StoppableLog) -> None:
    await append(log, turn(TODAY, 100))
    mine = budget(log)
    assert await mine.reserve(15_000)

    class Late(LoggedSpending):
        """Its answer is from before; when it arrives, the summary is recorded."""

        async def on_day(self, day: int) -> DaySpending:
            found = await super().on_day(day)
            await append(log, summary(TODAY, 15_000))
            mine.release(15_000)
            return found

    mine.spending = Late(log)
    assert not await mine.reserve(15_000)


async def test_recorded_and_unrecorded_spending_counts_for_its_day_only(log: StoppableLog) -> None:
    await append(log, turn(TODAY, 100), summary(TODAY, 5_000), turn(TODAY + DAY, 100))
    now = [TODAY]
    mine = HelperBudget(LoggedSpending(log), Budget(1_000_000, 0.05), lambda: now[0])
    assert await mine.reserve(15_000)
    mine.charge(15_000)
    assert not await mine.reserve(1)
    now[0] += DAY
    assert await mine.reserve(20_000)
