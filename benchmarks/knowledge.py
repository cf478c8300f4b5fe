"""What the sessions of one project give to each other: what each is told as it begins, and what later ones find.

Recorded sessions of one project and developer (no rows where they are not) follow each other in time. Each is told what
the server would tell it, then gives what its user settled. The labels (``data/knowledge.json``) were made by hand, and
hold hashes of sentences, no text: what *holds* in later sessions, what is *passing*, and what a later sentence *ended*.
All was read while the rules were made: nothing is held out.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from mnemosyne.actors.librarian import Librarian
from mnemosyne.actors.owners import OWNER
from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.history.calls import AnsweredCall, read_calls
from mnemosyne.domain.knowledge.block import MemoryBlock
from mnemosyne.domain.knowledge.book import KnowledgeBook
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.extraction import extract_messages
from mnemosyne.domain.knowledge.state import Entry
from mnemosyne.domain.recall.goals import find_typed_in
from mnemosyne.domain.recall.retrieval import WordIndex
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.text.passages import passages
from mnemosyne.domain.text.words import query_words
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.services.knowledge import KnowledgeDesk, WriteMoment
from tests.domain.recorded import DATA

LABELS = Path(__file__).with_name("data") / "knowledge.json"
FILES = ("claude_code.jsonl", "claude_code_more.jsonl")
TENANT, PROJECT = "local", "recorded"

FIRST_REQUEST = 160_000
"""Bytes of a coding agent's first request, tools and system prompt among them."""

MOST_TOKENS = 600
"""``memory_tokens``, as it is by default."""

QUICK = 10
"""A quick run takes so many sessions."""

LOOKED_AT = 5
"""A question is answered if the answer is among so many results."""


@attrs.frozen
class RecordedSession:
    """A session of the project; ``began`` and ``ended`` are µs of UTC."""

    name: str
    messages: Sequence[Mapping[str, Any]]
    began: int
    ended: int

    @property
    def prompt(self) -> str:
        """What its user typed first."""
        typed = (find_typed_in(each["role"], content_blocks(each["content"])) for each in self.messages)
        return next(filter(None, typed), "")


@attrs.frozen
class Labels:
    """The hashes of sentences, by what was said of them."""

    holds: frozenset[str]
    passing: frozenset[str]
    unsure: frozenset[str]
    ended: Mapping[str, str]

    def judge(self, entry: Entry, said: frozenset[str]) -> str:
        """What an entry is in a session before which so much was ``said``."""
        name = name_of(entry.content)
        if name in self.ended and self.ended[name] in said:
            return "ended"
        return next((each for each in ("holds", "passing", "unsure") if name in getattr(self, each)), "not labelled")


def name_of(sentence: str) -> str:
    """What a sentence is called in the labels."""
    return sha256(sentence.encode()).hexdigest()[:10]


def read_labels() -> Labels:
    """The labels as they are stored."""
    found = json.loads(LABELS.read_text(encoding="utf-8"))
    holds, passing, unsure = (frozenset(found[each]) for each in ("holds", "passing", "unsure"))
    return Labels(holds, passing, unsure, found["ended"])


@cache
def recorded(quick: bool) -> list[RecordedSession]:
    """The sessions of the project in the order in which they began."""
    lines = [line for name in FILES if (file := DATA / "sessions" / name).is_file() for line in file.open("rb")]
    found = [_read(json.loads(line)) for line in lines]
    return sorted(found, key=lambda each: each.began)[: QUICK if quick else None]


def _read(session: Mapping[str, Any]) -> RecordedSession:
    times = [int(datetime.fromisoformat(each["ts"]).timestamp() * 1_000_000) for each in session["turns"]]
    return RecordedSession(session["name"], session["messages"], times[0], times[-1])


@attrs.define
class Course:
    """What came of a sequence of sessions: what each was told, what was known at its end, and processor time in ms."""

    blocks: list[MemoryBlock | None] = attrs.field(factory=list)
    told: list[str] = attrs.field(factory=list)
    learned: list[Entry] = attrs.field(factory=list)
    spent: list[float] = attrs.field(factory=list)
    questions: list[bool] = attrs.field(factory=list)


def follow(sessions: Sequence[RecordedSession], labels: Labels) -> Course:
    """Tell each session what the server would, and learn from it."""
    return trio.run(_follow, sessions, labels)


async def _follow(sessions: Sequence[RecordedSession], labels: Labels) -> Course:
    log = PlainLog(event_codec())
    book, course = KnowledgeBook(log, log), Course()
    desk = KnowledgeDesk(book, TENANT, PROJECT)
    librarian = Librarian(book, _find_project, lambda: 0, lambda: "", tokens=MOST_TOKENS, learns=False)
    said: frozenset[str] = frozenset()
    for number, each in enumerate(sessions):
        started = time.process_time()
        block = await librarian.recollect(TENANT, OWNER, "/here", each.prompt, FIRST_REQUEST, each.began)
        course.spent.append(1000 * (time.process_time() - started))
        course.blocks.append(block)
        known = await _list_entries(desk)
        course.told += [labels.judge(known[told], said) for told in (block.entries if block is not None else ())]
        source = Provenance(session=uuid5(NAMESPACE_OID, each.name), branch="main", turn=1)
        found = list(extract_messages(each.messages, source))
        await desk.learn_drafts(found, WriteMoment(each.ended, str(number)))
        said |= {name_of(draft.draft.content) for draft in found}
    course.learned = [*(await _list_entries(desk)).values()]
    at = sessions[-1].ended
    for entry in course.learned:
        if entry.is_valid(at):
            hits = await desk.recall(question_about(entry.content), at, limit=LOOKED_AT)
            course.questions.append(entry.id in {hit.entry.id for hit in hits})
    return course


