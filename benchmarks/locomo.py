"""``python -m benchmarks.locomo FILE``: how often ``mnemosyne search --file`` finds the evidence in LoCoMo.

LoCoMo (Maharana et al. 2024) is a public set of long conversations with questions, each with the turns that answer it;
FILE is one's own copy of its ``locomo10.json``. Each conversation is searched by itself. Its turns are taken as they
are: speaker, text and the session's date, without what its pictures show.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import click
import numpy as np
import trio

from benchmarks.retrieval import no_progress, searchers
from mnemosyne.adapters.embedding.conversation_index import index_conversation
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.services.conversation_files import ConversationLine

MEASURES = ("hit@1", "hit@5", "hit@10", "recall@5", "recall@10", "MRR")

ADVERSARIAL = 5
"""The category of questions about another speaker, excluded from *all*."""

_TURN = re.compile(r"D:?(\d+):(\d+)")


@attrs.frozen
class Question:
    text: str
    right: frozenset[str]
    category: int


@click.command(help="Measure the search of conversations with FILE, one's own copy of LoCoMo's locomo10.json.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(file: Path) -> None:
    conversations = [(lines(each["conversation"]), each["qa"]) for each in json.loads(file.read_text(encoding="utf-8"))]
    for name, embedder in searchers():
        measured: dict[str, list[list[float]]] = {}
        for turns, asked in conversations:
            found = questions(asked, {str(turn.id) for turn in turns})
            for question, row in zip(found, trio.run(measure, turns, found, embedder), strict=True):
                measured.setdefault(f"category {question.category}", []).append(row)
                if question.category != ADVERSARIAL:
                    measured.setdefault("all", []).append(row)
        click.echo(f"{name:26}{'questions':>10}" + "".join(f"{measure:>11}" for measure in MEASURES))
        for kind, rows in sorted(measured.items()):
            click.echo(f"{kind:26}{len(rows):10}" + "".join(f"{value:11.3f}" for value in np.mean(rows, axis=0)))


def lines(conversation: dict[str, Any]) -> list[ConversationLine]:
    """The turns of all sessions, in order."""
    found: list[ConversationLine] = []
    for session in count(1):
        if f"session_{session}_date_time" not in conversation:
            return found
        when = conversation[f"session_{session}_date_time"]
        turns = conversation.get(f"session_{session}", [])
        found += [ConversationLine(turn["dia_id"], turn["speaker"], turn["text"], when) for turn in turns]
    raise AssertionError


def questions(asked: Sequence[dict[str, Any]], known: set[str]) -> list[Question]:
    """Those that name a turn of the conversation; a few name none, or write it in other ways."""
    found = []
    for each in asked:
        named = (f"D{int(session)}:{int(turn)}" for session, turn in _TURN.findall(" ".join(each["evidence"])))
        if right := known.intersection(named):
            found.append(Question(each["question"], frozenset(right), each["category"]))
    return found


async def measure(
    turns: Sequence[ConversationLine], asked: Sequence[Question], embedder: Embedder | None
) -> list[list[float]]:
    """The measures of each question."""
    index = await index_conversation(turns, embedder, no_progress)
    found = await index.search([question.text for question in asked], len(turns), no_progress)
    return [
        list(measures(question.right, [hit.key for hit in hits])) for question, hits in zip(asked, found, strict=True)
    ]


def measures(right: frozenset[str], order: Sequence[object]) -> Iterator[float]:
    ranks = [rank for rank, key in enumerate(order, 1) if key in right]
    yield from (float(ranks[0] <= most) for most in (1, 5, 10))
    yield from (sum(rank <= most for rank in ranks) / len(right) for most in (5, 10))
    yield 1 / ranks[0]


if __name__ == "__main__":
    main()
