"""How the golden logs came to be: ``python -m tests.golden.make NAME`` plays one through the real proxy.

Everything is the server's own (relay, actors, curator, PostgreSQL), in this process, in front of the strict stand-in.
Time and salt are made up, so a scene that is played again has the same contents; in which order a session and its
curator write is left to them. A log that is there is never made again: it is what the version of its day wrote.
"""

import base64
import json
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.patience import USUAL
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.plain.directory import PlainDirectory
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import Committed, EncodedAppend, GroupJournal, JournalLimits
from mnemosyne.domain.objects.decide import Pin
from mnemosyne.domain.objects.events import ObjectCreated, ObjectDegraded
from mnemosyne.domain.ports import Journal, Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne.domain.window.planning import WINDOW
from mnemosyne.lab.provider.server import open_standin
from mnemosyne.projections.catalog import ALL
from mnemosyne.services import memories
from mnemosyne.services.forgetting import forget
from tests.actors.curating import Curated, long_text, open_curator
from tests.actors.support import PATIENT, StoppableLog, open_process
from tests.golden.sessions import CODEC, LOGS, found_in, opened
from tests.http.managing import Client, Json, Stage, open_stage, recall, said, script, text, think
from tests.http.proxying import open_proxy
from tests.http.raw_client import exchange
from tests.http.test_bringing import DECIDED, RECALL, Index, result
from tests.http.test_epochs import (
    MINUTES,
    SMALL,
    Clock,
    answer,
    client_of,
    edit,
    epochs_of,
    read,
    results_of,
    run,
    violations,
)
from tests.projections.support import rebuilt_dump

CREDENTIAL = "made-up-token-0123456789"
LINES = 40
"""How long a file is that an agent reads."""


class DatabaseLog(StoppableLog):
    """The log in PostgreSQL, which can hang as one in memory does."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._held = PostgresEventLog(database, CODEC)
        self._held_contents = PostgresContentStore(database)

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        await self.flowing.wait()
        return await self._held.commit(batch)

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        return await self._held.read(stream, after=after, upto=upto)

    async def pick(self, stream: UUID, versions: Collection[int]) -> Sequence[Recorded[Event]]:
        return await self._held.pick(stream, versions)

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[Event]]:
        return await self._held.tail(after=after, limit=limit)

    async def streams(self) -> Sequence[UUID]:
        return await self._held.streams()

    async def sizes(self, stream: UUID | None = None) -> Any:
        return await self._held.sizes(stream)

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return await self._held_contents.fetch(stream, digests)

    async def forget(self, stream: UUID, redacted: Callable[[Any], object]) -> int:
        return await self._held.forget(stream, redacted)


class Archived(NamedTuple):
    """The log of a running server, as a command sees it."""

    events: DatabaseLog
    contents: DatabaseLog
    journal: Journal

    @property
    def directory(self) -> PlainDirectory:
        return PlainDirectory(self.events)


@asynccontextmanager
async def curated_stage(
    log: DatabaseLog, clock: Clock, mode: Mode, window: int
) -> AsyncIterator[tuple[Stage, Curated]]:
    """A provider, a proxy and a curator, on one clock; at the end nothing is owed."""
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_stage(standin=standin, log=log, mode=mode, window=window, clock=clock, index=Index(log)) as stage,
        open_curator(stage.process, log) as curated,
    ):
        yield stage, curated
        await curated.until_owed(0)


async def work(client: Client, stage: Stage, prompt: str, *replies: Sequence[Json], lines: int = LINES) -> Json:
    """The prompt, and every result that is asked for; the model's last reply is the last of these."""
    answer(stage, *replies)
    message = await client.turn(text(prompt))
    while message.get("stop_reason") == "tool_use":
        message = await client.turn(*results_of(message, lines))
    assert "error" not in message, message
    return message


def same(client: Client, **changed: Any) -> Client:
    """Another conversation of the same session."""
    return attrs.evolve(client, **{"history": [], "replies": [], "bodies": [], "headers": {}, **changed})


