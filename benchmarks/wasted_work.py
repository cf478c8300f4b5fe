"""The natural experiment: which results recorded agents read again after their client had compacted, and an estimate of
the same for the planner's evictions.

A line of a result is *read again* if an earlier result had it. That also happens with the whole history, so the turns
after a compaction are compared with as many before it. Lines are compared verbatim; nothing depends on tools or on
the meaning of a text. The difference for each dropped line, by age, then predicts the cost of evictions.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from benchmarks.harness import Group, Row, Server
from benchmarks.likelihood.statistics import estimate_row
from benchmarks.recordings import FIRST, MORE, OTHERS, list_sessions, result_text
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne_lab.evaluation.demand import demands
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.judging import PlaceSample
from mnemosyne_lab.evaluation.policies import POLICIES, UNMANAGED
from mnemosyne_lab.evaluation.policy import Settings
from mnemosyne_lab.evaluation.running import own_model
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Trace, TraceRequest, trace_of

LONG, WINDOW = 30, 20
"""The least turns of a session, and the turns that are compared before and after a compaction."""

SHORTEST, CHARACTERS = 20, 4
"""Characters of a line (shorter ones are everywhere), and of a token."""

AGES = (5, 20, 60)
"""The bounds of the classes of ages: turns since a line was last seen."""

CLASSES = len(AGES) + 1
AGAIN, DROPPED, RESULTS, CALLS = slice(0, CLASSES), slice(CLASSES, 2 * CLASSES), 2 * CLASSES, 2 * CLASSES + 1
"""The figures of a window of turns: tokens read again by age, tokens that were there at its beginning by age, tokens of
its results, and calls that were made before with the same input.
"""


@attrs.frozen(eq=False)
class Session:
    """The figures of the windows (before, after) each compaction, the planner's evicted tokens by age, and the tokens
    of all results.
    """

    session: str
    pairs: Any
    evicted: Any
    results: float


def measure(trace: Trace, turn: int) -> Any:
    """The figures of the window after a turn."""
    ends = [request.messages for request in trace.requests]
    start, end = ends[turn - 1], ends[min(turn + WINDOW, len(ends)) - 1]
    seen = {line: number for number in range(start) for line in _lines(trace.messages[number])}
    made = {call for message in trace.messages[:start] for call in _calls(message)}
    figures = np.zeros(2 * CLASSES + 2)
    age_of = {line: _class(turn - bisect_right(ends, number)) for line, number in seen.items()}
    for line, age in age_of.items():
        figures[CLASSES + age] += len(line) / CHARACTERS
    for message in trace.messages[start:end]:
        figures[CALLS] += sum(call in made for call in _calls(message))
        for line in _lines(message):
            figures[RESULTS] += len(line) / CHARACTERS
            if line in age_of:
                figures[age_of.pop(line)] += len(line) / CHARACTERS
    return figures


def _calls(message: Mapping[str, Any]) -> list[str]:
    return [f"{block['name']} {block['input']!r}" for block in content_blocks(message["content"]) if is_call(block)]


def _lines(message: Mapping[str, Any]) -> Iterator[str]:
    for block in content_blocks(message["content"]):
        lines = map(str.strip, result_text(block).splitlines()) if is_result(block) else ()
        yield from (line for line in lines if len(line) >= SHORTEST)


def _class(turns: int) -> int:
    return bisect_right(AGES, max(0, turns - 1))


class _Evictions(PlaceSample):
    """Counts the tokens of lines that newly shortened objects held last, by age, instead of collecting places."""

    def __init__(self, sized: Sized) -> None:
        super().__init__(sized)
        self._trace = sized.trace
        self._places = {item.id: {place.message for place in item.places} for item in sized.trace.items}
        self._seen: dict[str, int] = {}
        self._read = 0
        self._known: Mapping[str, Fidelity] = {}
        self.evicted = np.zeros(CLASSES)

    def add(self, request: TraceRequest, shortened: Mapping[str, Fidelity], *_: object) -> None:
        """Count the lines that this request's rewrite evicted. A line that a later result shows too is still there."""
        messages = self._trace.messages
        for number in range(self._read, request.messages):
            self._seen.update(dict.fromkeys(_lines(messages[number]), number))
        self._read = request.messages
        ends = [each.messages for each in self._trace.requests[: request.turn]]
        for number in {number for key in shortened.keys() - self._known.keys() for number in self._places[key]}:
            for line in set(_lines(messages[number])):
                if self._seen[line] == number:
                    self.evicted[_class(request.turn - bisect_right(ends, number))] += len(line) / CHARACTERS
        self._known = shortened


