"""How large a thing is, as people and the model are told: as the provider counted, where that is known, else estimated.

The provider counts whole prompts. By how much one grew tells of what came with its turn; so everything that came with
it is shown at that scale: on every page, in every table, and in what the memory tools answer. What leaves the window is
decided with what was known then (``domain/session/ledger.py``), and does not change by it.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import reduce

import attrs

from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import ObjectCreated, ObjectEvent, ObjectSummarized, TurnAssessed
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event, TurnFinished, TurnInterrupted

MUCH = 500
"""A prompt that was thought to grow by fewer tokens tells too little."""

_FARTHEST = 2
"""Where it grew by more than so many times what was thought, or by less than its so-manieth part, something else came
or left with that turn: what memory brought, what a hidden round added.
"""

Scales = Mapping[tuple[str, int], Fraction]
"""What the provider counted for each estimated token of what came with a turn of a branch."""

ESTIMATED: Scales = {}
"""By which sizes stay as they were estimated."""


@attrs.frozen(kw_only=True)
class TurnSize:
    """A turn's prompt: the tokens that it was thought to have, and those that the provider ``counted``, if it did."""

    branch: str
    turn: int
    tokens: int
    counted: int | None


def find_scales(turns: Iterable[TurnSize]) -> Scales:
    """The scales of turns. A branch's first prompt came whole; a turn that does not tell has that of the one before."""
    known = {(each.branch, each.turn): each for each in turns}
    found: dict[tuple[str, int], Fraction] = {}
    for branch, turn in sorted(known):
        each, before = known[branch, turn], known.get((branch, turn - 1))
        base = 0 if turn == 1 else before.counted if before is not None else None
        scale = found.get((branch, turn - 1), Fraction(1))
        if each.counted is not None and base is not None and each.tokens - base >= MUCH:
            grown = Fraction(each.counted - base, each.tokens - base)
            scale = grown if 1 <= grown * _FARTHEST <= _FARTHEST**2 else scale
        found[branch, turn] = scale
    return found


@attrs.frozen
class CountedTurns:
    """The turns of a session by branch and number: how many tokens the prompt of each was thought to have, and how many
    the provider ``counted``.
    """

    assessed: Mapping[tuple[str, int], int] = attrs.field(factory=dict)
    counted: Mapping[tuple[str, int], int] = attrs.field(factory=dict)

    def after(self, event: TurnAssessed | TurnFinished | TurnInterrupted) -> "CountedTurns":
        """The turns after an event; the last attempt at one tells."""
        key = event.branch, event.turn
        if isinstance(event, TurnAssessed):
            return attrs.evolve(self, assessed={**self.assessed, key: event.tokens})
        used = window_of(event.usage)
        if used is None or not used.prompt:
            return self
        return attrs.evolve(self, counted={**self.counted, key: used.prompt})

    def find_scales(self) -> Scales:
        """The scales of the turns."""
        return find_scales(
            TurnSize(branch=branch, turn=turn, tokens=tokens, counted=self.counted.get((branch, turn)))
            for (branch, turn), tokens in self.assessed.items()
        )


def scales_in(events: Iterable[Recorded[Event]]) -> Scales:
    """The scales of a session's turns."""
    happened = (each.envelope.event for each in events)
    telling = (event for event in happened if isinstance(event, TurnAssessed | TurnFinished | TurnInterrupted))
    return reduce(CountedTurns.after, telling, CountedTurns()).find_scales()


def tokens_of(estimate: int, branch: str, turn: int, scales: Scales) -> int:
    """How many tokens something takes that came with a turn, and was estimated."""
    return round(estimate * scales.get((branch, turn), 1))


def size_object(each: MemoryObject, scales: Scales) -> MemoryObject:
    """The object with the sizes that people are told."""

    def size(estimate: int) -> int:
        return tokens_of(estimate, each.branch, each.last_turn, scales)

    renditions = {
        fidelity: attrs.evolve(rendition, tokens=size(rendition.tokens))
        for fidelity, rendition in each.renditions.items()
    }
    return attrs.evolve(each, tokens=size(each.tokens), stub_tokens=size(each.stub_tokens), renditions=renditions)


def size_event(event: ObjectEvent, made: ObjectCreated, scales: Scales) -> ObjectEvent:
    """What happened to the object that was ``made`` so, with the size that people are told."""
    if isinstance(event, ObjectCreated | ObjectSummarized):
        return attrs.evolve(event, tokens=tokens_of(event.tokens, made.branch, made.last_turn, scales))
    return event
