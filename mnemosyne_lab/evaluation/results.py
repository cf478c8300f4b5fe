"""What an evaluation found, as values: one session under one policy, and all of them together.

Billed amounts are in *input-token equivalents*: tokens times what they cost relative to a plain input token. They stay
exact while they are added, as do dollars in whole nanodollars; both become decimal numbers only when they are written.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

import attrs

DEARER = Fraction(102, 100)
"""A session whose bill is more than this many times the unmanaged one counts as having cost more."""


STRETCH = 10
"""Requests in which it is counted what is read again, after a compaction and elsewhere."""


@attrs.frozen(kw_only=True)
class TurnPoint:
    """One request under one policy.

    ``at`` is in seconds since the session began. ``resident`` holds the tokens of the history by fidelity, L0 to L3,
    ``fixed`` those of system prompt and tools. ``billed`` and ``shadow`` are what this request costs with the policy,
    the rounds of its restores included, and without (the real session's). ``nanodollars`` are what it costs at list
    prices, whatever it is weighed in. ``restored`` are tokens that had left and were needed.
    """

    turn: int
    at: float
    resident: tuple[int, int, int, int]
    fixed: int
    unmanaged_tokens: int
    billed: Fraction
    shadow: Fraction
    nanodollars: int = 0
    restored: int = 0

    @property
    def prompt(self) -> int:
        """Tokens of all that was sent."""
        return self.fixed + sum(self.resident)


@attrs.frozen(kw_only=True)
class Epoch:
    """One rewrite: before which turn, why, what it cost more at once (input-token equivalents), what the plan expected
    of that, and in how many turns it was expected to pay.
    """

    turn: int
    reason: str
    price: Fraction
    expected_payback: int | None
    expected_price: Fraction = Fraction(0)


@attrs.frozen(kw_only=True)
class ProbeTally:
    """Probes ``about`` something, at all rewrites of a session: of those that were ``asked`` so many stood in the
    window ``before`` it, and after it so many are ``resident``, are not and are ``answered`` by memory, are only
    ``named`` by what is there, or are ``lost``. A planted fact is asked for whether or not anything was rewritten.
    """

    about: str
    asked: int
    before: int
    resident: int
    answered: int
    named: int
    lost: int


@attrs.frozen(kw_only=True)
class Rereads:
    """How many files are read again, and in how many tokens, in the requests after one of so many ``compactions``, and
    in as many requests elsewhere in the same sessions. ``least`` and ``most`` are the files more where each session is
    left out once.
    """

    compactions: int
    files: Fraction
    files_elsewhere: Fraction
    tokens: Fraction
    tokens_elsewhere: Fraction
    least: Fraction
    most: Fraction


@attrs.frozen(kw_only=True)
class SessionResult:
    """One session under one policy. ``fault_distances`` are in turns, one for each demand that was not resident.

    ``demands`` counts specifics and exact texts that the next reply took from earlier context: each is ``resident``,
    ``declared`` (one restore finds it) or ``silent``. ``exact_faults`` are the exact texts among those not resident.
    ``compactions`` counts how often its client dropped its history.
    """

    name: str
    turns: int
    tokens_sent: int
    tokens_unmanaged: int
    billed: Fraction
    billed_unmanaged: Fraction
    nanodollars: int
    nanodollars_unmanaged: int
    evictions: int
    exact_faults: int
    demands: int
    resident: int
    declared: int
    silent: int
    wire_violations: int
    compactions: int = 0
    epochs: Sequence[Epoch] = ()
    fault_distances: Sequence[int] = ()
    points: Sequence[TurnPoint] = attrs.field(default=(), repr=False)

    @property
    def ratio(self) -> Fraction:
        """Billed with the policy over billed without."""
        return self.billed / self.billed_unmanaged if self.billed_unmanaged else Fraction(1)

    @property
    def ends(self) -> list[Fraction]:
        """The same for each turn, had the session ended there: no policy but a limit knows what comes."""
        sums = zip(
            accumulate(point.billed for point in self.points),
            accumulate(point.shadow for point in self.points),
            strict=True,
        )
        return [billed / shadow for billed, shadow in sums if shadow]


@attrs.frozen(kw_only=True)
class PolicyResult:
    """One policy over all sessions. ``about`` says in a sentence what the policy does.

    A ``bound`` knows the future: it says what is possible at all, and is no candidate.
    """

    name: str
    about: str
    sessions: Sequence[SessionResult]
    bound: bool = False


@attrs.frozen(kw_only=True)
class DearerStretch:
    """After each request from ``first`` to ``last`` a ``session`` had cost more than 1.02 times what it would have cost
    otherwise, at worst ``worst`` times. It was made so by request ``turn``, which cost ``more`` than otherwise, and
    ``why``.
    """

    session: str
    first: int
    last: int
    worst: Fraction
    turn: int
    more: Fraction
    why: str


@attrs.frozen(kw_only=True)
class PolicyComparison:
    """``policy`` under a ``tariff``, ``against`` another one. ``billed`` is in tokens of plain
    input, ``nanodollars`` are at list prices (0 for a machine of one's own). ``ratio`` is of all sessions together,
    ``dearest`` that of the session that fared worst. ``ends`` are all prefixes of sessions, ``ends_dearer`` those above
    1.02 times, and ``dearer`` what made them so. ``dearest_end`` is the worst of them, in ``dearest_end_session``. What
    is None has nothing to compare with.
    """

    tariff: str
    policy: str
    against: str
    billed: Fraction
    billed_against: Fraction
    nanodollars: int
    nanodollars_against: int
    ratio: Fraction | None
    dearest: Fraction | None
    dearest_session: str
    ends: int
    ends_dearer: int
    dearest_end: Fraction | None
    dearest_end_session: str
    dearer: Sequence[DearerStretch] = ()


@attrs.frozen(kw_only=True)
class Evaluation:
    """Everything one run found. ``settings`` is what was asked for, ``skipped`` a sentence for each input that could
    not be used, naming file and line. ``comparisons`` are of each policy with what could have been without it, under
    each tariff; ``legend`` says what these are, by name. ``verdict`` is what it came to in one sentence, and ``judged``
    the policy that it is about; None where nothing was managed. ``verdicts`` are of each tariff. ``probes`` are what
    can still be told after rewrites, by policy, and ``rereads`` what compactions cost, where that was asked for.
    ``window`` says in sentences what happens in a window of a certain size, where one was asked for.
    """

    settings: Mapping[str, str | int | float]
    policies: Sequence[PolicyResult]
    skipped: Sequence[str] = ()
    comparisons: Sequence[PolicyComparison] = ()
    legend: Mapping[str, str] = attrs.field(factory=dict)
    verdict: str | None = None
    verdicts: Mapping[str, str] = attrs.field(factory=dict)
    judged: str | None = None
    probes: Mapping[str, Sequence[ProbeTally]] = attrs.field(factory=dict)
    rereads: Rereads | None = None
    window: Sequence[str] = ()
