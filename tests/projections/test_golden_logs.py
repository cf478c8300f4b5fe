"""Old logs are rebuilt to the same rows by every version.

Each golden log (`tests/golden/sessions.py`) is stored with the rows that each projection makes of it (`NAME.jsonl`). A
log never changes. If a projection is changed on purpose, increase its version and regenerate its rows: delete the file,
and the failing test writes it.
"""

from pathlib import Path

import pytest

from mnemosyne.projections.catalog import ALL
from tests.golden.sessions import CODEC, EACH_IN_A_DATABASE, FOLDERS, appends
from tests.plain.log import PlainLog
from tests.projections.support import POSTGRES, dump_of, open_world, rebuilt_dump


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_a_log_of_any_version_is_rebuilt_to_the_same_rows(folder: Path) -> None:
    log = PlainLog(CODEC)
    for append in appends(folder):
        log.submit(append)
    for projection in ALL:
        dump = "".join(f"{line}\n" for line in await rebuilt_dump(log, projection))
        golden = folder / f"{projection.name}.jsonl"
        if not golden.exists():
            golden.write_text(dump, encoding="utf-8")
            pytest.fail(f"{golden} was not there and is now; look at it")
        assert dump == golden.read_text(encoding="utf-8"), projection.name


@EACH_IN_A_DATABASE
async def test_a_database_holds_the_same_rows(folder: Path, dsn: str) -> None:
    async with open_world(POSTGRES, dsn, CODEC) as world:
        for append in appends(folder):
            ticket = world.journal.submit(append)
            if append.expected % 10 == 0:
                await ticket.durable()
                for projection in ALL:
                    await world.projector(projection).catch_up()
        await ticket.durable()
        for projection in ALL:
            await world.projector(projection).catch_up()
            dump = await dump_of(world.store, projection)
            assert dump == (folder / f"{projection.name}.jsonl").read_text(encoding="utf-8").splitlines()
