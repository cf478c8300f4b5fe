"""``python -m benchmarks.locomo FILE``: how often ``mnemosyne search --file`` finds the evidence in LoCoMo.

LoCoMo (Maharana et al. 2024) is a public set of long conversations with questions, each with the turns that answer it;
FILE is one's own copy of its ``locomo10.json``. Each conversation is searched by itself. Its turns are taken as they
are: speaker, text and the session's date, without what its pictures show.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import click
import numpy as np
import trio

from benchmarks.retrieval import find_ranks, searchers
from mnemosyne.services.conversation_files import ConversationLine

MEASURES = ("hit@1", "hit@5", "hit@10", "recall@5", "recall@10", "MRR")

ADVERSARIAL = 5
"""The category of questions about another speaker, excluded from *all*."""

_TURN = re.compile(r"D:?(\d+):(\d+)")


@click.command(help="Measure the search of conversations with FILE, one's own copy of LoCoMo's locomo10.json.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(file: Path) -> None:
    conversations = json.loads(file.read_text(encoding="utf-8"))
    for name, embedder in searchers():
        measured: dict[str, list[list[float]]] = defaultdict(list)
        for each in conversations:
            turns = list(lines(each["conversation"]))
            asked, categories = questions(each["qa"], {str(turn.id) for turn in turns})
            for category, ranks in zip(categories, trio.run(find_ranks, turns, asked, embedder), strict=True):
                measured[f"category {category}"].append(measures(ranks))
                if category != ADVERSARIAL:
                    measured["all"].append(measures(ranks))
        click.echo(f"{name:26}{'questions':>10}" + "".join(f"{measure:>11}" for measure in MEASURES))
        for kind, rows in sorted(measured.items()):
            click.echo(f"{kind:26}{len(rows):10}" + "".join(f"{value:11.3f}" for value in np.mean(rows, axis=0)))


def lines(conversation: Mapping[str, Any]) -> Iterator[ConversationLine]:
    """The turns of all sessions, in order."""
    sessions = takewhile(lambda number: f"session_{number}_date_time" in conversation, count(1))
    for session in sessions:
        when = conversation[f"session_{session}_date_time"]
        for turn in conversation.get(f"session_{session}", []):
            yield ConversationLine(turn["dia_id"], turn["speaker"], turn["text"], when)


def questions(asked: Sequence[Mapping[str, Any]], known: set[str]) -> tuple[list[tuple[str, set[str]]], list[int]]:
    """The questions whose evidence names turns of the conversation, with these turns, and their categories. A few name
    none, or in another form.
    """
    found, categories = [], []
    for each in asked:
        named = (f"D{int(session)}:{int(turn)}" for session, turn in _TURN.findall(" ".join(each["evidence"])))
        if right := known.intersection(named):
            found.append((each["question"], right))
            categories.append(each["category"])
    return found, categories


def measures(ranks: Sequence[int]) -> list[float]:
    """The measures of a question, from the ranks of the turns that answer it."""
    hits = [float(ranks[0] <= most) for most in (1, 5, 10)]
    recalls = [sum(rank <= most for rank in ranks) / len(ranks) for most in (5, 10)]
    return [*hits, *recalls, 1 / ranks[0]]


if __name__ == "__main__":
    main()
