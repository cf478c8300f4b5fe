r"""How the golden logs were made: ``python -m campaigns.golden.make NAME`` plays one through the real proxy.

Relay, actors and PostgreSQL are the server's own, in this process, in front of the strict scripted provider. Time
and salt are fixed, so a replayed scene has the same contents; only the order in which a session and its worker write
may differ. An existing log is never made again, because it documents the version that wrote it.
"""

import base64
import json
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from campaigns.golden.archived import DatabaseLog, archive_of
from campaigns.golden.scenes import SCENES
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.projections.catalog import ALL
from tests.golden.sessions import LOGS, found_in, opened
from tests.http.managing import Json
from tests.projections.support import rebuilt_dump


async def play(name: str) -> None:
    """Play a scene and write its log. Raises FileExistsError if the log exists."""
    folder = LOGS / name
    with tempfile.TemporaryDirectory(prefix="mnemosyne-golden-") as data_dir:
        async with open_embedded(Path(data_dir)) as server:
            database = Database(server.dsn)
            try:
                await database.prepare()
                log = DatabaseLog(database)
                await SCENES[name](log)
                folder.mkdir()
                await write(folder, database, log)
            finally:
                database.close()
    kept = opened(folder)
    assert await found_in(kept) == json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for projection in ALL:
        _write_lines(folder / f"{projection.name}.jsonl", await rebuilt_dump(kept.log, projection))


async def write(folder: Path, database: Database, log: DatabaseLog) -> None:
    """The events and contents of the database, and everything that can be rebuilt from them."""
    events = await database.run(
        _rows, "originator_id, topic, state from mnemosyne.stored_events order by notification_id"
    )
    held = await database.run(_rows, "stream, digest from mnemosyne.content where data is not null order by 1, 2")
    _write_lines(
        folder / "events.jsonl",
        [_compact({"stream": str(stream), "name": name, "state": json.loads(state)}) for stream, name, state in events],
    )
    lines = []
    for stream, digest in held:
        data = (await log.fetch(stream, [digest]))[digest]
        packed = base64.b64encode(zlib.compress(data, 9)).decode()
        lines.append(_compact({"stream": str(stream), "digest": digest.hex(), "data": packed}))
    _write_lines(folder / "contents.jsonl", lines)
    found = await found_in(archive_of(log, log))
    (folder / "expected.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _rows(connection: Any, query: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = connection.execute(f"select {query}".encode()).fetchall()
    return found


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    trio.run(play, sys.argv[1])