async def observed(log: DatabaseLog) -> None:
    """An agent whose requests go as they came: tools, attempts, a rewind, an agent, a compaction, a credential."""
    async with curated_stage(log, Clock(), Mode.OBSERVE, WINDOW) as (stage, curated):
        client = client_of(stage)
        loop = [think("I read."), text("Let me see."), read("/src/parser.py")], [think(), edit("/src/parser.py")]
        story = [think(), text(long_text("alpha", 2_400))]
        await work(client, stage, "Mend the parser, and use tabs only.", *loop, [run("make test")], story)
        await work(same(client, tools=[]), stage, "A title for this, please.", [text("Mending the parser")])

        # Another attempt after the provider was busy, and another one after the connection broke.
        stage.standin.script = script({"reply": {"failure": {"status": 529}}})
        await client.turn(text("And the tests?"))
        cut = said(think(), text("They are in tests/."), faults=[{"kind": "cut", "at": 6}])
        stage.standin.script = script({"reply": cut})
        await client.send()
        assert client.replies[-1].cut
        answer(stage, [think(), read("/tests/test_parser.py")], [think(), text("They pass.")])
        message = await client.send()
        client.history.append({"role": "assistant", "content": message["content"]})
        await client.turn(*results_of(message, LINES))

        agent = same(client, headers={"x-claude-code-agent-id": "agent-7"})
        await work(
            agent, stage, "Look for callers.", [think(), run("grep -rn parse")], [think(), text("There are two.")]
        )
        await curated.until_owed(0)

        # The user goes back to before the tests, and says something else.
        del client.history[-4:]
        await work(client, stage, "Rather the lexer.", [think(), read("/src/lexer.py")], [think(), text("It is done.")])

        plain = client.members
        client.members = plain | {"metadata": {"user_id": "u-1", "session_token": CREDENTIAL}}
        await work(client, stage, "Go on with a credential.", [think(), text("I see.")])
        client.members = plain
        dialect = b'{"input":"a request in another dialect","model":"another-model"}'
        await exchange(client.url, body=dialect, headers=client.raw_headers())

        await work(client, stage, "CRITICAL: Respond with TEXT ONLY. Summarize.", [text("The lexer was mended.")])
        client.history = []
        begin = "This session is being continued from a previous conversation that ran out of context. The lexer…"
        await work(client, stage, begin, [think(), read("/src/lexer.py")], [think(), text("I go on.")])
        await work(client, stage, "Thanks.", [think(), text("You are welcome.")])
        assert {each.violation.rule for each in stage.standin.violations} == {"R0"}  # the other dialect


DONE = [think("So that was it."), text("There it is.")]


async def managed(log: DatabaseLog) -> None:
    """An agent in a small window: epochs, summaries, something brought before the model asks, a pin, a cold cache."""
    clock = Clock()
    async with curated_stage(log, clock, Mode.MANAGE, SMALL) as (stage, curated):
        client = client_of(stage)
        await work(client, stage, "Tell me of alpha.", [think(), text(long_text("alpha", 3_000))])
        await filled(client, stage)
        await curated.until_owed(0)
        await ask(client, stage, RECALL, [think(), text("7 retries (UPLOAD_RETRY_LIMIT).")])

        (stream,) = await log.streams()
        file = (await made_of(stage, "Read"))[0]
        decided = Pin(at=next(clock), object=file, reason="it matters", until_turn=None)
        await memories.decide(Archived(log, log, stage.process.journal), stream, lambda _: decided, "a-person")

        clock.now += 24 * 60 * MINUTES  # the user comes back after a day
        await ask(client, stage, "And the proxy?", [think(), read("/src/proxy.py")], DONE)
        await ask(client, stage, "Thanks.", [think(), text("You are welcome.")])
        assert violations(stage) == []
        await stage.rounds()


async def hidden_rounds(log: DatabaseLog) -> None:
    """A model that asks its memory in every way, and tidies up with a cleanup tag; then the client goes back."""
    async with curated_stage(log, Clock(), Mode.MANAGE, SMALL + 6_000) as (stage, curated):
        client = client_of(stage)
        await filled(client, stage)
        await curated.until_owed(0)
        gone = [each.object for each in await stage.events() if isinstance(each, ObjectDegraded)]
        files = await made_of(stage, "Read")
        first = next(each for each in files if each in gone)
        search = hidden("memory_search", query="upload queue retries")
        again = hidden("memory_restore", object_id=first, target="L2", reason="needed")
        release = hidden("memory_release", object_ids=[files[-1]], reason="read")
        rounds = [[think(), text("Let me see."), recall(RECALL)], [think(), search], [think(), again], [release]]
        await ask(
            client, stage, "What of the retries?", *rounds, [think(), recall("and?"), edit("/src/queue.py")], DONE
        )

        tag = "\n".join((OPENING, f"drop: #{files[1]}", f'anchor: #{files[0]} "the plan"', CLOSING, ""))
        await ask(client, stage, "Tidy up.", [think(), text(f"On.\n{tag}")])
        await curated.until_owed(0)

        del client.history[-2:]
        await ask(client, stage, "No. Something else.", [think(), recall("what else?")], DONE)
        assert violations(stage) == []
        await stage.rounds()


