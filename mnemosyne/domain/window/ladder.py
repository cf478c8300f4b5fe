"""The fidelity ladder: how far a rewrite takes the objects that are due.

The planner decides when to rewrite, which objects are due, and their target: where they would go at once. In graded
mode a rewrite takes each of them one rung down on the way there: L0, L1, L2, the target. A form that a helper wrote is
a rung, and so is the extract at L1, if it is smaller than the present form. Short forms may take a ``share`` of the
tokens that the rewrite frees, and a helper's L2 more, but all together at most ``most``, which the session can afford:
the cheapest come first, and the next rewrite takes them down further. The zone of the window decides how many rungs.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.pressure import Zone
from mnemosyne.domain.window.ages import Candidate

ROOM = Fraction(1, 4)
"""Share of the freed tokens that short forms may take back."""

SMALLER = Fraction(9, 10)
"""A form is a rung if it has at most this share of the tokens of the form above it."""

ALL = 4
"""More rungs than any object has."""


def descend(
    objects: Sequence[Candidate],
    targets: Mapping[str, Fidelity],
    share: Fraction,
    most: Fraction,
    zone: Zone,
    since: int,
) -> dict[str, Fidelity]:
    """The fidelities of a rewrite in graded mode. ``since`` is the turn of the last rewrite."""
    fidelities = dict(targets)
    shown = []
    for each in objects:
        if each.key in targets:
            rungs = list_rungs(each, targets[each.key])
            number = min(count_rungs(each, zone, since), len(rungs)) - 1
            shown.append((_tokens_over(each, rungs[number], rungs[-1]), each, rungs[number:]))
    for tokens, each, rungs in sorted(shown, key=lambda found: found[0]):
        after = rungs[0] if tokens <= min(share, most) else rungs[-1]
        if after is rungs[-1] and Fidelity.COMPACT in rungs and _tokens_over(each, Fidelity.COMPACT, after) <= most:
            after = Fidelity.COMPACT
        fidelities[each.key] = after
        tokens = _tokens_over(each, after, rungs[-1])
        share, most = share - tokens, most - tokens
    return fidelities


def count_rungs(candidate: Candidate, zone: Zone, since: int) -> int:
    """How many rungs an object goes down. A released object is not needed at all."""
    if candidate.last_use == 0 or zone >= Zone.CRITICAL:
        return ALL
    return 2 if zone >= Zone.CAUTION and candidate.last_use < since else 1


def list_rungs(candidate: Candidate, target: Fidelity) -> list[Fidelity]:
    """The rungs below an object's fidelity, down to the target."""
    rungs, here = [], candidate.at(candidate.fidelity) or 0
    for fidelity in (Fidelity.DETAILED, Fidelity.COMPACT):
        tokens = candidate.at(fidelity)
        if candidate.fidelity < fidelity < target and tokens is not None and tokens <= SMALLER * here:
            rungs.append(fidelity)
            here = tokens
    return [*rungs, target]


def _tokens_over(candidate: Candidate, fidelity: Fidelity, target: Fidelity) -> int:
    return (candidate.at(fidelity) or 0) - (candidate.at(target) or 0)
