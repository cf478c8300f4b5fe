"""Detect an agent that makes no progress: repeated calls with the same result, and ignored results.

The findings are observations for people, folded from the calls alone; they stop no agent. Normal work can look similar,
such as a linter with the same output after each change. So only repetitions within one exchange, with hardly any calls
in between, count.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import attrs

from mnemosyne.domain.history.calls import AnsweredCall, read_calls
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.assembly import ASIDE
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.transcript import Transcript

RUNAWAY = 3
"""Number of calls with the same result from which on the agent counts as a runaway."""

BETWEEN = 2
"""Maximum number of other calls between two of them."""


@attrs.frozen(kw_only=True)
class Repetition:
    """A call that was made ``times`` times with the same result. ``turns`` are the turns of its first and last result,
    ``given`` is a line of its input, ``said`` the beginning of its result.
    """

    tool: str
    given: str
    said: str
    times: int
    turns: tuple[int, int]


def find_repetitions(calls: Iterable[AnsweredCall]) -> tuple[Repetition, ...]:
    """All repetitions, in the order in which they began."""
    runs: dict[object, list[list[tuple[int, AnsweredCall]]]] = {}
    for number, call in enumerate(calls):
        if call.tool.lower() in _WAITING:
            continue
        same = runs.setdefault(_key(call), [])
        if not same or number - same[-1][-1][0] > BETWEEN + 1:
            same.append([])
        same[-1].append((number, call))
    found = [(run[0][0], each) for same in runs.values() for run in same if (each := _judge(run)) is not None]
    return tuple(each for _, each in sorted(found, key=lambda pair: pair[0]))


LOOKED_AT = 2 * (RUNAWAY * (BETWEEN + 1) + 1)
"""Messages at the end of a history that are enough to detect a runaway."""


def note_repetition(read: Transcript, history: UpstreamHistory) -> UpstreamHistory:
    """Add a line after the last message of a request if it contains the third, sixth, … equal result of the same call.
    In dialects where a result is an element of its own, the history is unchanged: there is no place for a line.
    """
    count = len(read.messages)
    if not count or read.dialect is not MESSAGES:
        return history
    first = max(0, count - LOOKED_AT)
    seen = [SeenMessage(each, read.messages[each].role, each, read.blocks(each)) for each in range(first, count)]
    late = [each for each in find_repetitions(read_calls(seen)) if each.turns[1] == count - 1]
    again = next((each for each in late if each.times % RUNAWAY == 0), None)
    if again is None:
        return history
    line = f"{ASIDE}{again.tool} was called {again.times} times with the same answer.]"
    return attrs.evolve(
        history, messages=upstream_history.tell(history.messages, history.ends, count - 1, line, history.dialect)
    )


def _judge(run: Sequence[tuple[int, AnsweredCall]]) -> Repetition | None:
    first, last = run[0][1], run[-1][1]
    if len(run) < RUNAWAY and not any(_follows(one, other) for one, other in pairwise(run)):
        return None
    return Repetition(
        tool=plain(first.tool, 60),
        given=plain(_line_of(first), 120),
        said=plain(first.said, 120),
        times=len(run),
        turns=(first.turn, last.turn),
    )


def _follows(one: tuple[int, AnsweredCall], other: tuple[int, AnsweredCall]) -> bool:
    """Whether a call was made directly after the result of another."""
    return other[0] == one[0] + 1 and one[1].turn < other[1].turn


_ASIDE = frozenset({"description", "timeout"})
"""Input fields that do not affect the result of a call."""

_MEASURED = re.compile(r"\b\d+\.\d+|\b\d{1,2}(?::\d{2}){1,2}\b")
"""Fractions and times of day, which may differ between results that count as equal: how long a run took, and when."""

_WAITING = frozenset({"bashoutput", "taskoutput", "agentoutput", "wait", "wait_agent", "write_stdin"})
"""The clients' tools that poll a running task, in lower case: their calls are expected to repeat."""


def _key(call: AnsweredCall) -> object:
    asked = json.dumps({key: call.given[key] for key in call.given if key not in _ASIDE}, sort_keys=True, default=str)
    return call.exchange, call.tool, asked, _MEASURED.sub("", call.said)


def _line_of(call: AnsweredCall) -> str:
    texts = [each for key, each in call.given.items() if isinstance(each, str) and key not in _ASIDE]
    return texts[0] if texts else json.dumps(dict(call.given), default=str)
