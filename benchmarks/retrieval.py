"""How often search finds the right object.

Questions come from recorded agent sessions (``tests/domain/recorded.py``; no rows where they are not). The objects of
a session are its tool results; each question may find only those that were there when it was asked:

- *edit*: the agent's text before an edit, for the result with the exact text that the edit replaces;
- *names*: an agent's sentence with a specific (an identifier, a hash, a number) that at most three results contain, for
  one of them;
- *asks*: the same sentence without the specific.

Each kind is also counted for results older than the ten newest, which the window shows anyway; *newest first* ignores
all words, for comparison.

``mnemosyne search --file`` is measured with ``dialogues.jsonl``: two invented conversations in one file, with 50
questions and the messages that answer them; and in ``benchmarks.locomo`` with a public set.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import trio
from numpy.typing import NDArray

from benchmarks import object_index
from benchmarks.harness import Group, Part, Row, Server, single
from mnemosyne.adapters.embedding.conversation_index import index_conversation
from mnemosyne.adapters.embedding.embedder import MiniLM
from mnemosyne.domain.recall.retrieval import WHOLE, WordIndex, blend
from mnemosyne.domain.text.passages import passages
from mnemosyne.domain.text.words import query_words
from mnemosyne.services.conversation_files import ConversationLine
from tests.adapters import model_cache
from tests.domain.recorded import DATA

THREADS = 2
QUICK_SESSIONS = 1
FEWEST_OBJECTS = 10
SHORTEST_OBJECT = 200
SHOWN = 10
"""So many of the newest results the window shows."""

NEVER = 10**9
"""The rank of an answer that was not found."""


DIALOGUES = Path(__file__).with_name("data") / "dialogues.jsonl"

_LINE_NUMBER = re.compile(r"^\s*\d+[→\t]", re.MULTILINE)
_SPECIFIC = re.compile(
    r"\b(?:[A-Za-z]+_[A-Za-z_0-9]{4,}|[a-z]+(?:[A-Z][a-z0-9]+){2,}|0x[0-9a-f]{4,}|[0-9a-f]{7,40}|[A-Z]{2,}\d{2,}|\d{3,}\.\d+)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")


@attrs.frozen
class Question:
    """``right`` are the objects that answer it, out of the first ``known``."""

    kind: str
    text: str
    known: int
    right: frozenset[int]


@attrs.frozen(eq=False)
class Material:
    """A session's objects, and the questions about them."""

    objects: Sequence[str]
    questions: Sequence[Question]


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


@cache
def material(quick: bool) -> list[Material]:
    """The recorded sessions that have enough objects and any question."""
    found = [read(session) for session in sessions("claude_code")]
    useful = [each for each in found if len(each.objects) >= FEWEST_OBJECTS and each.questions]
    return useful[:QUICK_SESSIONS] if quick else useful


def sessions(name: str) -> Iterator[dict[str, Any]]:
    path = DATA / "sessions" / f"{name}.jsonl"
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1])


