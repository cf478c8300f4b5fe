"""What can still be told of a session's past, before and after each rewrite of its window, under one policy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

import attrs

from mnemosyne.domain.recall.answering import answers
from mnemosyne.domain.recall.choosing import SearchedText
from mnemosyne.domain.recall.retrieval import WordIndex
from mnemosyne.domain.text.parts import PartRole, TextPart
from mnemosyne.domain.tools.memory_tools import ANSWER_TOKENS
from mnemosyne.domain.window.assembly import Message
from mnemosyne_lab.evaluation.demand import EXACT, Demand, Outcome, ShownObject, demands, outcome, plain
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.planting import PlantedFact, plant
from mnemosyne_lab.evaluation.policies import UNMANAGED
from mnemosyne_lab.evaluation.policy import Policy, Settings
from mnemosyne_lab.evaluation.probes import Past, Probe
from mnemosyne_lab.evaluation.reading import RecordedSession, trace_of
from mnemosyne_lab.evaluation.rereads import ReadAgain, list_read_again
from mnemosyne_lab.evaluation.results import ProbeTally
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Item, Step, TraceRequest, pass_on

LATER = (5, 20, 80)
"""Turns after which a planted fact is asked for."""

MOST_SOURCES = 40
"""So many of the latest objects that hold a text are looked at."""

MOST_SEARCHED = 24
"""Objects that are read for an answer: the best by words."""


class Reach(Enum):
    """How far away a text is."""

    RESIDENT = "resident"
    ANSWERED = "answered"
    """It is not in the window, and an answer of memory quotes it."""
    NAMED = "named"
    """What is in the window names what holds it: it can be restored, or fetched again."""
    LOST = "lost"


@attrs.frozen
class SessionProbes:
    """What was found in a session under each policy, by its name; and what it read again."""

    tallies: Mapping[str, Sequence[ProbeTally]]
    read_again: Sequence[ReadAgain]


def probe_session(
    recorded: RecordedSession, settings: Settings, policies: Sequence[Policy], step: Step = pass_on
) -> SessionProbes:
    """Ask of a session into which facts were put, under each policy."""
    planted, facts = plant(recorded)
    trace = trace_of(planted, step)
    sized, wanted = Sized(trace, settings), demands(trace)
    reality = simulate(sized, wanted, UNMANAGED, step=step)
    found = {}
    for policy in policies:
        prober = _Prober(sized, facts, has_memory=policy.has_memory)
        simulate(sized, wanted, policy, reality, prober.watch, step)
        found[policy.name] = prober.tallies()
    return SessionProbes(found, list_read_again(sized))


def sum_tallies(tallies: Iterable[ProbeTally]) -> list[ProbeTally]:
    """Those about the same together."""
    found: dict[str, ProbeTally] = {}
    for each in tallies:
        known = found.get(each.about)
        found[each.about] = each if known is None else _add(known, each)
    return [found[about] for about in sorted(found, key=_order)]


def _order(about: str) -> tuple[str, int]:
    """Planted facts by how long ago they came."""
    word, _, later = about.partition(", ")
    return word, int(later.split()[0]) if later else 0


def _add(one: ProbeTally, other: ProbeTally) -> ProbeTally:
    counts = (name for name in attrs.fields_dict(ProbeTally) if name != "about")
    return attrs.evolve(one, **{name: getattr(one, name) + getattr(other, name) for name in counts})


class _Prober:
    """Asks while a session is driven under one policy."""

    def __init__(self, sized: Sized, facts: Sequence[PlantedFact], *, has_memory: bool) -> None:
        self._sized = sized
        self._past = Past(sized.trace.messages)
        self._facts = facts
        self._memory = _Memory(sized) if has_memory else None
        self._sources: dict[str, tuple[str, ...]] = {}
        self._found: dict[str, list[tuple[bool, Reach]]] = {}

    def watch(
        self,
        request: TraceRequest,
        known: int,
        before: Sequence[Message] | None,
        after: Sequence[Message],
        show: Callable[[str], ShownObject],
    ) -> None:
        """See ``driver.Watch``."""
        for fact in self._facts:
            if request.turn - fact.turn in LATER:
                there = [*self._sized.list_texts(after)]
                reach = self._reach(fact.probe, request.turn, there, show)
                self._note(f"planted, {request.turn - fact.turn} turns later", was_there=True, reach=reach)
        if before is None:
            return
        dropped = [each.kept_from for each in self._sized.trace.resets if each.by_user and each.turn == request.turn]
        self._past.read_to(max([known, *dropped]))
        if dropped:
            self._past.forget()
            return
        shown, there = [*self._sized.list_texts(before)], [*self._sized.list_texts(after)]
        for probe in self._past.probes():
            reach = self._reach(probe, request.turn, there, show)
            self._note(probe.about.value, was_there=_is_in(probe.text, shown), reach=reach)

    def tallies(self) -> tuple[ProbeTally, ...]:
        """What was found, by what was asked about."""
        return tuple(
            ProbeTally(
                about=about,
                asked=len(found),
                before=sum(was_there for was_there, _ in found),
                **{reach.value: sum(each is reach for _, each in found) for reach in Reach},
            )
            for about, found in self._found.items()
        )

    def _note(self, about: str, *, was_there: bool, reach: Reach) -> None:
        self._found.setdefault(about, []).append((was_there, reach))

    def _reach(self, probe: Probe, turn: int, there: Sequence[str], show: Callable[[str], ShownObject]) -> Reach:
        sources = self._sources_of(probe.text, turn)
        found = outcome(
            Demand(turn=turn, text=probe.text, kind=EXACT, sources=sources, distance=0), show, lambda: there
        )
        if found is Outcome.RESIDENT:
            return Reach.RESIDENT
        if self._memory is not None and self._memory.tells(probe, turn):
            return Reach.ANSWERED
        return Reach.NAMED if found is Outcome.DECLARED else Reach.LOST

    def _sources_of(self, text: str, turn: int) -> tuple[str, ...]:
        if text not in self._sources:
            holding = (each.item for each in reversed(self._sized.objects) if text in plain(each.item.text))
            self._sources[text] = tuple(item.id for item in holding)
        born = (key for key in self._sources[text] if self._sized.by_id[key].item.born <= turn)
        return tuple(born)[:MOST_SOURCES]


def _is_in(text: str, window: Iterable[str]) -> bool:
    return any(text in each for each in window)


class _Memory:
    """Answers from the objects of a trace, by words, as far as they are there by a turn. Turns come in order."""

    def __init__(self, sized: Sized) -> None:
        self._sized = sized
        self._items = sorted(sized.trace.items, key=lambda item: item.born)
        self._index: WordIndex[int] = WordIndex()

    def tells(self, probe: Probe, turn: int) -> bool:
        """Whether an answer to the probe's question quotes its text."""
        return probe.text in plain(self._answer(probe.question, turn))

    def _answer(self, question: str, turn: int) -> str:
        while len(self._index) < len(self._items) and self._items[len(self._index)].born <= turn:
            number = len(self._index)
            self._index.add(number, self._items[number].text)
        best = [self._items[hit.key] for hit in self._index.search(question, MOST_SEARCHED)]
        texts = [_to_searched_text(item, turn) for item in best]
        quotes = answers(question, texts, ANSWER_TOKENS, self._sized.text_tokens)
        return "\n".join(quote.text for quote, _ in quotes)


def _to_searched_text(item: Item, turn: int) -> SearchedText:
    said = PartRole.USER if "user" in item.tags else PartRole.ASSISTANT
    return SearchedText(
        id=item.id,
        parts=(TextPart(said if item.source_tool is None else PartRole.RESULT, item.text, item.source_tool),),
        name=(item.source_key or "") if item.places else "",
        old=item.superseded is not None and item.superseded <= turn,
    )
