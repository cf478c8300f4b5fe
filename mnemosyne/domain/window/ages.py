"""Ages: for how many turns without use an object stays in full, by how soon recorded sessions needed such objects
again.

A file that was read whole is edited much later than a file of which a few lines were read, and waiting costs more for a
larger one. Later operations on the file matter most: after another whole read the older copy is never quoted, and a
file of which a part was read again is being worked on. `docs/research/planning.md` has the table.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from math import log2

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, ObjectKind, Role

EDITED = "edit"
WRITTEN = frozenset({EDITED, "write"})
"""Tags of files that the agent wrote."""


class Later(IntEnum):
    """The most significant later operation on the file of an object."""

    NOTHING = 0
    EDITED = 1
    READ_IN_PART = 2
    REPLACED = 3
    """It was written, or read whole, again."""


def later_of(objects: Iterable[tuple[str, str | None, Sequence[str]]]) -> Mapping[str, Later]:
    """The later operation for each object, given (id, source key, tags) in order."""
    since: dict[str, Later] = {}
    operations: dict[str, Later] = {}
    for key, source, tags in reversed(list(objects)):
        if source is not None:
            operations[key] = since.get(source, Later.NOTHING)
            since[source] = max(operations[key], _does(tags))
    return operations


def _does(tags: Sequence[str]) -> Later:
    if "write" in tags or ("read" in tags and "whole" in tags):
        return Later.REPLACED
    if "read" in tags:
        return Later.READ_IN_PART
    return Later.EDITED if EDITED in tags else Later.NOTHING


@attrs.frozen(kw_only=True)
class Candidate:
    """One object as the planner sees it.

    ``key`` is its id. ``tokens`` are its tokens on the wire at L0 to L4 (None without such a rendition; user text stays
    at every fidelity), ``thinking`` the tokens of its thinking, which any epoch removes. ``born`` is the turn in which
    it was first sent, ``last_use`` the last turn with evidence that it is needed, ``last_fault`` the turn of its last
    fault. ``later`` is the later operation on its file; ``stale``: it does not show the current state; ``kept``: it
    must keep its fidelity at any price. ``captioned``: its L1 describes its images, and is shown in one rewrite before
    the object is evicted.
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
    captioned: bool = False

    def at(self, fidelity: Fidelity) -> int | None:
        """Tokens on the wire at a fidelity."""
        return self.tokens[fidelity]


@attrs.frozen
class Age:
    """Age limit: an object of a thousand tokens stays for ``turns`` without use, and for ``fewer`` turns less with each
    doubling of its size (more if it is smaller).
    """

    turns: int
    fewer: int = 0

    def of(self, tokens: int) -> Fraction:
        """The age limit of an object of so many tokens."""
        if not self.fewer:
            return Fraction(self.turns)
        return max(Fraction(SHORTEST), self.turns - self.fewer * Fraction(log2(max(_LEAST, tokens) / _USUAL)))


_USUAL, _LEAST = 1_000, 50

_LARGEST_DENOMINATOR = 1_000
"""Of a session's scale of ages: small enough for exact arithmetic to stay fast."""

SHORTEST = 4
"""Age limit of the largest files: a fault costs as much as reading the object again for many turns."""

DECAY = 0.7
"""The chance that an edit quotes an object falls with the power -1/DECAY of the turns since its last use."""

SIZES_HELD = 4096
"""Cache size for age limits: every turn looks up the limit of every object."""


class Quotable(Enum):
    """Objects that later edits may quote, and plans."""

    WHOLE = "whole"
    """A file that was read whole."""
    PART = "part"
    EDIT = "edit"
    """What the agent wrote: edits, files, plans and decisions."""
    ANY = "any"
    """All objects of a session together, in older logs."""


NEEDED_AGAIN: Mapping[Quotable, Fraction] = {
    Quotable.WHOLE: Fraction(27, 100),
    Quotable.PART: Fraction(1, 5),
    Quotable.EDIT: Fraction(3, 400),
    Quotable.ANY: Fraction(1, 200),
}
"""Shares of evicted objects that recorded sessions needed again, most of them by another read of the file."""


def find_quotable(kind: ObjectKind, tags: Sequence[str]) -> Quotable | None:
    """The kind of an object for later edits; None if no edit quotes it."""
    traits = KINDS[kind]
    if traits.is_conversation:
        return None
    if traits.is_settled or not WRITTEN.isdisjoint(tags):
        return Quotable.EDIT
    if not traits.is_file:
        return None
    return Quotable.WHOLE if "whole" in tags else Quotable.PART


