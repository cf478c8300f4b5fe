"""For how many turns without use an object stays in full: what recorded sessions say about how soon it is needed again.

A file that was read whole is edited much later than one of which a few lines were read, and the larger it is, the more
it costs to wait for that. What was done to the file since says most: one that was read whole again is never quoted from
the older copy, one to which the agent came back for a part of it is being worked on. `docs/planning.md` has the table.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from math import log2

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, ObjectKind, Role

EDITED = "edit"
WRITTEN = frozenset({EDITED, "write"})
"""Tags of what the agent wrote."""


class Later(IntEnum):
    """What was done to a file after an object showed it; of several things the greatest."""

    NOTHING = 0
    EDITED = 1
    READ_IN_PART = 2
    REPLACED = 3
    """It was written, or read whole, again."""


def later_of(objects: Iterable[tuple[str, str | None, Sequence[str]]]) -> Mapping[str, Later]:
    """What was done later to the file of each of some objects, which come in their order as key, source and tags."""
    since: dict[str, Later] = {}
    found: dict[str, Later] = {}
    for key, source, tags in reversed(list(objects)):
        if source is not None:
            found[key] = since.get(source, Later.NOTHING)
            since[source] = max(found[key], _does(tags))
    return found


def _does(tags: Sequence[str]) -> Later:
    if "write" in tags or ("read" in tags and "whole" in tags):
        return Later.REPLACED
    if "read" in tags:
        return Later.READ_IN_PART
    return Later.EDITED if EDITED in tags else Later.NOTHING


@attrs.frozen(kw_only=True)
class Candidate:
    """One object as the planner sees it.

    ``key`` names it (an id). ``tokens`` are what it takes on the wire at L0 to L4 (None where there is no such
    rendition; what the user said in it stays at each), ``thinking`` those of the thinking among them, which any epoch
    takes out. ``born`` is the turn in which it was sent first, ``last_use`` the last one in which something showed that
    it is needed, ``last_fault`` the last one in which it was missed. ``later`` is what was done to its file since,
    ``stale`` says that it no longer shows how things are, ``kept`` that it must stay as it is, whatever the price.
    """

    key: str
    kind: ObjectKind
    role: Role
    tags: tuple[str, ...]
    source_key: str | None
    fidelity: Fidelity
    tokens: tuple[int, int | None, int | None, int, int]
    thinking: int
    born: int
    last_use: int
    last_fault: int | None
    stale: bool
    kept: bool
    later: Later = Later.NOTHING

    def at(self, fidelity: Fidelity) -> int | None:
        """Tokens on the wire at a fidelity."""
        return self.tokens[fidelity]


@attrs.frozen
class Age:
    """For how many ``turns`` without use an object of a thousand tokens stays, and how many ``fewer`` for each time
    that it is twice as large (more where it is smaller).
    """

    turns: int
    fewer: int = 0

    def of(self, tokens: int) -> Fraction:
        """The turns of an object of so many tokens."""
        return self.turns - self.fewer * _doublings(tokens) if self.fewer else Fraction(self.turns)


_USUAL, _LEAST = 1_000, 50

SIZES_HELD = 4096
"""Of how many sizes it is held how often they double a usual one: an object is asked about at every turn."""


@lru_cache(SIZES_HELD)
def _doublings(tokens: int) -> Fraction:
    return Fraction(log2(max(_LEAST, tokens) / _USUAL))


@attrs.frozen(kw_only=True)
class Ages:
    """The age of each kind, in turns without use."""

    answered: Age = Age(1)
    """What a search, a command or a sub-agent answered: no edit quotes it."""
    said: Age = Age(20)
    """What the assistant said is shown in its L2 then, or its L1 where it has no L2. What the user said stays."""
    whole: Age = Age(28, fewer=6)
    """A file that was read whole: files read while exploring are edited one after the other, much later."""
    part: Age = Age(10)
    """Lines of a file."""
    whole_edited: Age = Age(7, fewer=1)
    """The same once the file was edited: the next edit of it comes soon, or never."""
    part_edited: Age = Age(3)
    whole_returned: Age = Age(32, fewer=6)
    """The same once a part of the file was read again: it is being worked on."""
    part_returned: Age = Age(12)
    replaced: Age = Age(1)
    """The same once something newer shows all of it."""
    edit: Age = Age(65, fewer=5)
    """What the agent changed, its plans and decisions stay longest: it quotes them when it edits again."""
    write: Age = Age(45)
    """A file that the agent wrote, whether or not it was edited since."""
    away: Fraction = Fraction(7, 10)
    """The part of an age that is left once the user has typed something since the last use: another task."""
    learnt: Fraction = Fraction(1, 4)
    """By so much everything stays longer for each object that was missed in this session …"""
    learnt_at_most: Fraction = Fraction(5, 2)
    """… up to so many times as long."""

    def of(self, each: Candidate) -> Age:
        """The age of an object by its kind and by what was done to its file."""
        traits = KINDS[each.kind]
        if traits.is_conversation:
            return self.said
        if "write" in each.tags:
            return self.write
        if EDITED in each.tags or traits.is_settled:
            return self.edit
        return self._of_look(each) if traits.is_file else self.answered

    def _of_look(self, each: Candidate) -> Age:
        whole = "whole" in each.tags
        match each.later:
            case Later.REPLACED:
                return self.replaced
            case Later.READ_IN_PART:
                return self.whole_returned if whole else self.part_returned
            case Later.EDITED:
                return self.whole_edited if whole else self.part_edited
            case Later.NOTHING:
                return self.replaced if each.stale else self.whole if whole else self.part


AGES = Ages()


def slow_down(objects: Sequence[Candidate], turn: int, changes: int) -> list[Candidate]:
    """The objects as they have aged at a turn: files that were read whole half as fast, until so many ``changes`` were
    made since their last use. Who explores reads many files at once, and edits them one after the other: what is still
    to be done is told by what was done, not by turns. What was released (its last use is 0) does not wait.
    """
    made = sorted(each.born for each in objects if WRITTEN & set(each.tags))

    def age(each: Candidate) -> Candidate:
        is_whole = {"read", "whole"} <= set(each.tags) and each.later is not Later.REPLACED
        if not (is_whole and each.last_use) or len(made) - bisect_right(made, each.last_use) >= changes:
            return each
        return attrs.evolve(each, last_use=turn - (turn - each.last_use) // 2)

    return [age(each) for each in objects]


@attrs.frozen
class WindowAges:
    """How long the objects of one window stay: the ages, ``exchange`` as in ``Situation``, how many objects were
    ``missed`` in this session, and by how much a full window shortens all (``hurry``).
    """

    ages: Ages
    exchange: int
    missed: int
    hurry: int = 1

    def turns(self, each: Candidate) -> int:
        """After how many turns without use an object is old; one at least."""
        if not _may_be_quoted(each):
            scale = self._usual
        else:
            scale = self._quoted_away if each.last_use < self.exchange else self._quoted
        return max(1, round(self.ages.of(each).of(each.tokens[0]) * scale))

    # By so much the age of each kind is longer or shorter, worked out once for all objects.

    @cached_property
    def _usual(self) -> Fraction:
        return Fraction(1, self.hurry)

    @cached_property
    def _quoted(self) -> Fraction:
        return min(self.ages.learnt_at_most, 1 + self.ages.learnt * self.missed) / self.hurry

    @cached_property
    def _quoted_away(self) -> Fraction:
        return self._quoted * self.ages.away


def _may_be_quoted(each: Candidate) -> bool:
    """Whether an edit may take its old text from it, or a plan is followed: what was answered or said is no such."""
    traits = KINDS[each.kind]
    return not traits.is_conversation and (traits.is_file or traits.is_settled or bool(WRITTEN & set(each.tags)))
