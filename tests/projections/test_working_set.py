"""The working set says of each window what the session's own state says of it."""

from functools import reduce
from uuid import UUID

import psycopg

from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.projections.projector import Projector
from mnemosyne.projections.working_set import WORKING_SET, WORKING_SETS
from tests.adapters.log_support import open_database
from tests.http.managing import Client, Json, Stage, open_stage, text, think
from tests.http.test_epochs import MINUTES, Clock, answer, client_of, epochs_of, read, reads, restore, results_of

Standings = dict[str, dict[str, int]]
"""By branch, the fidelity of each object that has a place in its history."""


async def by_events(stage: Stage) -> Standings:
    state = reduce(evolve, await stage.events(), Session())
    return {
        branch: {each.id: fidelity.value for each, fidelity in state.memory.standings(branch) if each.places}
        for branch in state.branches
    }


def by_rows(dsn: str, stream: UUID, branches: Standings) -> Standings:
    with psycopg.connect(dsn) as connection:
        asked = {
            branch: connection.execute(WORKING_SET.sql.encode(), {"stream": stream, "branch": branch}).fetchall()
            for branch in branches
        }
    return {branch: {row[0]: row[3] for row in rows} for branch, rows in asked.items()}


async def test_the_rows_say_what_the_state_says_wherever_a_client_goes(dsn: str) -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage, open_database(dsn) as database:
        projector = Projector(WORKING_SETS, stage.log, PostgresProjections(database))
        found: list[Standings] = []

        async def look() -> None:
            found.append(await by_events(stage))
            await projector.catch_up()
            (stream,) = await stage.log.streams()
            assert by_rows(dsn, stream, found[-1]) == found[-1]

        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 8)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 2, first=8)
        await look()
        gone = next(each.object for each in await stage.events() if isinstance(each, ObjectDegraded))
        before_restore = list(client.history)
        message = await restored(stage, client, message, gone)
        await look()
        after_restore = list(client.history)
        client.history = before_restore
        await goes_on_otherwise(stage, client)  # a fork that never had it back
        await look()
        assert (found[-1]["main"][gone], found[-1]["fork-1"][gone]) == (0, 4)
        client.history = after_restore
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 2, first=40)  # a rewrite puts it back in its place
        assert [each.branch for each in await epochs_of(stage)].count("main") == 2
        client.history.pop()
        client.history.pop()
        await goes_on_otherwise(stage, client)  # and a fork from there has it
        await look()
        whole = client.history
        client.history = after_restore[:10]
        await goes_on_otherwise(stage, client)  # and one from before, since it is rendered from what it inherits
        await look()
        client.history = whole
        client.headers = {"x-mnemosyne-mode": "off"}
        message = await reads(client, stage, client.history[-1], 2, first=60)
        await look()
        assert len(found[-1]) == 4
        assert sum(not any(levels.values()) for levels in found[-1].values()) == 1
        await client.send()
        await reads(client, stage, message, 1, first=70)
        await look()


async def goes_on_otherwise(stage: Stage, client: Client) -> Json:
    answer(stage, [think(), read("/src/other.py")])
    return await client.turn(*results_of(client.history[-1]), text("No. Something else."))


async def restored(stage: Stage, client: Client, message: Json, object_id: str) -> Json:
    answer(stage, [think(), restore(object_id)], [think(), read("/src/more.py")])
    return await client.turn(*results_of(message))
