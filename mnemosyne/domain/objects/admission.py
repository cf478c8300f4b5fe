"""Admission to the search index.

Admission decides only whether an object is indexed and summarized. An object that is not admitted stays in the log and
in the window, and can still be restored. The rules reject small output without new content, and answers that only
refer to another object; they read no text, only its size and specifics. The threshold was set by what recorded sessions
asked for again; no weight is learned. Novelty is counted in literal specifics, so it needs no embedding.

An object that replaces an admitted one is admitted too, so the index holds the current version.
"""

from collections.abc import Mapping

import attrs

from mnemosyne.domain.objects.events import Admission
from mnemosyne.domain.objects.kinds import KINDS, ObjectKind, Role

WEIGHTS: Mapping[str, float] = {"type_prior": 0.35, "novelty": 0.25, "utility": 0.25, "recency": 0.15}
"""Weight of each part in the score; they add up to 1."""

THRESHOLD = 0.37
"""Score from which an object is admitted: above a repeated ``go build: no output``, below any substantial output and
below every user message. Content without novelty was requested again as often as content that is entirely new.
"""

RECENCY_HALF_LIFE = 50
"""Turns. Half of the quoted content was last seen two turns earlier, but one in a hundred almost fifty turns earlier.
"""

_ALL_NEW = 1 / 3
"""Share of new specifics from which an object counts as entirely new: an object about the same files shares most of its
names with earlier objects.
"""

_TELLING = 0.8
"""Type prior from which a kind is always considered worth searching for."""

_SMALL = 40  # tokens: below this, a search returns no more than the stub already shows
_SMALL_UTILITY = 0.3
_NO_UTILITY = 0.05
_UTILITY = 0.6
_TELLING_UTILITY = 0.9


@attrs.frozen(kw_only=True)
class AdmissionCandidate:
    """Admission inputs of a new object.

    ``new_share`` in 0…1 is the share of its specifics that no earlier object holds. ``age`` is the number of turns
    since its text last appeared. ``replaces_admitted``: it replaces an admitted object. ``refers``: it only states that
    another object holds the requested content. Raises ValueError outside these ranges.
    """

    kind: ObjectKind
    role: Role
    tokens: int
    replaces_admitted: bool = False
    refers: bool = False
    new_share: float = attrs.field(default=1.0, validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    age: int = attrs.field(default=0, validator=attrs.validators.ge(0))


def admit(candidate: AdmissionCandidate) -> Admission:
    """Score an object part by part. Unless it replaces an admitted one, it is rejected if it only refers to another
    object or scores too low.
    """
    parts = {
        "type_prior": KINDS[candidate.kind].prior,
        "novelty": min(1.0, candidate.new_share / _ALL_NEW),
        "utility": utility(candidate),
        "recency": recency(candidate.age),
    }
    score = sum(WEIGHTS[name] * part for name, part in parts.items())
    worth = score >= THRESHOLD and parts["utility"] > _NO_UTILITY
    return Admission(**parts, score=score, admitted=worth or candidate.replaces_admitted)


def recency(age: int) -> float:
    """Return 1 for current text, halved every ``RECENCY_HALF_LIFE`` turns."""
    return float(0.5 ** (age / RECENCY_HALF_LIFE))


def utility(candidate: AdmissionCandidate) -> float:
    """Estimate by rule how likely the object is to be searched for: nearly always for decisions and failures, and less
    for short text than for long text.
    """
    traits = KINDS[candidate.kind]
    if candidate.refers:
        return _NO_UTILITY
    if candidate.role is not Role.TRANSCRIPT or traits.prior >= _TELLING:
        return _TELLING_UTILITY
    return _SMALL_UTILITY if candidate.tokens < _SMALL else _UTILITY
