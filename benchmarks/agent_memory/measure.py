"""Play recorded sessions under seven policies and look for the answers in the text that the model would get.

A policy holds an answer *in sight* if the request in which the question is asked contains it. Mnemosyne also holds it
after *one question* if ``memory_query`` quotes it from the block that it is from. What an agent could read again from
the disk does not count for any policy.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import attrs

from benchmarks.answers import indexed_sessions, plain
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.tools.memory_tools import ANSWER_TOKENS
from mnemosyne.domain.window.planning import Candidates, Plan, Situation
from mnemosyne.domain.window.policies import is_conversation
from mnemosyne.services import asking
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.policies import POLICIES, clear
from mnemosyne_lab.evaluation.policy import Policy, Settings
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Trace, TraceRequest, trace_of

KEPT_RESULTS = 5
ONE_QUESTION = "mnemosyne, one question"


@attrs.frozen(kw_only=True)
class Question:
    """A question of class ``of`` before request ``turn`` (from 1); its answer ``gold`` has this span of UTF-8 bytes in
    the text of a block. A *paraphrase* was written by a reader. A *foreign* question is about another session: its
    answer is empty.
    """

    session: str
    of: str
    generator: str
    question: str
    turn: int
    message: int
    block: int
    start: int
    end: int
    gold: str

    @property
    def id(self) -> str:
        """A name that stays the same as long as the question does."""
        return sha256(f"{self.session} {self.turn} {self.question}".encode()).hexdigest()[:12]


def mask(situation: Situation, candidates: Candidates) -> Plan | None:
    """Replace all results but the last ``KEPT_RESULTS`` with every request."""
    results = [each for each in candidates() if not is_conversation(each)]
    gone = [each.key for each in results[:-KEPT_RESULTS] if each.fidelity is Fidelity.FULL and not each.kept]
    return Plan(fidelities=dict.fromkeys(gone, Fidelity.STUB), reason="every request") if gone else None


MASKING = Policy(
    name="masking",
    about=f"Observation masking: every request keeps the last {KEPT_RESULTS} results.",
    planner=mask,
    assemble=clear,
)

COMPARED = ("uncompacted", "unmanaged", "native", "clearing", "mnemosyne-thrifty", "mnemosyne")


def policies() -> Sequence[Policy]:
    """The seven policies."""
    named = {each.name: each for each in POLICIES}
    return [*(named[name] for name in COMPARED), MASKING]


@attrs.define
class Watcher:
    """Notes which questions have their answer in the request in which they are asked, and the tokens of requests."""

    questions: Mapping[int, Sequence[Question]]
    in_sight: dict[str, bool] = attrs.field(factory=dict)

    def add(self, request: TraceRequest, _: object, window: Callable[[], Iterable[str]], *__: object) -> None:
        """Look for the answers of a request's questions in its window."""
        asked = self.questions.get(request.turn, ())
        text = plain("\n".join(window())) if asked else ""
        self.in_sight.update((each.id, each.of != "foreign" and plain(each.gold) in text) for each in asked)


def look(recorded: Trace, questions: Sequence[Question]) -> dict[str, dict[str, bool]]:
    """Whether each question has its answer in sight, by policy and question."""
    by_turn: dict[int, list[Question]] = defaultdict(list)
    for each in questions:
        by_turn[each.turn].append(each)
    sized = Sized(trace_of(recorded), Settings())
    reality = simulate(sized, (), policies()[1])
    found: dict[str, dict[str, bool]] = {}
    for policy in policies():
        watcher = Watcher(by_turn)
        simulate(sized, (), policy, reality, observe=watcher.add)
        found[policy.name] = watcher.in_sight
    return found


async def ask(recorded: Mapping[str, Any], questions: Sequence[Question], embedder: Embedder | None) -> dict[str, bool]:
    """Whether one question to Mnemosyne quotes the answer from its block, by question."""
    found: dict[str, bool] = {}
    async with indexed_sessions([recorded], embedder) as (archive, index):
        for each in questions:
            known = Filter(turns=(1, each.turn))
            stream = stream_of("local", each.session)
            answer = await asking.ask(archive, index, stream, each.question, known, ANSWER_TOKENS)
            quotes = [cited.quote.text for cited in answer.cited if _is_from(cited.object.places, each)]
            found[each.id] = any(plain(each.gold) in plain(quote) for quote in quotes)
    return found


def _is_from(places: Iterable[BlockPlace], question: Question) -> bool:
    """Whether an object holds the answer's message. A foreign question should get no quote from any."""
    return question.of == "foreign" or any(place.message == question.message for place in places)
