"""How often ``mnemosyne search --file`` finds the right message, and how long the object index takes.

The first is measured with ``dialogues.jsonl``: two invented conversations in one file, with 50 questions and the
messages that answer them; and in ``benchmarks.locomo`` with a public set. Questions about agent sessions are in
``benchmarks.answers``.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import trio

from benchmarks import object_index
from benchmarks.harness import Group, Part, Row, Server, single
from mnemosyne.adapters.embedding.conversation_index import index_conversation
from mnemosyne.adapters.embedding.embedder import MiniLM
from mnemosyne.services.conversation_files import ConversationLine
from tests.adapters import model_cache
from tests.domain.recorded import DATA

THREADS = 2
SHORTEST_OBJECT = 200
QUESTIONS = 500
"""Number of the agents' texts that the index is asked."""

DIALOGUES = Path(__file__).with_name("data") / "dialogues.jsonl"


@cache
def model() -> MiniLM | None:
    """The model, if its wheel is in the cache, where the tests put it."""
    if not list(model_cache.FOLDER.glob("*.whl")):
        return None
    return MiniLM(model_cache.installed_model(), threads=THREADS)


def searchers() -> list[tuple[str, MiniLM | None]]:
    """The searchers of a conversation: words alone, and with the model if there is one."""
    embedder = model()
    return [("words alone", None), *([] if embedder is None else [(f"words, {embedder.name}", embedder)])]


def sessions(name: str) -> Iterator[dict[str, Any]]:
    path = DATA / "sessions" / f"{name}.jsonl"
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1])


def blocks(session: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for message in session["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield message["role"], block


def result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if part.get("type") == "text")


def of_ranks(kind: str, variant: str, ranks: Sequence[int]) -> Iterator[Row]:
    values = np.array(ranks, dtype=float)
    for name, each in {"hit@1": values == 1, "hit@5": values <= 5, "MRR": 1 / values}.items():
        yield single(f"{kind}, {name}, {len(ranks)} questions", variant, "", float(np.mean(each)))


def conversations(servers: Sequence[Server], quick: bool) -> list[Row]:
    """The same measures where messages are asked for."""
    told = [json.loads(line) for line in DIALOGUES.read_text(encoding="utf-8").splitlines()]
    lines = [ConversationLine(**message) for each in told for message in each["messages"]]
    questions = [question for each in told for question in each["questions"]]
    rows: list[Row] = []
    for name, embedder in searchers():
        index = trio.run(index_conversation, lines, embedder, no_progress)
        found = trio.run(index.search, [question["text"] for question in questions], len(lines), no_progress)
        ranks = [
            next(rank for rank, hit in enumerate(hits, 1) if hit.key in question["right"])
            for question, hits in zip(questions, found, strict=True)
        ]
        rows += of_ranks("messages", name, ranks)
    return rows


def index(servers: Sequence[Server], quick: bool) -> list[Row]:
    """The object index in PostgreSQL, filled with tool results of the recorded sessions."""
    recorded = [block for each in islice(sessions("claude_code"), 1 if quick else None) for _, block in blocks(each)]
    results = [result_text(each["content"]) for each in recorded if each["type"] == "tool_result"]
    said = [each["text"] for each in recorded if each["type"] == "text"]
    words = Path(__file__).with_name("README.md").read_text(encoding="utf-8").split()
    texts = [each for each in results if len(each) >= SHORTEST_OBJECT]
    texts = texts or [_sample(words, n, 700) for n in range(100)]
    return trio.run(object_index.measure, texts, said[:QUESTIONS] or [_sample(words, 1, 10)], quick)


def no_progress(done: int, total: int) -> None:
    """Show no progress."""


def _sample(words: Sequence[str], start: int, count: int) -> str:
    return " ".join(words[(start * 13 + place * 31) % len(words)] for place in range(count))


GROUP = Group(
    "retrieval",
    (),
    (
        Part("conversations", conversations),
        Part("index", index),
    ),
)
