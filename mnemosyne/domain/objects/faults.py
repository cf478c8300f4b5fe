"""Faults: what a branch did not show was needed. How many it may have in a turn, since when it lacked what, and which
happened without a word: the agent fetched again what we hold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Fault
from mnemosyne.domain.objects.events import (
    BlockPlace,
    FaultKind,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectRestored,
    ObjectSuperseded,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.index import WHOLE, lines_of
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.thrashing import THRASH_TURNS, Refault, thrash_index

# Limits


@attrs.frozen
class FaultLimits:
    """The most that the model may have back in one turn: how often, and how many tokens together."""

    faults: int = 3
    tokens: int = 8_192

    def within(self, spent: "Spent", room: int) -> "FaultLimits":
        """No more than what a prompt has room for, beside our own words about it."""
        return attrs.evolve(self, tokens=min(self.tokens, spent.tokens + max(0, room - OWN_WORDS)))


@attrs.frozen
class Spent:
    """What it has had back in this turn, in all rounds so far."""

    faults: int = 0
    tokens: int = 0

    def after(self, tokens: int) -> "Spent":
        """With one more fault, of so many tokens."""
        return Spent(self.faults + 1, self.tokens + tokens)


LIMITS = FaultLimits()

OWN_WORDS = 1_000
"""Tokens of a window that no answer takes: for what we say of it, a search, and the reply."""


# EvictionTurns


@attrs.frozen
class EvictionTurns:
    """In which turn each branch ceased to show an object in full: a fold of a session's events."""

    turns: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)

    def find_turn(self, branch: str, object_id: str) -> int | None:
        """The turn; None if the branch shows it in full, or never showed it."""
        return self.turns.get(branch, {}).get(object_id)

    def after(self, event: ObjectEvent) -> "EvictionTurns":
        """The eviction_turns after an event."""
        match event:
            case ObjectDegraded(before=Fidelity.FULL):
                return self._with(event.branch, {**self.turns.get(event.branch, {}), event.object: event.turn})
            case ObjectRestored(after=Fidelity.FULL):
                rest = {key: turn for key, turn in self.turns.get(event.branch, {}).items() if key != event.object}
                return self._with(event.branch, rest)
            case _:
                return self

    def fork(self, branch: str, parent: str) -> "EvictionTurns":
        """With a branch that begins as its parent stands."""
        return self._with(branch, self.turns.get(parent, {}))

    def clear(self, branch: str) -> "EvictionTurns":
        """With a branch that shows all in full again."""
        return self._with(branch, {})

    def _with(self, branch: str, turns: Mapping[str, int]) -> "EvictionTurns":
        return EvictionTurns({**self.turns, branch: turns})


def thrash(faults: Iterable[ObjectFaulted], memory: Memory, branch: str, turn: int) -> float:
    """The thrash index of a branch at a turn, from the session's faults (``thrashing.thrash_index``).

    A question brings nothing back into the window, so it is no sign that the window is too small.
    """
    again = (each for each in faults if each.branch == branch and each.kind is not FaultKind.MICRO)
    recent = (each for each in again if turn - THRASH_TURNS < each.turn <= turn)
    return thrash_index((Refault(each.turn, _topic(memory.objects[each.object])) for each in recent), turn)


def _topic(each: MemoryObject) -> str:
    return each.source_key or each.id


# Without a word


def implicit(
    events: Sequence[ObjectEvent], memory: Memory, eviction_turns: EvictionTurns, *, at: int, branch: str, turn: int
) -> Iterator[Fault]:
    """The faults that are in what the agent did: it read a file or ran a command again whose result the branch does not
    show in full.

    ``events`` are what was just remembered of the turn, ``memory`` and ``eviction_turns`` are from before. To fetch
    again what has changed since is no fault of ours, and a run after something was edited tells something new. What
    came back is one fault: of the last object that showed the same.
    """
    created = [each for each in events if isinstance(each, ObjectCreated) and each.places]
    fetched = [each for each in created if each.source_key is not None and _is_fetched(each)]
    shown = memory.view_of(branch)
    if not fetched or not (shown.fidelity or shown.before):  # all stands in full
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
        )


def _is_edited(objects: Iterable[MemoryObject | ObjectCreated], after: BlockPlace, before: BlockPlace) -> bool:
    """Whether something was changed between two places."""
    ends = (each.places[-1] for each in objects if each.places and _changes(each.tags))
    return any(after < end < before for end in ends)


def _is_fetched(new: ObjectCreated) -> bool:
    """Whether a tool brought it: of a file, what was read and not what was written."""
    traits = KINDS[new.kind]
    return "read" in new.tags if traits.is_file else traits.is_fetched and not _changes(new.tags)


def _changes(tags: Iterable[str]) -> bool:
    """Whether an object with these tags changed files, or tried to."""
    return not {"edit", "write", "change"}.isdisjoint(tags)


def _shows(old: MemoryObject, new: ObjectCreated) -> bool:
    """Whether the older object holds what the newer one brought, or a part of that."""
    if old.source_key != new.source_key or old.places[-1] >= new.places[0]:
        return False
    if not (KINDS[old.kind].is_file or KINDS[new.kind].is_file):
        return True
    if old.kind is not new.kind or {"read", "write"}.isdisjoint(old.tags):
        return False
    before, after = (lines_of(tags) or (WHOLE,) for tags in (old.tags, new.tags))
    return any(one[0] <= other[1] and other[0] <= one[1] for one in before for other in after)
