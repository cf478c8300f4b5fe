"""What ``memory_query`` answers of the questions that were made by rule (``benchmarks/judge``).

Recorded sessions are played into a log, as a server records them. Then nothing stands in the window, and the model's
own tool is asked, with as many tokens as it gets unless it says otherwise. The index is one in memory that ranks as
PostgreSQL's does without a model: by words alone. Questions about other projects' sessions tell how often something is
answered that was never said.

The checked questions are of the sessions that the list names, in two halves. Of the other sessions some are drawn that
nobody checked, in two halves, too: the first were read while the answers were mended, the others never.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from random import Random
from typing import Any

import attrs
import trio

from benchmarks.admission import Remembered
from benchmarks.harness import Group, Part, Row, Server
from benchmarks.judge.answers import Pair
from benchmarks.judge.material import SPLITS, listed, made
from benchmarks.judge.sources import sources_of
from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.outside import Outside
from mnemosyne.actors.tools import FromMemory
from mnemosyne.domain.objects.aggregate import is_searched
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.objects.faults import Spent
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.recall.memory_results import NOT_IN_MEMORY
from mnemosyne.domain.recall.object_search import ByWords, PassageHit, SearchResult, combine, text_in_index
from mnemosyne.domain.recall.retrieval import WordIndex
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.state import evolve
from mnemosyne.domain.text.passages import Passage, passages
from mnemosyne.domain.text.words import query_words
from mnemosyne.domain.tools.memory_tools import QUERY
from mnemosyne.domain.wire.reply import HiddenCall
from mnemosyne.replay.session_tapes import tape_of
from mnemosyne.services import memories
from tests.domain.recorded import DATA, sessions
from tests.replay.recordings import played, streams
from tests.services.talking import Plain

BRANCH = "main"
MOST_RANKED = 100
QUICK = 2
"""Sessions that are asked unchecked questions in a quick run."""

FOREIGN = 6
"""Questions of another project's session that each session is asked."""

DRAWN = 3
"""Questions of each rule about a session whose questions nobody checked."""

READ, UNREAD = "unchecked, read", "unchecked, never read"

MOST_UNANSWERED, MOST_WRONG, MOST_INVENTED = 15.0, 2.0, 2.0
"""Percent of a session's own questions to which the answer may not be told, of these to which something else may be
told instead of nothing, and of foreign ones that may be answered.
"""


@attrs.frozen(eq=False)
class Asked:
    """A session that can be asked, with questions about it."""

    name: str
    split: str
    remembered: Remembered
    texts: Mapping[str, str]
    pairs: Sequence[Pair]


@cache
def material(quick: bool) -> Sequence[Asked]:
    """The sessions of both splits, two of each where it is to be quick; none where there are no recordings."""
    splits: Mapping[str, Sequence[str]] = listed()["splits"]
    names = {name: split for split in SPLITS for name in splits[split][:: len(splits[split]) - 1 if quick else 1]}
    return [_asked(session, names[session["name"]]) for session in _recorded() if session["name"] in names]


def _unchecked(quick: bool) -> Iterator[Asked]:
    """The other sessions, with questions that were drawn; two of them where it is to be quick."""
    splits: Mapping[str, Sequence[str]] = listed()["splits"]
    listed_names = {name for split in SPLITS for name in splits[split]}
    others = (session for session in _recorded() if session["name"] not in listed_names)
    for number, session in enumerate(others):
        if quick and number == QUICK:
            return
        odd = int(sha256(session["name"].encode()).hexdigest(), 16) % 2
        yield _asked(session, READ if odd else UNREAD)


def _recorded() -> Iterator[Mapping[str, Any]]:
    if (DATA / "sessions").is_dir():
        yield from sessions()


def _asked(session: Mapping[str, Any], split: str) -> Asked:
    log, _ = played(tape_of(session))
    (stream,) = streams(log)
    remembered = Remembered(log, stream, memories.fold(trio.run(log.read, stream)))
    texts = trio.run(_texts, remembered)
    pairs = _made(session, remembered, texts)
    if split in SPLITS:
        wanted = {tuple(row) for row in listed()["pairs"] if row[0] == session["name"]}
        chosen = [pair for place, pair in pairs if (session["name"], *place, pair.rule, pair.digest) in wanted]
    else:
        chosen = _draw(session["name"], [pair for _, pair in pairs])
    unique = {pair.digest: pair for pair in reversed(chosen)}
    return Asked(session["name"], split, remembered, texts, list(reversed(unique.values())))


def _made(
    session: Mapping[str, Any], remembered: Remembered, texts: Mapping[str, str]
) -> list[tuple[tuple[int, int], Pair]]:
    """The questions about a session that its objects answer, each with the place of its object."""
    messages = [{**each, "content": _blocks(each["content"])} for each in session["messages"]]
    found = []
    for each in remembered.placed:
        there = [at for at in each.places if at.block < len(messages[at.message]["content"])]  # a tape may add a block
        place = each.places[0].message, each.places[0].block
        for source in sources_of(messages, there):
            found += [(place, pair) for pair in made(source) if pair.answered_by(texts[each.id])]
    return found


def _draw(name: str, pairs: Sequence[Pair]) -> list[Pair]:
    """Some of each rule, by chance, and the same whenever it is measured."""
    drawn = []
    for rule in sorted({pair.rule for pair in pairs}):
        of_rule = {pair.digest: pair for pair in reversed(pairs) if pair.rule == rule}
        in_order = [of_rule[digest] for digest in sorted(of_rule)]
        Random(name + rule).shuffle(in_order)
        drawn += in_order[:DRAWN]
    return drawn


