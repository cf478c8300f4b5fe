"""Page faults: the limits per turn, when each branch evicted each object, and implicit faults, where the agent fetches
recorded content again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

from mnemosyne.domain.objects.decide import Fault
from mnemosyne.domain.objects.events import (
    BlockPlace,
    FaultKind,
    FaultReason,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectFields,
    ObjectRestored,
    ObjectSuperseded,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.index import WHOLE, Described, lines_of
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.objects.memory import Memory

# Limits


@attrs.frozen
class FaultLimits:
    """The most that the model may restore in one turn: number of faults, and total tokens."""

    faults: int = 3
    tokens: int = 8_192


LIMITS = FaultLimits()


@attrs.frozen
class RecallBudget:
    """What the model may recall in one turn: the ``limits``, and the faults and tokens of all its rounds so far."""

    faults: int = 0
    tokens: int = 0
    limits: FaultLimits = LIMITS

    @property
    def faults_left(self) -> int:
        """The number of further faults that are allowed."""
        return max(0, self.limits.faults - self.faults)

    @property
    def tokens_left(self) -> int:
        """The tokens that may still be restored."""
        return max(0, self.limits.tokens - self.tokens)

    def after(self, tokens: int, *, faults: int = 1) -> "RecallBudget":
        """The budget after recalling ``tokens`` more. ``faults`` is 0 for what does not count as a fault."""
        return attrs.evolve(self, faults=self.faults + faults, tokens=self.tokens + tokens)

    def within(self, room: int) -> "RecallBudget":
        """The budget, limited to the ``room`` in the prompt minus a reserve for the proxy's own text."""
        most = min(self.limits.tokens, self.tokens + max(0, room - OWN_WORDS))
        return attrs.evolve(self, limits=attrs.evolve(self.limits, tokens=most))


OWN_WORDS = 1_000
"""Tokens of a window that answers must not use: reserved for the proxy's notices, a search, and the reply."""


# EvictionTurns


@attrs.frozen
class ReuseRecord:
    """The objects that a branch ever showed below L1; those of them that it needed again since; and those whose lines
    it read again, even if the file was edited in between. All only grow.
    """

    lowered: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    read_again: frozenset[str] = frozenset()

    def lower(self, key: str, after: Fidelity) -> "ReuseRecord":
        return attrs.evolve(self, lowered=self.lowered | {key}) if after > Fidelity.DETAILED else self

    def need(self, key: str) -> "ReuseRecord":
        return attrs.evolve(self, needed=self.needed | {key}) if key in self.lowered else self

    def read(self, key: str) -> "ReuseRecord":
        return attrs.evolve(self, read_again=self.read_again | {key}) if key in self.lowered else self


@attrs.frozen
class EvictionTurns:
    """The turn in which each branch ceased to show an object in full, and each branch's record of reuse: a fold of a
    session's events.
    """

    turns: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    records: Mapping[str, ReuseRecord] = attrs.field(factory=dict)

    def find_turn(self, branch: str, object_id: str) -> int | None:
        """The turn; None if the branch shows the object in full or never showed it."""
        return self.turns.get(branch, {}).get(object_id)

    def find_record(self, branch: str) -> ReuseRecord:
        """The branch's record of reuse."""
        return self.records.get(branch, ReuseRecord())

    def after(self, event: ObjectEvent, memory: Memory) -> "EvictionTurns":
        """``memory`` is from before the event."""
        match event:
            case ObjectCreated():
                shown = memory.view_of(event.branch)
                there = map(memory.objects.__getitem__, reversed(shown.objects))
                old = find_shown(event, there) if shown.fidelity else None
                if old is None or shown.fidelity_of(old.id) is Fidelity.FULL:
                    return self
                return self._record(event.branch, self.find_record(event.branch).read(old.id))
            case ObjectDegraded():
                held = self
                if event.before is Fidelity.FULL:
                    held = self._with(event.branch, {**self.turns.get(event.branch, {}), event.object: event.turn})
                return held._record(event.branch, self.find_record(event.branch).lower(event.object, event.after))
            case ObjectFaulted():
                return self._record(event.branch, self.find_record(event.branch).need(event.object))
            case ObjectRestored(after=Fidelity.FULL):
                rest = {key: turn for key, turn in self.turns.get(event.branch, {}).items() if key != event.object}
                return self._with(event.branch, rest)
            case _:
                return self

    def fork(self, branch: str, parent: str) -> "EvictionTurns":
        """The eviction turns and the record of a branch that starts with its parent's."""
        return self._with(branch, self.turns.get(parent, {}))._record(branch, self.find_record(parent))

    def clear(self, branch: str) -> "EvictionTurns":
        """The eviction turns after a branch shows everything in full again."""
        return self._with(branch, {})

    def _with(self, branch: str, turns: Mapping[str, int]) -> "EvictionTurns":
        return attrs.evolve(self, turns={**self.turns, branch: turns})

    def _record(self, branch: str, record: ReuseRecord) -> "EvictionTurns":
        return attrs.evolve(self, records={**self.records, branch: record})