def sessions(quick: bool) -> Iterator[Session]:
    """The long recorded sessions whose client compacted."""
    policy = next(each for each in POLICIES if each.name == "mnemosyne")
    found = [each for each in list_sessions(FIRST, MORE, OTHERS) if len(each.requests) >= LONG and each.resets]
    for recorded in found[: 3 if quick else None]:
        trace = trace_of(recorded)
        turns = [each.turn - 1 for each in trace.resets if WINDOW < each.turn - 1 <= len(trace.requests) - WINDOW]
        if not turns:
            continue
        sized, wanted = Sized(trace, Settings(model=own_model(trace.model))), demands(trace)
        sample = _Evictions(sized)
        simulate(sized, wanted, policy, simulate(sized, wanted, UNMANAGED), observe=sample.add)
        results = sum(len(line) for message in trace.messages for line in _lines(message)) / CHARACTERS
        pairs = [(measure(trace, turn - WINDOW), measure(trace, turn)) for turn in turns]
        yield Session(trace.name, np.reshape(pairs, (-1, 2, 2 * CLASSES + 2)), sample.evicted, results)


def _mean(found: Sequence[Session]) -> Any:
    """The mean figures (before, after) a compaction."""
    return np.concatenate([each.pairs for each in found]).mean(0)


def _figure(found: Sequence[Session], side: int, index: int | slice) -> float:
    """A mean figure, before (0) or after (1) a compaction."""
    return float(np.sum(_mean(found)[side, index]))


def _excess(found: Sequence[Session], age: int | slice = slice(None)) -> Any:
    """The percentage of tokens of an age, or of each that a compaction makes the agent read again."""
    mean = _mean(found)
    before, after = 100 * mean[:, AGAIN] / np.maximum(1, mean[:, DROPPED])
    return (after - before)[age]


def _wasted(found: Sequence[Session], by: str) -> float:
    """The percentage of all results that is read again because of the compactions, or of the planner's evictions."""
    if by == "planner":
        wasted = sum(each.evicted for each in found) @ _excess(found) / 100
    else:
        wasted = sum(np.diff(each.pairs[:, :, AGAIN].sum((0, 2)))[0] for each in found)
    return float(100 * wasted / sum(each.results for each in found))


def _compactions(_: Sequence[Server], quick: bool) -> list[Row]:
    """The figures before and after compactions, and the estimate for evictions."""
    found = list(sessions(quick))
    figures: list[tuple[tuple[str, str, str], Callable[[Sequence[Session]], float]]] = []
    counted = (("read again", "tokens", AGAIN), ("results", "tokens", RESULTS), ("calls made again", "", CALLS))
    for side, variant in enumerate((f"{WINDOW} turns before a compaction", f"{WINDOW} turns after it")):
        for name, unit, index in counted:
            figures.append(((name, variant, unit), partial(_figure, side=side, index=index)))
    for age in range(CLASSES):
        bounds = f"last seen {(0, *AGES)[age] + 1} to {(*AGES, '…')[age]} turns before"
        figures.append((("read again because dropped", bounds, "%"), partial(_excess, age=age)))
    for by, cause in (("client", "the client's compactions"), ("planner", "the planner's evictions, estimated")):
        figures.append((("wasted, of all results", cause, "%"), partial(_wasted, by=by)))
    n = sum(len(each.pairs) for each in found)
    return [row for labels, figure in figures for row in estimate_row(labels, found, figure, n=n, digits=".3g")]


GROUP = Group("wasted_work", (), {"compactions": _compactions}, by_default=False)
