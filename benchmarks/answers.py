"""How often memory holds the answer to a question about a recorded session.

``data/questions.json`` has the questions and says who wrote them. *Paraphrased* ones share no telling word with their
answer, a short quotation; *foreign* ones are about something else. Each session is played through the real actor into a
log in PostgreSQL, with its index; the questions are asked as ``mnemosyne ask`` asks them. A scripted helper that is not
sent the answer names the question's ``look_for``.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import attrs
import trio

from benchmarks.harness import Group, Row, Server, single, spread
from benchmarks.recordings import ALL, SESSIONS, list_raw
from benchmarks.replies import reply_in_one
from benchmarks.retrieval import searchers
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.app.storage import Storage, storage_of
from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.helper.answer import HelperQuestion, LookAgain
from mnemosyne.domain.objects.full_text import full_text
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall.object_search import MOST_LOOKED_AT, Filter
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.domain.recall.sources import list_sources
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.services import asking, memories
from tests.adapters.indexing import Indexed, always, indexing
from tests.services.talking import body, talking, user

QUESTIONS = Path(__file__).parent / "data" / "questions.json"
FIRST = 3
"""The first objects of the index among which the right one is expected."""

FOUND, SENT, AGAIN = f"among the first {FIRST} objects", "sent to a helper", "sent to it in two looks"
ANSWER, SHOWN = "returned as an answer", "returned, or among the nearest"
OUTCOMES = (FOUND, SENT, AGAIN, ANSWER, SHOWN)


async def play(indexed: Indexed, recorded: Mapping[str, Any]) -> None:
    """Play a session, and a last request after it, in which its last reply is history."""
    messages, system = recorded["messages"], recorded["system"] or "You are an agent."
    async with talking(name=recorded["name"]) as talk:
        for turn in recorded["turns"]:
            address = await talk.ask(body(messages[: turn["msg"]], system=system), reply=None)
            await talk.finish_with(address, reply_in_one(messages[turn["msg"]], turn["msg"]))
        if messages[-1]["role"] == "assistant" and '"tool_use"' not in json.dumps(messages[-1]):
            await talk.ask(body([*messages, user("Something else now.")], system=system))
    await indexed.copy(talk.archive.log, talk.stream)


@asynccontextmanager
async def indexed_sessions(
    sessions: Iterable[Mapping[str, Any]], embedder: Embedder | None
) -> AsyncIterator[tuple[Storage, PostgresObjectIndex]]:
    """Recorded sessions in a database, with their index."""
    with TemporaryDirectory(prefix="mnemosyne-benchmark-") as folder:
        async with open_embedded(Path(folder)) as server, indexing(server.dsn, embedder) as indexed:
            for each in sessions:
                await play(indexed, each)
            await indexed.catch_up()
            index = indexed.index if embedder else PostgresObjectIndex(indexed.database, always(None))
            yield attrs.evolve(storage_of(indexed.database, "local"), journal=indexed.journal), index


async def measure(variant: str, embedder: Embedder | None, sessions: Sequence[Mapping[str, Any]]) -> list[Row]:
    """All rows with one embedder."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    taken: list[float] = []
    tokens: dict[str, list[float]] = {SENT: [], AGAIN: [], SHOWN: []}
    async with indexed_sessions(list_raw(ALL, names=[each["name"] for each in sessions]), embedder) as (archive, index):
        for session in sessions:
            stream = stream_of("local", session["name"])
            memory = memories.fold(await archive.events.read(stream)).memory
            foreign = [{"kind": "foreign", "question": each, "gold": None} for each in session["foreign"]]
            for question in (*session["questions"], *foreign):
                texts, milliseconds = await outcomes(archive, index, stream, memory, question)
                taken.append(milliseconds)
                count = counts[session["split"], question["kind"]]
                count[ALL] += 1
                for outcome, text in texts.items():
                    count[outcome] += bool(text) if question["gold"] is None else plain(question["gold"]) in plain(text)
                for outcome, each in tokens.items():
                    each.append(Estimator.of(None).tokens(features_of_text(texts[outcome])))
    rows = [
        single(f"{split}, {kind}, {outcome}, of {count[ALL]}", variant, "", count[outcome])
        for (split, kind), count in sorted(counts.items())
        for outcome in (OUTCOMES if kind != "foreign" else (ANSWER,))
    ]
    rows += [spread(f"a question, {outcome}", variant, "tokens", each) for outcome, each in tokens.items() if each]
    return [*rows, spread("an answer without a helper", variant, "ms", taken)] if taken else []


async def outcomes(
    archive: Storage, index: PostgresObjectIndex, stream: UUID, memory: Memory, labelled: Mapping[str, Any]
) -> tuple[Mapping[str, str], float]:
    """What each step holds for a question, and how long an answer without a helper takes in milliseconds."""
    question, gold = labelled["question"], labelled["gold"]
    hits = (await index.search(stream, question, Filter().choose(memory), MOST_LOOKED_AT, 0.0)).hits
    first = list_sources(hits, memory.objects)[:FIRST]
    began = time.perf_counter()
    answer = await asking.ask(archive, index, stream, question, Filter(), None)
    milliseconds = 1e3 * (time.perf_counter() - began)
    sent: list[str] = []

    async def compose(asked: HelperQuestion) -> HelperAnswer | None:
        sent.append("\n".join(each.text for each in asked.passages))
        if asked.look_for or gold is None or plain(gold) in plain(sent[0]):
            return None
        return LookAgain(helper="scripted", look_for=labelled["look_for"])

    await asking.ask(archive, index, stream, question, Filter(), None, compose)
    return {
        FOUND: "\n".join([full_text(await memories.content_of(archive, stream, each)) for each in first]),
        SENT: "".join(sent[:1]),
        AGAIN: "\n".join(sent),
        ANSWER: "\n".join(each.quote.text for each in answer.cited),
        SHOWN: "\n".join(each.quote.text for each in answer.cited or answer.nearest),
    }, milliseconds


def plain(text: str) -> str:
    """The text with single spaces."""
    return " ".join(text.split())


def questions(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Questions whose answer is found, sent to a helper, and returned without one; by words alone and by meaning."""
    sessions = json.loads(QUESTIONS.read_text(encoding="utf-8"))["sessions"] if SESSIONS.is_dir() else []
    chosen = [each for each in sessions if each["name"].startswith("tau")][:1] if quick else sessions
    tried = searchers()[: 1 if quick else None]
    return [row for variant, embedder in tried for row in trio.run(measure, variant, embedder, chosen)]


GROUP = Group("answers", (), {"questions": questions}, by_default=False)
