"""What was brought before the model asked, whether it was used, and whether to go on with it.

What is brought costs its tokens in every request up to the next epoch. What it may save is one round: a question of the
model's, for which it reads the whole prompt once more and writes a call. So it pays where enough of it is used.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

import attrs

from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.session.goal_events import Brought, BroughtJudged, GoalChanged, GoalEvent, MemoryBrought, Why
from mnemosyne.domain.text.words import words

LAST = 40
"""So many of the last judged are remembered."""

LEAST = 6
"""Before so many are judged nothing is known."""

LEAST_HITS = Fraction(1, 4)
"""Where less of it is used, it is a distraction, whatever it costs."""

REREAD = 30
"""In so many requests, about, what was brought is read again before an epoch drops it."""

WITHIN = 24
"""Messages after it in which a use counts: in a long exchange everything is said at last."""

CALL = 150
"""Tokens that the model writes to ask."""


@attrs.frozen
class Judged:
    """Something that was brought, and whether anything of it was used."""

    why: Why
    tokens: int
    prompt: int
    hit: bool


@attrs.frozen(kw_only=True)
class Bringing:
    """What a session's branches were brought: a fold of its events.

    ``waiting`` is the last of each branch, as long as its exchange lasts. What is still there of it stands in the wire
    history itself.
    """

    waiting: Mapping[str, MemoryBrought] = attrs.field(factory=dict)
    judged: tuple[Judged, ...] = ()

    def after(self, event: GoalEvent) -> "Bringing":
        """What it is after an event."""
        match event:
            case GoalChanged():
                return self
            case MemoryBrought():
                return attrs.evolve(self, waiting={**self.waiting, event.branch: event})
            case BroughtJudged():
                brought = self.waiting.get(event.branch)
                if brought is None or brought.turn != event.turn:
                    return self
                judged = Judged(brought.why, brought.tokens, brought.prompt, hit=bool(event.used))
                waiting = {name: each for name, each in self.waiting.items() if name != event.branch}
                return attrs.evolve(self, waiting=waiting, judged=(*self.judged, judged)[-LAST:])


@attrs.frozen(kw_only=True)
class ChangeGoal:
    """The user's message begins another goal. The fields are those of GoalChanged."""

    at: int
    branch: str
    turn: int
    message: int


@attrs.frozen(kw_only=True)
class Bring:
    """Words of objects are put behind the user's message. The fields are those of MemoryBrought."""

    at: int
    branch: str
    turn: int
    message: int
    epoch: int
    why: Why
    objects: tuple[Brought, ...]
    tokens: int
    prompt: int


@attrs.frozen(kw_only=True)
class JudgeBrought:
    """The exchange is over for which something was brought last on a branch: these objects of it were ``used``."""

    at: int
    branch: str
    used: tuple[str, ...]


def decide(command: ChangeGoal | Bring | JudgeBrought, bringing: Bringing) -> tuple[GoalEvent, ...]:
    """What happens on a command; nothing where nothing waits to be judged."""
    match command:
        case ChangeGoal():
            return (GoalChanged(**attrs.asdict(command, recurse=False)),)
        case Bring():
            return (MemoryBrought(**attrs.asdict(command, recurse=False)),)
        case JudgeBrought():
            waiting = bringing.waiting.get(command.branch)
            if waiting is None:
                return ()
            return (BroughtJudged(at=command.at, branch=command.branch, turn=waiting.turn, used=command.used),)


@attrs.frozen
class Rates:
    """What a token costs, in tokens of plain input."""

    write: float
    read: float
    output: float


def pays(bringing: Bringing, why: Why, rates: Rates) -> bool:
    """Whether to go on for this reason, by what the last were worth; yes as long as nothing is known."""
    judged = [each for each in bringing.judged if each.why is why]
    if len(judged) < LEAST:
        return True
    hits = [each for each in judged if each.hit]
    if len(hits) < LEAST_HITS * len(judged):
        return False
    cost = sum(_cost(each, rates) for each in judged)
    return cost <= sum(_cost(each, rates) + _round(each, rates) for each in hits)


def _cost(each: Judged, rates: Rates) -> float:
    """Written once, read as long as it stands there; an answer to the model's own question would cost the same."""
    return each.tokens * (rates.write + REREAD * rates.read)


def _round(each: Judged, rates: Rates) -> float:
    """The round in which the model would have asked."""
    return each.prompt * rates.read + CALL * (rates.output + rates.write)


# Whether it was used


def find_used(brought: MemoryBrought, said: Iterable[str], memory: Memory) -> tuple[str, ...]:
    """The objects of which what was brought was used. ``said`` is what the agent said and did since.

    An object is used if the agent names it, says enough of what only stands there, or if anything since showed that it
    is needed: a restore, a question, something later that refers to it. A part of that is chance: on recorded sessions
    24 to 33 % of what was brought was used by this measure, and 12 to 14 % of as much taken from objects at random.
    """
    texts = list(said)
    known = {word for text in texts for word in words(text)}
    named = {name for text in texts for name in _NAMED.findall(text)}
    return tuple(each.object for each in brought.objects if _is_used(each, brought.turn, known, named, memory))


_NAMED = re.compile(re.escape(MARK) + r"([a-z0-9]{7})\b")


def _is_used(each: Brought, turn: int, known: set[str], named: set[str], memory: Memory) -> bool:
    found = memory.objects.get(each.object)
    needed = found is not None and found.last_use > turn
    said = sum(all(part in known for part in words(word)) for word in each.words)
    return needed or each.object in named or (each.enough > 0 and said >= each.enough)
