"""The costs of a day are those in the log, of every process."""

import attrs

from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresSpending
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session import decision_inputs
from mnemosyne.domain.session.budget import DAY, DaySpending
from tests.actors.summaries import worked
from tests.actors.test_budget import TODAY, summary, turn
from tests.adapters.log_support import stream
from tests.projections.support import POSTGRES, World, open_world

UNKNOWN_MODEL = attrs.evolve(turn(TODAY, 10**6), model="somebody-else-s")


async def record(world: World, number: int, *events: object) -> None:
    version = len(await world.log.read(stream(number)))
    await world.journal.append(Append(stream(number), version, tuple(Envelope(event, "c") for event in events)))


async def test_the_costs_of_a_day_are_added_over_sessions(dsn: str) -> None:
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        spending = PostgresSpending(world.database, PostgresEventLog(world.database, event_codec()))
        assert await spending.on_day(5) == DaySpending(5)
        await record(world, 1, turn(TODAY, 100), UNKNOWN_MODEL, summary(TODAY + DAY - 1, 7), turn(TODAY - 1, 9))
        await record(world, 2, turn(TODAY, 1), summary(TODAY, 3))
        assert await spending.on_day(5) == DaySpending(5, turns=404_000, helpers=10)
        assert await spending.on_day(4) == DaySpending(4, turns=36_000)


async def test_costs_of_other_processes_count_at_once(dsn: str) -> None:
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        own, theirs = (
            PostgresSpending(world.database, PostgresEventLog(world.database, event_codec())) for _ in range(2)
        )
        await record(world, 1, turn(TODAY, 100))
        assert (await theirs.on_day(5)).helpers == 0
        await record(world, 1, summary(TODAY, 5_000))
        assert (await own.on_day(5)).helpers == (await theirs.on_day(5)).helpers == 5_000


async def test_the_last_accepted_answer_is_found_by_its_key(dsn: str) -> None:
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        spending = PostgresSpending(world.database, PostgresEventLog(world.database, event_codec()))
        accepted = worked("o", at=TODAY, record='{"n": 1}')
        rejected = attrs.evolve(accepted, record="", rejected=("it is empty",))
        events = [decision_inputs.decide(each)[0] for each in (accepted, rejected)]
        await record(world, 1, *events)
        assert await spending.find(b"k" * 32) == '{"n": 1}'
        assert await spending.find(b"other") is None
        assert (await spending.on_day(5)).helpers == 10
        await record(world, 2, decision_inputs.decide(attrs.evolve(accepted, record='{"n": 2}'))[0])
        assert await spending.find(b"k" * 32) == '{"n": 2}'


async def test_an_unprocessable_event_is_skipped(dsn: str) -> None:
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        await record(world, 1, turn(TODAY, 100), summary(TODAY, 2**63))
        spent = await PostgresSpending(world.database, PostgresEventLog(world.database, event_codec())).on_day(5)
        assert (spent.turns, spent.helpers) == (400_000, 0)
