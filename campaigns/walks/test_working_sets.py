"""The rows of each context equal the state, whatever a client of a managed session does."""

from mnemosyne.domain.objects.events import ObjectDegraded
from tests.adapters.log_support import open_database
from tests.http.managing import Client, Json, Stage, open_stage, text, think
from tests.http.test_epochs import MINUTES, Clock, answer, client_of, epochs_of, read, reads, restore, results_of
from tests.projections.test_working_set import check
from tests.services.talking import Plain


async def test_the_rows_equal_the_state_whatever_the_client_does(dsn: str) -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage, open_database(dsn) as database:
        snapshots: list[dict[str, dict[str, int]]] = []

        async def record_snapshot() -> None:
            shown = await check(Plain(stage.log), database)
            snapshots.append(
                {
                    branch: {each.object.id: each.fidelity.value for each in standings if each.object.places}
                    for branch, (_, standings) in shown.items()
                }
            )

        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 30)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 2, first=30)
        await record_snapshot()
        gone = next(each.object for each in await stage.events() if isinstance(each, ObjectDegraded))
        before_restore = list(client.history)
        message = await restored(stage, client, message, gone)
        await record_snapshot()
        after_restore = list(client.history)
        client.history = before_restore
        await diverge(stage, client)  # a fork that never had it restored
        await record_snapshot()
        assert (snapshots[-1]["main"][gone], snapshots[-1]["fork-1"][gone]) == (0, 4)
        client.history = after_restore
        message = await reads(client, stage, message, 6, first=40)
        clock.now += 60 * MINUTES
        message = await reads(client, stage, message, 2, first=46)  # a compaction puts it back in its place
        assert [each.branch for each in await epochs_of(stage)].count("main") == 2
        client.history.pop()
        client.history.pop()
        await diverge(stage, client)  # a fork after that has it
        await record_snapshot()
        whole = client.history
        client.history = after_restore[:10]
        await diverge(stage, client)  # so does one from before, since it is rendered from what it inherits
        await record_snapshot()
        client.history = whole
        client.headers = {"x-mnemosyne-mode": "off"}
        message = await reads(client, stage, client.history[-1], 2, first=60)
        await record_snapshot()
        assert len(snapshots[-1]) == 4
        assert sum(not any(levels.values()) for levels in snapshots[-1].values()) == 1
        await client.send()
        await reads(client, stage, message, 1, first=70)
        await record_snapshot()


async def diverge(stage: Stage, client: Client) -> Json:
    answer(stage, [think(), read("/src/other.py")])
    return await client.turn(*results_of(client.history[-1]), text("No. Something else."))


async def restored(stage: Stage, client: Client, message: Json, object_id: str) -> Json:
    answer(stage, [think(), restore(object_id)], [think(), read("/src/more.py")])
    return await client.turn(*results_of(message))