async def _list_entries(desk: KnowledgeDesk) -> dict[str, Entry]:
    return {each.entry.id: each.entry for each in await desk.list_history()}


async def _find_project(folder: str) -> str:
    return PROJECT


def question_about(sentence: str) -> str:
    """What somebody asks who remembers half of it: every second word."""
    return "what did we decide about " + " ".join(query_words(sentence)[::2])


def told(_: Sequence[Server], quick: bool) -> list[Row]:
    """What sessions are told: how much of it is wrong, what it costs, and what is learned at all."""
    sessions = recorded(quick)
    if not sessions:
        return []
    labels = read_labels()
    course = follow(sessions, labels)
    count = len(sessions)
    learned = [labels.judge(each, frozenset()) for each in course.learned]
    tokens = [each.tokens for each in course.blocks if each is not None]
    wrong = sum(course.told.count(each) for each in ("passing", "ended"))
    return [
        single(f"learned in {count} sessions", "by rules", "", len(learned)),
        single("of these that hold", "by rules", "", learned.count("holds")),
        single("sentences labelled to hold", "by hand", "", len(labels.holds)),
        single("sessions that are told anything", "by rules", "", len(tokens)),
        single("entries told in a session", "by rules", "", len(course.told) / count),
        single("wrong entries told in a session", "by rules", "", wrong / count, 0),
        single("told and not labelled", "by rules", "", course.told.count("not labelled"), 0),
        spread("tokens of a block, where there is one", "by rules", "", tokens or [0]),
        spread("processor time before the first byte", "by rules", "ms", course.spent, 5),
        single(
            f"what was decided, hit@{LOOKED_AT}, {len(course.questions)} questions",
            "recall",
            "",
            _share(course.questions),
        ),
    ]


def _share(found: Sequence[bool]) -> float:
    return sum(found) / len(found) if found else 0.0


# What was done


@attrs.frozen
class PastQuestion:
    """A question about an earlier session; ``right`` are the numbers of the results that answer it."""

    kind: str
    text: str
    right: frozenset[int]


@attrs.frozen
class Past:
    """The results and edits of all sessions, as one would search them, and the questions about them."""

    texts: Sequence[str]
    questions: Sequence[PastQuestion]


FEWEST_WORDS = 5


def read_past(sessions: Sequence[RecordedSession]) -> Past:
    """*file*: what the agent said before its first edit of a file, without its name, for any call on that file.
    *fix*: what a command said as it failed that did not fail later, for the edits between.
    """
    texts: list[str] = []
    files: dict[str, set[int]] = {}
    asked: list[tuple[str, str]] = []
    fixes: list[PastQuestion] = []
    for session in sessions:
        before = _said_before(session.messages)
        edited: set[str] = set()
        failed: dict[str, tuple[str, int]] = {}
        edits: list[int] = []
        for call in read_calls(_seen(session.messages)):
            path, number = str(call.given.get("file_path", "")), len(texts)
            texts.append(_text_of(call))
            if path:
                files.setdefault(path, set()).add(number)
            if "old_string" in call.given and not call.failed:
                edits.append(number)
                said = before.get(call.id, "").replace(path, " ").replace(Path(path).name, " ")
                if path not in edited and len(query_words(said)) >= FEWEST_WORDS:
                    asked.append((said, path))
                edited.add(path)
            command = str(call.given.get("command", ""))
            if command and call.failed and not call.refused:
                failed.setdefault(command, (_cause_of(call), number))
            elif command in failed:
                cause, at = failed.pop(command)
                between = frozenset(each for each in edits if each > at)
                if between and len(query_words(cause)) >= FEWEST_WORDS:
                    fixes.append(PastQuestion("which fix", cause, between))
    of_files = [PastQuestion("which file", said, frozenset(files[path])) for said, path in asked]
    return Past(texts, [*of_files, *fixes])


def _said_before(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the agent said in the text before each call, by the call."""
    found: dict[str, str] = {}
    said = ""
    for message in messages:
        for block in content_blocks(message["content"]) if message["role"] == "assistant" else ():
            if block.get("type") == "text":
                said = str(block["text"])[:600]
            elif block.get("type") == "tool_use":
                found[str(block["id"])], said = said, ""
    return found


def _seen(messages: Sequence[Mapping[str, Any]]) -> Iterator[SeenMessage]:
    for index, each in enumerate(messages):
        yield SeenMessage(index=index, role=each["role"], content=content_blocks(each["content"]), turn=index // 2 + 1)


def _text_of(call: AnsweredCall) -> str:
    return "\n".join((call.tool, *(str(each) for each in call.given.values()), call.said))


_EXIT = re.compile(r"^Exit code \d+\n")


def _cause_of(call: AnsweredCall) -> str:
    """The last lines of what a failed command said."""
    return _EXIT.sub("", call.said)[-300:]


def found(_: Sequence[Server], quick: bool) -> list[Row]:
    """Questions about what was done, asked by words alone after the last session, among the calls of all of them."""
    past = read_past(recorded(quick))
    index: WordIndex[tuple[int, int]] = WordIndex()
    for number, text in enumerate(past.texts):
        for part in passages(text):
            index.add((number, part.start), text[part.start : part.end])
    hits: dict[str, list[bool]] = {}
    for each in past.questions:
        best = dict.fromkeys(hit.key[0] for hit in index.search(each.text, 20 * LOOKED_AT))
        hits.setdefault(each.kind, []).append(not each.right.isdisjoint([*best][:LOOKED_AT]))
    return [
        single(f"{kind}, hit@{LOOKED_AT}, {len(answered)} questions", "search by words", "", _share(answered))
        for kind, answered in hits.items()
    ]


GROUP = Group(name="knowledge", variants=(), parts=(Part("told", told), Part("found", found)), by_default=False)
