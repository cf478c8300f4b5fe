"""The sizes that people and the model see: as the provider counted them where that is known, else estimates.

The provider counts whole prompts. The growth of a prompt gives the size of what its turn added, so everything that the
turn added is shown at that scale: on every page, in every table, and in the answers of the memory tools. Eviction uses
the sizes known at the time (``domain/session/ledger.py``); these scales do not affect it.
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

LEAST_GROWTH = 500
"""Estimated growth of a prompt, in tokens, below which it yields no scale."""

_FARTHEST = 2
"""A scale above this, or below its reciprocal, is ignored: something else was added or removed with that turn, such as
restored objects or the results of a hidden round.
"""

Scales = Mapping[tuple[str, int], Fraction]
"""Counted tokens per estimated token of the content that a turn of a branch added."""

ESTIMATED: Scales = {}
"""The scales that leave all sizes as estimated."""


@attrs.frozen
class CountedTurns:
    """The prompt sizes of a session's turns, by branch and number: estimated tokens (``assessed``) and tokens that the
    provider ``counted``.
    """

    assessed: Mapping[tuple[str, int], int] = attrs.field(factory=dict)
    counted: Mapping[tuple[str, int], int] = attrs.field(factory=dict)

    def after(self, event: TurnAssessed | TurnFinished | TurnInterrupted) -> "CountedTurns":
        """The turns after an event; the last attempt at a turn counts."""
        key = event.branch, event.turn
        if isinstance(event, TurnAssessed):
            return attrs.evolve(self, assessed={**self.assessed, key: event.tokens})
        used = window_of(event.usage)
        if used is None or not used.prompt:
            return self
        return attrs.evolve(self, counted={**self.counted, key: used.prompt})

    def find_scales(self) -> Scales:
        """The scales of the turns. A branch's first prompt is all new; a turn without a usable count has the scale of
        the turn before.
        """
        scales: dict[tuple[str, int], Fraction] = {}
        for (branch, turn), tokens in sorted(self.assessed.items()):
            counted, before = self.counted.get((branch, turn)), (branch, turn - 1)
            base = 0 if turn == 1 else self.counted.get(before) if before in self.assessed else None
            scale = scales.get(before, Fraction(1))
            if counted is not None and base is not None and tokens - base >= LEAST_GROWTH:
                grown = Fraction(counted - base, tokens - base)
                scale = grown if 1 <= grown * _FARTHEST <= _FARTHEST**2 else scale
            scales[branch, turn] = scale
        return scales


def scales_in(events: Iterable[Recorded[Event]]) -> Scales:
    """The scales of a session's turns."""
    recorded = (each.envelope.event for each in events)
    sized = (event for event in recorded if isinstance(event, TurnAssessed | TurnFinished | TurnInterrupted))
    return reduce(CountedTurns.after, sized, CountedTurns()).find_scales()


def tokens_of(estimate: int, branch: str, turn: int, scales: Scales) -> int:
    """Scale an estimate of content that a turn added, in tokens."""
    return round(estimate * scales.get((branch, turn), 1))


def size_object(each: MemoryObject, scales: Scales) -> MemoryObject:
    """The object with the sizes that people see."""

    def size(estimate: int) -> int:
        return tokens_of(estimate, each.branch, each.last_turn, scales)

    renditions = {
        fidelity: attrs.evolve(rendition, tokens=size(rendition.tokens))
        for fidelity, rendition in each.renditions.items()
    }
    return attrs.evolve(each, tokens=size(each.tokens), stub_tokens=size(each.stub_tokens), renditions=renditions)


def size_event(event: ObjectEvent, made: ObjectCreated, scales: Scales) -> ObjectEvent:
    """An event of the object that ``made`` created, with the size that people see."""
    if isinstance(event, ObjectCreated | ObjectSummarized):
        return attrs.evolve(event, tokens=tokens_of(event.tokens, made.branch, made.last_turn, scales))
    return event