def blocks(session: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for message in session["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield message["role"], block


def read(session: dict[str, Any]) -> Material:
    objects: list[str] = []
    questions: list[Question] = []
    named: set[str] = set()
    said = ""

    def ask(kind: str, text: str, exact: str, most: int) -> bool:
        right = frozenset(number for number, each in enumerate(objects) if exact in each)
        good = 1 <= len(right) <= most and len(objects) >= FEWEST_OBJECTS and len(query_words(text)) >= 3
        if good:
            questions.append(Question(kind, text, len(objects), right))
        return good

    for role, block in blocks(session):
        if block["type"] == "tool_result" and len(text := result_text(block["content"])) >= SHORTEST_OBJECT:
            objects.append(_LINE_NUMBER.sub("", text))
        elif block["type"] == "text" and role == "assistant":
            said = block["text"][:600]
            for sentence in _SENTENCE.split(block["text"]):
                for specific in dict.fromkeys(_SPECIFIC.findall(sentence)):
                    if (
                        specific not in named
                        and len(query_words(sentence)) >= 5
                        and ask("names", sentence, specific, 3)
                    ):
                        named.add(specific)
                        ask("asks", sentence.replace(specific, " "), specific, 3)
        elif block["type"] == "tool_use" and len(old := str(block["input"].get("old_string", ""))) > 40:
            said = "" if ask("edit", said, old, 4) else said
    return Material(objects, questions)


def result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if part.get("type") == "text")


class Searched:
    """One session: every way to rank its objects for a question."""

    def __init__(self, material: Material, embedder: MiniLM | None) -> None:
        self.embedder = embedder
        self.parts: list[str] = []
        owners: list[int] = []
        for number, each in enumerate(material.objects):
            cut = [each[part.start : part.end] for part in passages(each)]
            self.parts += cut
            owners += [number] * len(cut)
        self.owners = np.array(owners)
        self.vectors = None if embedder is None else np.array(trio.run(embedder.embed, self.parts))
        self.whole_words: WordIndex[int] = WordIndex()
        self.part_words: WordIndex[int] = WordIndex()
        for number, each in enumerate(material.objects):
            self.whole_words.add(number, each)
        for number, part in enumerate(self.parts):
            self.part_words.add(number, part)

    def rankings(self, question: Question) -> dict[str, list[int]]:
        """The objects, best first, by each variant."""
        part, whole = (
            self._shares(index, question.text, count)
            for index, count in ((self.part_words, len(self.parts)), (self.whole_words, int(self.owners.max()) + 1))
        )
        words: NDArray[Any] = (1 - WHOLE) * self._best(part) + WHOLE * whole
        found = {
            "newest first": list(range(question.known - 1, -1, -1)),
            "words, whole objects": _order(whole, question.known),
            "words, passages": _order(self._best(part), question.known),
            "words, as searched": _order(words, question.known),
        }
        if self.embedder is not None:
            asked = np.array(trio.run(self.embedder.embed, [question.text])[0])
            nearest, name = self._best(np.maximum(0, self.vectors @ asked)), self.embedder.name
            found[f"{name}, passages"] = _order(nearest, question.known)
            found[f"as searched, {name}"] = _order(blend(words, nearest), question.known)
        return found

    def _shares(self, index: WordIndex[int], query: str, count: int) -> NDArray[Any]:
        """Each text's share of the highest possible word score."""
        found = np.zeros(count)
        for number, score in index.scores(query).items():
            found[number] = score
        return found / (sum(map(index.most, query_words(query))) or 1)

    def _best(self, scores: NDArray[Any]) -> NDArray[Any]:
        """The score of each object's best passage."""
        best = np.zeros(self.owners.max() + 1)
        np.maximum.at(best, self.owners, scores)
        return best


def _order(scores: NDArray[Any], known: int) -> list[int]:
    """The objects that have anything, best first."""
    return [int(number) for number in np.argsort(-scores[:known], kind="stable") if scores[number] > 0]


def quality(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Hit@1, hit@5 and the mean reciprocal rank of each variant, for each kind of question."""
    ranks: dict[tuple[str, str], list[int]] = {}
    for each in material(quick):
        session = Searched(each, model())
        for question in each.questions:
            for variant, order in session.rankings(question).items():
                rank = next((r for r, key in enumerate(order, 1) if key in question.right), NEVER)
                for kind in kinds(question):
                    ranks.setdefault((kind, variant), []).append(rank)
    return [row for (kind, variant), found in ranks.items() for row in of_ranks(kind, variant, found)]


def kinds(question: Question) -> Iterator[str]:
    """The kinds that a question belongs to."""
    yield question.kind
    if max(question.right) < question.known - SHOWN:
        yield f"{question.kind}, older than {SHOWN}"


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
    """The object index in PostgreSQL, filled with the objects of the recorded sessions."""
    found = material(quick)
    words = Path(__file__).with_name("README.md").read_text(encoding="utf-8").split()
    texts = [each for session in found for each in session.objects] or [_sample(words, n, 700) for n in range(100)]
    asked = [question.text for session in found for question in session.questions] or [_sample(words, 1, 10)]
    return trio.run(object_index.measure, texts, asked, quick)


def no_progress(done: int, total: int) -> None:
    """Show no progress."""


def _sample(words: Sequence[str], start: int, count: int) -> str:
    return " ".join(words[(start * 13 + place * 31) % len(words)] for place in range(count))


GROUP = Group(
    "retrieval",
    (),
    (
        Part("quality", quality),
        Part("conversations", conversations),
        Part("index", index),
    ),
)
