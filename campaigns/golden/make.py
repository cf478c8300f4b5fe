"""How the golden logs were made: ``python -m campaigns.golden.make NAME`` plays a scene through the real proxy.

Relay and actors are the server's own, in this process, on a log in memory, in front of the strict scripted provider.
Time and salt are fixed, so a replayed scene has the same contents; only the order in which a session and its worker
write may differ. An existing log is never made again, because it documents the version that wrote it; a new event
needs a scene that records it.
"""

import base64
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import trio

from mnemosyne.projections.catalog import ALL
from mnemosyne_lab.provider.server import open_standin
from tests.actors.summaries import long_text
from tests.actors.support import StoppableLog
from tests.golden.sessions import LOGS, found_in, opened
from tests.http.evicting import Index
from tests.http.managing import Client, Json, bare_stage, model_says, script, text, think
from tests.http.test_epochs import MINUTES, Clock
from tests.plain.archive import MemoryArchive
from tests.projections.support import rebuilt_dump


async def play_scene(log: StoppableLog) -> None:
    """A small conversation waits for its memory tools, which are added after a break: the scene of the logs ``waited``,
    ``betas``, ``measured`` and ``by-model``, each played by the version that wrote it.
    """
    clock = Clock()
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        bare_stage(standin=standin, log=log, clock=clock, index=Index(log), manages_small=False) as stage,
    ):
        standin.script = script({"replies": [model_says(think(), text(f"Answer {number}.")) for number in range(3)]})
        client = Client(stage.url)
        await client.turn(text("Look."))
        clock.now += 10 * MINUTES
        await client.turn(text(long_text("parser", 80_000)))
        await client.turn(text("Thanks."))
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # memory tools added
        assert [len(each.json()["tools"]) > len(client.tools) for each in standin.messages] == [False, True, True]


async def play(folder: Path) -> None:
    """Play the scene and write its log. Raises FileExistsError if the log exists."""
    log = StoppableLog()
    await play_scene(log)
    folder.mkdir()  # noqa: ASYNC240 - nothing waits for it
    await write(folder, log)
    kept = opened(folder)
    assert await found_in(kept) == json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for projection in ALL:
        _write_lines(folder / f"{projection.name}.jsonl", await rebuilt_dump(kept.log, projection))


async def write(folder: Path, log: StoppableLog) -> None:
    """The events and contents, and everything that can be rebuilt from them."""
    events = log._table.select_notifications(start=1, limit=len(log._events))
    _write_lines(
        folder / "events.jsonl",
        [
            _compact({"stream": str(each.originator_id), "name": each.topic, "state": json.loads(each.state)})
            for each in events
        ],
    )
    lines = []
    for stream in sorted(await log.streams(), key=str):
        for digest, data in sorted(log.held_by(stream).items()):
            packed = base64.b64encode(zlib.compress(data, 9)).decode()
            lines.append(_compact({"stream": str(stream), "digest": digest.hex(), "data": packed}))
    _write_lines(folder / "contents.jsonl", lines)
    found = await found_in(MemoryArchive(log))
    (folder / "expected.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    trio.run(play, LOGS / sys.argv[1])
