"""Logs that were written once are rebuilt for ever, to the same rows.

Each folder of `tests/golden/logs` holds a log (`events.jsonl`: the stored name and state of each event, as some version
wrote them) and what each projection makes of it (`NAME.jsonl`). A log is never changed. If a projection is changed on
purpose, its version is raised and its rows are made anew: remove the file, and the test that fails writes it.
"""

import json
from pathlib import Path
from uuid import UUID

import pytest

from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append
from mnemosyne.projections import ALL
from mnemosyne.projections.projection import Projection
from tests.projections.support import POSTGRES, dump_of, open_world, rebuilt_dump

LOGS = Path(__file__).parents[1] / "golden/logs"
FOLDERS = sorted(LOGS.iterdir())
CODEC = event_codec()


def appends(folder: Path) -> list[Append]:
    """The log, decoded by today's code."""
    versions: dict[UUID, int] = {}
    found = []
    for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines():
        stored = json.loads(line)
        stream = UUID(stored["stream"])
        envelope = CODEC.decode(stored["name"], json.dumps(stored["state"]).encode())
        found.append(Append(stream, versions.get(stream, 0), (envelope,)))
        versions[stream] = versions.get(stream, 0) + 1
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("projection", ALL, ids=lambda projection: projection.name)
async def test_a_log_of_any_version_is_rebuilt_to_the_rows_that_it_always_had(
    projection: Projection, folder: Path
) -> None:
    log = PlainLog(CODEC)
    for append in appends(folder):
        log.submit(append)
    dump = "".join(f"{line}\n" for line in await rebuilt_dump(log, projection))
    golden = folder / f"{projection.name}.jsonl"
    if not golden.exists():
        golden.write_text(dump, encoding="utf-8")
        pytest.fail(f"{golden} was not there and is now; look at it")
    assert dump == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("projection", ALL, ids=lambda projection: projection.name)
async def test_a_database_holds_the_same_rows(projection: Projection, folder: Path, dsn: str) -> None:
    async with open_world(POSTGRES, dsn, CODEC) as world:
        for append in appends(folder):
            await world.journal.append(append)
            if append.expected % 5 == 0:
                await world.projector(projection).catch_up()
        await world.projector(projection).catch_up()
        dump = await dump_of(world.store, projection)
    assert dump == (folder / f"{projection.name}.jsonl").read_text(encoding="utf-8").splitlines()