# Implicit faults


def implicit(
    events: Sequence[ObjectEvent], memory: Memory, eviction_turns: EvictionTurns, *, at: int, branch: str, turn: int
) -> Iterator[Fault]:
    """Find implicit faults: the agent read a file or ran a command again whose result the branch does not show in full.

    ``events`` are the object events of this turn; ``memory`` and ``eviction_turns`` are from before it. A refetch after
    the file changed is no fault, and neither is a command that runs again after an edit. Each refetch is one fault, of
    the last object with the same content.
    """
    created = [each for each in events if isinstance(each, ObjectCreated) and each.places]
    fetched = [each for each in created if each.source_key is not None and _is_fetched(each)]
    shown = memory.view_of(branch)
    if not fetched or not (shown.fidelity or shown.before):  # everything is shown in full
        return
    keys = {each.source_key for each in fetched}
    edited = {each.object for each in events if isinstance(each, ObjectSuperseded) and each.how is Supersession.EDITED}
    there = [memory.objects[each] for each in shown.objects]
    held = [
        each for each in there if each.source_key in keys and each.places and not each.stale and each.id not in edited
    ]
    for new in fetched:
        same = [each for each in held if _shows(each, new)]
        if not same or shown.fidelity_of(same[-1].id) is Fidelity.FULL:
            continue
        old = same[-1]
        if not KINDS[new.kind].is_file and _is_edited((*there, *created), old.places[-1], new.places[0]):
            continue
        yield Fault(
            at=at,
            object=old.id,
            branch=branch,
            turn=turn,
            left=eviction_turns.find_turn(branch, old.id),
            kind=FaultKind.IMPLICIT,
            reason=f"fetched again as {MARK}{new.object}",
            tokens=new.tokens,
            why=FaultReason.PREREQUISITE,
        )


def _is_edited(objects: Iterable[ObjectFields], after: BlockPlace, before: BlockPlace) -> bool:
    """Whether something was changed between two places."""
    ends = (obj.places[-1] for obj in objects if obj.places and _changes(obj.tags))
    return any(after < end < before for end in ends)


def _is_fetched(new: ObjectCreated) -> bool:
    """Whether a tool fetched it: a file only if it was read, not if it was written."""
    traits = KINDS[new.kind]
    return "read" in new.tags if traits.is_file else traits.is_fetched and not _changes(new.tags)


def _changes(tags: Iterable[str]) -> bool:
    """Whether an object with these tags changed files, or tried to."""
    return not {"edit", "write", "change"}.isdisjoint(tags)


_Earlier = TypeVar("_Earlier", bound=Described)


def find_shown(new: Described, there: Iterable[_Earlier]) -> _Earlier | None:
    """The first of these objects that showed lines of a file that ``new`` reads; None if it reads no file, or none
    did.
    """
    if new.source_key is None or not new.places or not (KINDS[new.kind].is_file and "read" in new.tags):
        return None
    return next((each for each in there if each.places and _shows(each, new)), None)


def _shows(old: Described, new: Described) -> bool:
    """Whether the older object holds all or part of the content of the newer one."""
    if old.source_key != new.source_key or old.places[-1] >= new.places[0]:
        return False
    if not (KINDS[old.kind].is_file or KINDS[new.kind].is_file):
        return True
    if old.kind is not new.kind or {"read", "write"}.isdisjoint(old.tags):
        return False
    before, after = (lines_of(tags) or (WHOLE,) for tags in (old.tags, new.tags))
    return any(one[0] <= other[1] and other[0] <= one[1] for one in before for other in after)