async def bypassed(log: DatabaseLog) -> None:
    """A client that goes back to before a rewrite, and is managed until its user turns that off."""
    async with curated_stage(log, Clock(), Mode.MANAGE, SMALL) as (stage, _):
        client = client_of(stage)
        await filled(client, stage)
        del client.history[-4:]
        await ask(client, stage, "No. Something else.", [think(), text("What?")])
        assert violations(stage) == []
        client.headers = {"x-mnemosyne-mode": "off"}
        await ask(client, stage, "And now?", [think(), read("/src/other.py")], DONE)
        await ask(client, stage, "Thanks.", [think(), text("You are welcome.")])
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # our tools left
        await stage.rounds()


def hidden(tool: str, **given: Any) -> Json:
    """A call of a memory tool."""
    return {"type": "tool_use", "name": tool, "input": given}


async def filled(client: Client, stage: Stage) -> None:
    """Files are read until the window was rewritten without the first."""
    await ask(client, stage, "Read the notes.", [think(), read("/docs/notes.md")], DONE)
    await ask(client, stage, "Read the parts.", [think(), read("/src/part_0.py"), read("/src/part_1.py")], DONE)
    assert await epochs_of(stage)


async def made_of(stage: Stage, tool: str) -> list[str]:
    """The ids of what came of a tool of the client's, oldest first."""
    created = [each for each in await stage.events() if isinstance(each, ObjectCreated)]
    return [each.object for each in created if each.source_tool == tool]


async def ask(client: Client, stage: Stage, prompt: str, *replies: Sequence[Json]) -> None:
    """As ``work``, with files that say what was decided."""
    answer(stage, *replies)
    message = await client.turn(text(prompt))
    while message.get("stop_reason") == "tool_use":
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        message = await client.turn(*(result(each, DECIDED) for each in calls))
    assert "error" not in message, message


async def gap_and_forgotten(log: DatabaseLog) -> None:
    """Three sessions: one with turns that nobody could write down, one that was forgotten, one that then went on."""
    clock = Clock()
    sessions = ("with-a-gap", "forgotten", "forgotten-and-on")
    async with small_stage(log, clock) as stage:
        gap, _, on = clients = [attrs.evolve(client_of(stage), session=name) for name in sessions]
        for client in clients:
            file = f"/src/{client.session}.py"
            await work(client, stage, "Read it.", [think(), read(file)], [think(), text("Read.")], lines=20)
            await work(client, stage, "Explain it.", [think(), text(f"It is about {client.session}. " * 20)])

        log.hang()
        before, position = list(gap.history), stage.process.journal.committed.position
        for number in range(3):  # the first fills the queue
            gap.history = list(before)
            await work(gap, stage, f"This is not written down ({number}). " + "It is long. " * 1_500, [text("Yes.")])
        log.flowing.set()
        await stage.process.journal.committed.beyond(position)
        gap.history = before
        await work(gap, stage, "This is written down again.", [text("Yes.")])
        await work(gap, stage, "So is this.", [text("Yes.")])
        streams = dict(zip(sessions, await log.streams(), strict=True))

    async with small_stage(log, clock) as stage:
        archive = Archived(log, log, stage.process.journal)
        for name in sessions[1:]:
            await forget(archive, streams[name], clock.__next__, "a-person")
        on.url = stage.url
        await work(on, stage, "Where were we?", [think(), text("Here.")])
        await work(on, stage, "Read it again.", [think(), read("/src/on.py")], [think(), text("Read.")], lines=20)


@asynccontextmanager
async def small_stage(log: DatabaseLog, clock: Clock) -> AsyncIterator[Stage]:
    """A proxy whose journal has a short queue."""
    async with (
        open_standin(clock=lambda: clock.now / 1e6) as standin,
        open_process(
            log,
            GroupJournal(log, CODEC, JournalLimits(pending_bytes=12_000)),
            clock=clock,
            patience=attrs.evolve(PATIENT, database=USUAL.database),  # one scene has to do without its database
        ) as process,
        open_proxy(standin.url, process.opener, mode=Mode.OBSERVE) as proxy,
    ):
        yield Stage(standin, proxy, log, process)


SCENES = {
    "observed": observed,
    "managed": managed,
    "hidden-rounds": hidden_rounds,
    "bypassed": bypassed,
    "gap-and-forgotten": gap_and_forgotten,
}


async def play(name: str) -> None:
    """Play a scene and write what came of it. Raises FileExistsError if that was done before."""
    folder = LOGS / name
    with tempfile.TemporaryDirectory(prefix="mnemosyne-golden-") as data_dir:
        async with open_embedded(Path(data_dir), application_name="golden") as server:
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
    """The events and contents as the database holds them, and what it can rebuild from them."""
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
    found = await found_in(Archived(log, log, log))
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
