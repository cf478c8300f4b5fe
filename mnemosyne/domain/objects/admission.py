"""What an object is worth to the index.

Admission decides whether an object is indexed and summarized, and nothing else: one that is not admitted stays in the
log, in the window and within reach of a restore. Refused are routine, chatter, and small output that says nothing new.
The threshold was set by what recorded sessions asked for again (docs/searching.md has the table); no weight is learned.
Novelty is counted in what the object says letter by letter, so it needs no embedding.

What takes the place of something that was admitted is admitted: the index holds the version that is true now.
"""

import re
from collections.abc import Mapping

import attrs

from mnemosyne.domain.objects.events import Admission
from mnemosyne.domain.objects.kinds import KINDS, ObjectKind, Role

WEIGHTS: Mapping[str, float] = {"type_prior": 0.35, "novelty": 0.25, "utility": 0.25, "recency": 0.15}
"""What each part counts in the score; together 1."""

THRESHOLD = 0.37
"""The score from which on an object is admitted: above ``go build: no output`` for the second time, below anything that
says much, or that somebody said. What says nothing new was asked for again as often as what is all new.
"""

RECENCY_HALF_LIFE = 50
"""Turns; half of what is quoted again was last seen two turns ago, but one in a hundred almost fifty."""

_ALL_NEW = 1 / 3
"""The share of new text from which on an object is as good as new: one about the same files shares most of its names
with what came before."""

_TELLING = 0.8
"""The prior from which on a kind is looked for in any case."""

_SMALL = 40  # tokens: below, a search finds a line that the stub says as well
_SMALL_UTILITY = 0.3
_ROUTINE_UTILITY = 0.05
_MUCH = 500  # tokens: of so much output, even of a listing, somebody may ask for a line
_UTILITY = 0.6
_TELLING_UTILITY = 0.9


@attrs.frozen(kw_only=True)
class AdmissionCandidate:
    """What is known of an object when it is made.

    ``request`` is the command of the tool call, if it had one, ``text`` at least the object's beginning. ``new_share``
    in 0…1 is the share of its specifics that no earlier object holds. ``age`` counts turns since it was last said.
    ``replaces_admitted``: it takes the place of an object that was admitted. ``refers``: it only says that another
    object holds what was asked for. Raises ValueError outside of these ranges.
    """

    kind: ObjectKind
    role: Role
    tokens: int
    text: str
    request: str | None = None
    replaces_admitted: bool = False
    refers: bool = False
    new_share: float = attrs.field(default=1.0, validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])
    age: int = attrs.field(default=0, validator=attrs.validators.ge(0))


def admit(candidate: AdmissionCandidate) -> Admission:
    """Score an object, part by part. What replaces nothing is refused where it is routine or scores too low."""
    parts = {
        "type_prior": KINDS[candidate.kind].prior,
        "novelty": min(1.0, candidate.new_share / _ALL_NEW),
        "utility": utility(candidate),
        "recency": recency(candidate.age),
    }
    score = sum(WEIGHTS[name] * part for name, part in parts.items())
    worth = score >= THRESHOLD and parts["utility"] > _ROUTINE_UTILITY
    return Admission(**parts, score=score, admitted=worth or candidate.replaces_admitted)


def recency(age: int) -> float:
    """1 for what was just said, half of it every ``RECENCY_HALF_LIFE`` turns."""
    return float(0.5 ** (age / RECENCY_HALF_LIFE))


def utility(candidate: AdmissionCandidate) -> float:
    """How likely somebody is to look for it, by rule: routine output and mere chatter hardly, what was settled or went
    wrong nearly always, little text less than much.
    """
    traits = KINDS[candidate.kind]
    if candidate.refers:
        return _ROUTINE_UTILITY
    if candidate.role is not Role.TRANSCRIPT or traits.prior >= _TELLING:
        return _TELLING_UTILITY
    if candidate.tokens < _MUCH and (
        is_chatter(candidate.text) if traits.is_conversation else is_routine(candidate.request)
    ):
        return _ROUTINE_UTILITY
    return _SMALL_UTILITY if candidate.tokens < _SMALL else _UTILITY


_ROUTINE = re.compile(
    r"(?:ls|ll|pwd|cd|tree|which|whoami|date|echo|printf|mkdir|touch|chmod|sleep|true|clear|wc|stat|du|df"
    r"|git +(?:status|add|commit|push|pull|fetch|stash|branch|checkout|switch|restore|config|remote|rev-parse|init)"
    r"|(?:pip|pip3|npm|pnpm|yarn|uv|go|cargo|poetry) +(?:install|ci|add|i|sync|fetch|mod +tidy|fmt)"
    r"|gofmt|prettier|black|ruff +format|mise +run +fmt)(?=\s|$)"
)
_BETWEEN = re.compile(r"&&|\|\||;|\n")
_QUOTED = re.compile(r"\"[^\"]*+\"|'[^']*+'")
_ASSENT = re.compile(
    r"\W*(?:(?:yes|yeah|yep|ok|okay|sure|thanks|thank you|please|great|good|perfect|nice|cool|done|go on|go ahead|"
    r"continue|proceed|do it|do that|do this|let'?s do (?:it|that|this)|lgtm|right|correct|exactly|agreed|understood|"
    r"got it|no|sounds good|looks good|and|then|now|next)\b\W*){1,8}\Z",
    re.IGNORECASE,
)
_ANNOUNCEMENT = re.compile(
    r"\W*(?:(?:now|next|first|then|good|great),? )?(?:let me|let's|now I|I'll|I will|I need to)\b", re.I
)
_LONGEST_CHATTER = 80


def is_routine(command: str | None) -> bool:
    """Whether each part of a shell command does nothing that anybody will look for: ``cd a && git status``."""
    if not command or not command.strip():
        return False
    parts = map(str.strip, _BETWEEN.split(_QUOTED.sub("''", command)))
    return all(_ROUTINE.match(part) for part in parts if part)


def is_chatter(text: str) -> bool:
    """Whether a message says no more than ``yes, go on`` or ``now let me read the file``."""
    return len(text) <= _LONGEST_CHATTER and bool(_ASSENT.match(text) or _ANNOUNCEMENT.match(text))