@attrs.frozen(kw_only=True)
class Ages:
    """The age limit of each kind, in turns without use."""

    answered: Age = Age(1)
    """Output of a search, a command or a sub-agent: no edit quotes it."""
    said: Age = Age(20)
    """Assistant text, which is then shown at L2, or at L1 if it has no L2. User text stays."""
    whole: Age = Age(28, fewer=6)
    """A file that was read whole: files read while exploring are edited one after the other, much later."""
    part: Age = Age(10)
    """A partial read."""
    whole_edited: Age = Age(7, fewer=1)
    """A whole read after the file was edited: the next edit comes soon, or never."""
    part_edited: Age = Age(3)
    replaced: Age = Age(1)
    """A read, an edit or a written file after a newer object shows the whole file."""
    edit: Age = Age(65, fewer=5)
    """Edits, plans and decisions stay longest: the agent quotes them when it edits again."""
    write: Age = Age(45)
    """A file that the agent wrote, whether or not it was edited since."""
    away: Fraction = Fraction(7, 10)
    """Factor once the user has typed since the last use: it was another task."""
    needed_again: Mapping[Quotable, Fraction] = NEEDED_AGAIN
    """Expected share of evicted objects that are needed again. The session's own share scales the age limits …"""
    scales: tuple[Fraction, Fraction] = (Fraction(1, 2), Fraction(3))
    """… within these bounds."""

    def of(self, candidate: Candidate) -> Age:
        """The age limit of an object by its kind and the later operation on its file."""
        traits = KINDS[candidate.kind]
        if traits.is_conversation:
            return self.said
        if candidate.later is Later.REPLACED:
            return self.replaced
        if "write" in candidate.tags:
            return self.write
        if EDITED in candidate.tags or traits.is_settled:
            return self.edit
        if not traits.is_file:
            return self.answered
        if candidate.stale and candidate.later is Later.NOTHING:
            return self.replaced
        whole = "whole" in candidate.tags
        if candidate.later is Later.EDITED:
            return self.whole_edited if whole else self.part_edited
        return self.whole if whole else self.part


AGES = Ages()


def slow_down(objects: Sequence[Candidate], turn: int, changes: int) -> list[Candidate]:
    """The objects with adjusted ages: a file that was read whole ages half as fast until so many ``changes`` were made
    since its last use. An exploring agent reads many files at once and edits them one after the other, so changes show
    its progress better than turns do. A released object (last use 0) is not adjusted.
    """
    made = sorted(each.born for each in objects if WRITTEN & set(each.tags))

    def age(each: Candidate) -> Candidate:
        is_whole = {"read", "whole"} <= set(each.tags) and each.later is not Later.REPLACED
        if not (is_whole and each.last_use) or len(made) - bisect_right(made, each.last_use) >= changes:
            return each
        return attrs.evolve(each, last_use=turn - (turn - each.last_use) // 2)

    return [age(each) for each in objects]


@attrs.frozen
class Reuse:
    """A session's own record of one kind: how many objects it has ``evicted`` and how many were ``needed`` again."""

    evicted: int = 0
    needed: int = 0

    def scale(self, expected: Fraction) -> Fraction:
        """The factor on age limits, from the posterior mean of the session's share of objects needed again: its prior
        is a Gamma distribution around ``expected`` with the weight of one fault.
        """
        rate = (1 + self.needed) / float(1 + expected * self.evicted)
        return Fraction(rate**DECAY).limit_denominator(_LARGEST_DENOMINATOR)


NO_REUSE: Mapping[Quotable, Reuse] = {}
"""The record of a session that has evicted nothing."""


@attrs.frozen
class WindowAges:
    """Age limits in one window, divided by ``hurry`` in a full one; ``exchange`` and ``reuse`` as in ``Situation``."""

    ages: Ages
    exchange: int
    reuse: Mapping[Quotable, Reuse] = NO_REUSE
    hurry: int = 1

    def turns(self, candidate: Candidate) -> int:
        """Turns without use after which an object is old; at least one."""
        quotable, scale = find_quotable(candidate.kind, candidate.tags), (1, 1)
        if quotable is not None:
            scale = self._scales[quotable][candidate.last_use < self.exchange]
        return _count_turns(self.ages.of(candidate), candidate.tokens[0], self.hurry, scale)

    @cached_property
    def _scales(self) -> Mapping[Quotable, tuple[tuple[int, int], tuple[int, int]]]:
        """Per kind, the factor, and the factor once the user has typed since the last use, as ratios of integers."""
        least, most = self.ages.scales
        found = {}
        for quotable in Quotable:
            kind = Quotable.ANY if Quotable.ANY in self.reuse else quotable
            scale = self.reuse.get(kind, Reuse()).scale(self.ages.needed_again[kind])
            found[quotable] = min(most, max(least, scale))
        return {
            quotable: (scale.as_integer_ratio(), (scale * self.ages.away).as_integer_ratio())
            for quotable, scale in found.items()
        }


@lru_cache(SIZES_HELD)
def _count_turns(age: Age, tokens: int, hurry: int, scale: tuple[int, int]) -> int:
    return max(1, round(age.of(tokens) / hurry * Fraction(*scale)))
