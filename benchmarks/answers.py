"""How often memory holds the answer to a question about a recorded session.

``data/questions.json`` has the questions: a large language model read the sessions and wrote each with its answer, a
short quotation from a message, before the code that is measured here. *Paraphrased* questions share no telling word
with their answer; *foreign* ones are about something else. Each session is played through the real actor into a log in
PostgreSQL, with its index; the questions are asked as ``mnemosyne ask`` asks them.
"""

import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.retrieval import searchers
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.ports import ContentStore, EventLog, Journal
from mnemosyne.domain.recall.object_search import MOST_LOOKED_AT, Filter
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.domain.recall.sources import Announcements, list_sources
from mnemosyne.domain.session.directory import Directory, stream_of
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.tools.memory_tools import ANSWER_TOKENS
from mnemosyne.domain.wire.reply import ReplyBuilder
from mnemosyne.services import asking, memories
from tests.adapters.indexing import Indexed, indexing
from tests.domain.recorded import DATA
from tests.services.talking import body, talking, user

QUESTIONS = Path(__file__).parent / "data" / "questions.json"
SPLITS = ("development", "held out")
FIRST = 3
"""The first objects of the index among which the right one is expected."""

SENT, SHOWN = "sent to a helper", "returned, or among the nearest"

_NAME_STANDS = 200
"""A session's name is within this many first characters of its line."""


@attrs.frozen
class Archive:
    """The log in the database (``services.sessions.Archive``)."""

    events: EventLog[Event]
    contents: ContentStore
    journal: Journal
    directory: Directory


@attrs.define
class Asked:
    """The questions of one kind: how many there are, and how many have each outcome."""

    count: int = 0
    outcomes: dict[str, int] = attrs.field(factory=lambda: defaultdict(int))


def labels() -> Sequence[Mapping[str, Any]]:
    """The sessions with their questions."""
    sessions: Sequence[Mapping[str, Any]] = json.loads(QUESTIONS.read_text(encoding="utf-8"))["sessions"]
    return sessions


def recordings(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The recorded sessions of these names."""
    for path in sorted((DATA / "sessions").glob("**/*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if any(f'"{name}"' in line[:_NAME_STANDS] for name in names):
                    yield json.loads(line)


async def play(indexed: Indexed, recorded: Mapping[str, Any]) -> None:
    """Play a session, and a last request after it, in which its last reply is history."""
    messages, system = recorded["messages"], recorded["system"] or "You are an agent."
    async with talking(name=recorded["name"]) as talk:
        for turn in recorded["turns"]:
            address = await talk.ask(body(messages[: turn["msg"]], system=system), reply=None)
            reply = ReplyBuilder()
            reply.take_raw(json.dumps({"id": f"msg_{turn['msg']}", **messages[turn["msg"]]}).encode())
            reply.end_raw()
            await talk.finish_with(address, reply.result())
        if messages[-1]["role"] == "assistant" and '"tool_use"' not in json.dumps(messages[-1]):
            await talk.ask(body([*messages, user("Something else now.")], system=system))
    await indexed.copy(talk.archive.log, talk.stream)


@asynccontextmanager
async def indexed_sessions(sessions: Iterable[Mapping[str, Any]], embedder: Embedder | None) -> AsyncIterator[Indexed]:
    """Recorded sessions in a database, with their index."""
    with TemporaryDirectory(prefix="mnemosyne-benchmark-") as folder:
        async with open_embedded(Path(folder)) as server, indexing(server.dsn, embedder) as indexed:
            for each in sessions:
                await play(indexed, each)
            await indexed.catch_up()
            if embedder is None:
                indexed.index = PostgresObjectIndex(indexed.database, no_embedder)
            yield indexed


async def no_embedder() -> None:
    """The index has words only."""


async def measure(variant: str, embedder: Embedder | None, sessions: Sequence[Mapping[str, Any]]) -> list[Row]:
    """All rows with one embedder."""
    asked: dict[tuple[str, str], Asked] = defaultdict(Asked)
    taken: list[float] = []
    tokens: dict[str, list[float]] = defaultdict(list)
    async with indexed_sessions(recordings([each["name"] for each in sessions]), embedder) as indexed:
        archive = Archive(
            indexed.events, indexed.contents, indexed.journal, PostgresDirectory(indexed.database, indexed.events)
        )
        for session in sessions:
            stream = stream_of("local", session["name"])
            memory = memories.fold(await archive.events.read(stream)).memory
            foreign = [{"kind": "foreign", "question": each, "gold": None} for each in session["foreign"]]
            for question in (*session["questions"], *foreign):
                row = asked[session["split"], question["kind"]]
                row.count += 1
                texts, milliseconds = await outcomes(archive, indexed, stream, memory, question["question"])
                taken.append(milliseconds)
                for outcome, text in texts.items():
                    holds = bool(text) if question["gold"] is None else plain(question["gold"]) in plain(text)
                    row.outcomes[outcome] += holds
                for outcome in (SENT, SHOWN):
                    tokens[outcome].append(Estimator.of(None).tokens(features_of_text(texts[outcome])))
    rows = [
        single(f"{split}, {kind}, {outcome}, of {row.count}", variant, "", held)
        for (split, kind), row in sorted(asked.items())
        for outcome, held in row.outcomes.items()
        if kind != "foreign" or outcome == "returned as an answer"
    ]
    rows += [spread(f"a question, {outcome}", variant, "tokens", each) for outcome, each in tokens.items()]
    return [*rows, spread("an answer without a helper", variant, "ms", taken)] if taken else []


async def outcomes(
    archive: Archive, indexed: Indexed, stream: UUID, memory: Memory, question: str
) -> tuple[Mapping[str, str], float]:
    """What each step holds for a question, and how long an answer without a helper takes in milliseconds."""
    announcements, searched = Announcements(memory.objects.values()), Filter().choose(memory)
    found = await indexed.index.search(stream, question, searched, MOST_LOOKED_AT, 0.0)
    first = list_sources(found.hits, memory.objects, announcements)[:FIRST]
    began = time.perf_counter()
    answer = await asking.ask(archive, indexed.index, stream, question, Filter(), ANSWER_TOKENS)
    milliseconds = 1e3 * (time.perf_counter() - began)
    sent: list[str] = []

    async def compose(asked: HelperQuestion) -> None:
        sent.extend(each.text for each in asked.passages)

    await asking.ask(archive, indexed.index, stream, question, Filter(), ANSWER_TOKENS, compose)
    texts = [full_text(await memories.content_of(archive, stream, each)) for each in first]
    return {
        f"among the first {FIRST} objects": "\n".join(texts),
        SENT: "\n".join(sent),
        "returned as an answer": "\n".join(each.quote.text for each in answer.cited),
        SHOWN: "\n".join(each.quote.text for each in answer.cited or answer.nearest),
    }, milliseconds


def plain(text: str) -> str:
    """The text with single spaces."""
    return " ".join(text.split())


def questions(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Questions whose answer is found, sent to a helper, and returned without one; by words alone and by meaning."""
    sessions = labels() if (DATA / "sessions").is_dir() else []
    chosen = [each for each in sessions if each["name"].startswith("tau")][:1] if quick else sessions
    rows: list[Row] = []
    for variant, embedder in searchers()[: 1 if quick else None]:
        rows += trio.run(measure, variant, embedder, chosen)
    return rows


GROUP = Group("answers", (), (Part("questions", questions),), by_default=False)