def _blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


async def _texts(remembered: Remembered) -> dict[str, str]:
    archive = Plain(remembered.log)
    return {
        key: text_in_index(each, await memories.content_of(archive, remembered.stream, each))
        for key, each in remembered.state.memory.objects.items()
        if is_searched(each) or each.places
    }


class _Index:
    """Ranks as the index of objects does without a model."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._parts: WordIndex[tuple[str, Passage]] = WordIndex()
        self._whole: WordIndex[str] = WordIndex()
        for key, text in texts.items():
            self._whole.add(key, text)
            for part in passages(text):
                self._parts.add((key, part), text[part.start : part.end])

    async def search(self, question: str, among: Collection[str], limit: int) -> SearchResult:
        hits = [hit for hit in self._parts.search(question, 10 * MOST_RANKED) if hit.key[0] in among]
        best = list({hit.key[0]: hit for hit in reversed(hits)}.values())
        best = sorted(best, key=lambda hit: -hit.score)[:MOST_RANKED]
        words = ByWords(
            passages=[PassageHit(*hit.key, hit.score / _most(self._parts, question)) for hit in best],
            whole={
                hit.key: hit.score / _most(self._whole, question)
                for hit in self._whole.search(question, MOST_RANKED)
                if hit.key in among
            },
            coverage=[self._parts.coverage(question, hit.key) for hit in best],
        )
        return combine(words, None, limit)


def _most(index: WordIndex[Any], question: str) -> float:
    """What the words of a question could give a text at most; nothing is found where that is nothing."""
    return sum(map(index.most, query_words(question)))


class _Tool:
    """The tool of a session of which nothing stands in the window."""

    def __init__(self, asked: Asked) -> None:
        self._state = asked.remembered.state
        self._turn = self._state.branches[BRANCH].turns
        for each in asked.remembered.placed:
            gone = ObjectDegraded(
                at=0,
                object=each.id,
                branch=BRANCH,
                turn=self._turn,
                before=Fidelity.FULL,
                after=Fidelity.EVICTED,
                cause=Cause.PRESSURE,
            )
            self._state = evolve(self._state, gone)
        bodies = Bodies(asked.remembered.stream, asked.remembered.log, asked.remembered.log)
        self._answering = FromMemory(bodies, Outside(_Index(asked.texts).search))

    async def ask(self, question: str) -> str:
        call = HiddenCall("c", QUERY, json.dumps({"question": question}))
        answers = await self._answering.answer(self._state, Address(BRANCH, self._turn, 1), [call], 0, Spent())
        return str(json.loads(answers.results["c"])["content"])


def answered(_: Sequence[Server], quick: bool) -> list[Row]:
    """The questions whose answer the tool does not tell, by split, and the foreign ones that it answers."""
    known = material(quick)
    own = _count_own(known)
    foreign: Counter[tuple[str, bool]] = Counter()
    for asked in known:
        tool = _Tool(asked)
        for pair in _foreign(asked, known):
            foreign[asked.split, NOT_IN_MEMORY not in trio.run(tool.ask, pair.question)] += 1
    return [
        row
        for split in SPLITS
        for row in (
            *_rows_of_own(split, own),
            _row("foreign questions answered", split, foreign, True, MOST_INVENTED),
        )
    ]


def unchecked(_: Sequence[Server], quick: bool) -> list[Row]:
    """The same of questions that nobody checked, so that some cannot be answered or have another answer, too."""
    own = _count_own(_unchecked(quick))
    return [row for split in (READ, UNREAD) for row in _rows_of_own(split, own)]


def _count_own(known: Iterable[Asked]) -> Counter[tuple[str, str]]:
    """What comes of a session's own questions: "told", "nothing", or "else" where only something else is told."""
    counts: Counter[tuple[str, str]] = Counter()
    for asked in known:
        tool = _Tool(asked)
        for pair in asked.pairs:
            said = trio.run(tool.ask, pair.question)
            told = "told" if pair.answered_by(said) else "nothing" if NOT_IN_MEMORY in said else "else"
            counts[asked.split, told] += 1
    return counts


def _rows_of_own(split: str, own: Counter[tuple[str, str]]) -> tuple[Row, Row]:
    told, nothing, other = (own[split, which] for which in ("told", "nothing", "else"))
    missed = Counter({(split, True): told, (split, False): nothing + other})
    wrong = Counter({(split, True): other, (split, False): told + nothing})
    return (
        _row("questions not answered", split, missed, False, MOST_UNANSWERED),
        _row("something else told instead", split, wrong, True, MOST_WRONG),
    )


def _foreign(asked: Asked, known: Sequence[Asked]) -> Iterator[Pair]:
    """The first questions of the next session of its split that another agent recorded."""
    place = known.index(asked)
    for other in (*known[place + 1 :], *known[:place]):
        if other.split == asked.split and other.name.split("-")[0] != asked.name.split("-")[0] and other.pairs:
            yield from other.pairs[:FOREIGN]
            return


def _row(name: str, split: str, counts: Counter[tuple[str, bool]], which: bool, goal: float) -> Row:
    number = counts[split, True] + counts[split, False]
    share = 100 * counts[split, which] / max(1, number)
    return Row(name=name, variant=split, unit="%", median=share, p95=None, p99=None, n=number, goal=goal)


GROUP = Group(
    name="answers",
    variants=(),
    parts=(Part("answered", answered), Part("unchecked", unchecked)),
    by_default=False,
)
