"""How often ``mnemosyne search --file`` finds the right message, and how long the object index takes.

The first is measured with ``dialogues.jsonl``: two invented conversations in one file, with 50 questions and the
messages that answer them; and in ``benchmarks.locomo`` with a public set. Questions about agent sessions are in
``benchmarks.answers``.
"""

import json
from collections.abc import Collection, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import trio

from benchmarks import object_index
from benchmarks.harness import Group, Row, Server, single
from benchmarks.history import QUICK_KIND, history
from benchmarks.recordings import FIRST, list_raw, result_text
from mnemosyne.adapters.embedding.conversation_index import index_conversation
from mnemosyne.adapters.embedding.embedder import MiniLM
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.services.conversation_files import ConversationLine
from tests.adapters import model_cache

SHORTEST_OBJECT = 200
DIALOGUES = Path(__file__).with_name("data") / "dialogues.jsonl"


@cache
def model() -> MiniLM | None:
    """The model, if its wheel is in the cache, where the tests put it."""
    if not list(model_cache.FOLDER.glob("*.whl")):
        return None
    return MiniLM(model_cache.installed_model(), threads=2)


def searchers() -> list[tuple[str, MiniLM | None]]:
    """The searchers of a conversation: words alone, and with the model if there is one."""
    embedder = model()
    return [("words alone", None), *([] if embedder is None else [(f"words, {embedder.name}", embedder)])]


async def find_ranks(
    lines: Sequence[ConversationLine], asked: Sequence[tuple[str, Collection[object]]], embedder: Embedder | None
) -> list[list[int]]:
    """The ranks (from 1) of the messages that answer each question, in order."""
    index = await index_conversation(lines, embedder, lambda done, total: None)
    found = await index.search([question for question, _ in asked], len(lines), lambda done, total: None)
    return [
        [rank for rank, hit in enumerate(hits, 1) if hit.key in right]
        for (_, right), hits in zip(asked, found, strict=True)
    ]


def conversations(servers: Sequence[Server], quick: bool) -> list[Row]:
    """How often the first of the messages that answer a question is among the first ones found."""
    told = [json.loads(line) for line in DIALOGUES.read_text(encoding="utf-8").splitlines()]
    lines = [ConversationLine(**message) for each in told for message in each["messages"]]
    asked = [(question["text"], question["right"]) for each in told for question in each["questions"]]
    rows: list[Row] = []
    for name, embedder in searchers():
        ranks = np.array([found[0] for found in trio.run(find_ranks, lines, asked, embedder)], dtype=float)
        for measure, each in {"hit@1": ranks == 1, "hit@5": ranks <= 5, "MRR": 1 / ranks}.items():
            rows.append(single(f"messages, {measure}, {len(ranks)} questions", name, "", float(np.mean(each))))
    return rows


def index(servers: Sequence[Server], quick: bool) -> list[Row]:
    """The object index in PostgreSQL, filled with tool results of the recorded sessions, or of a made-up one."""
    sessions = islice(list_raw(FIRST), 1 if quick else None)
    messages = [message for session in sessions for message in session["messages"]] or history(QUICK_KIND).messages
    recorded = [block for message in messages for block in content_blocks(message["content"])]
    results = [result_text(each) for each in recorded if each["type"] == "tool_result"]
    said = [each["text"] for each in recorded if each["type"] == "text"]
    texts = [each for each in results if len(each) >= SHORTEST_OBJECT]
    return trio.run(object_index.measure, texts, said, quick)


GROUP = Group("retrieval", (), {"conversations": conversations, "index": index})
