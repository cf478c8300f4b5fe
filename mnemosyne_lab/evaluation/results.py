"""Results of an evaluation: of one session under one policy, of all sessions, and of comparisons with alternatives.

Billed amounts are in *input-token equivalents*: tokens weighted by their price relative to a plain input token. They
and the dollars (whole nanodollars) stay exact until they are written as decimal numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, groupby

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne_lab.evaluation.judging import JudgedPlace, JudgeResult

DEARER = Fraction(102, 100)
"""A session whose bill is more than this many times the unmanaged one counts as having cost more."""


def list_ends(billed: Iterable[Fraction], without: Iterable[Fraction]) -> list[Fraction]:
    """The ratio of both running sums after each request; none while the second sum is 0."""
    sums = zip(accumulate(billed), accumulate(without), strict=True)
    return [one / other for one, other in sums if other]


@attrs.frozen(kw_only=True)
class TurnPoint:
    """One request under one policy.

    ``at`` is in seconds since the session began. ``resident`` holds the history's tokens by fidelity, L0 to L3,
    ``fixed`` the tokens of system prompt and tools. ``billed`` and ``shadow`` are the request's cost with the policy,
    restores included, and without it. ``nanodollars`` are at list prices. ``restored`` counts evicted tokens that were
    needed again.
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
        return self.fixed + sum(self.resident)


@attrs.frozen(kw_only=True)
class Epoch:
    """A rewrite: its turn and reason, its immediate extra cost (input-token equivalents), and the plan's estimate."""

    turn: int
    reason: str
    price: Fraction
    expected_price: Fraction = Fraction(0)


@attrs.frozen(kw_only=True)
class SessionResult:
    """One session under one policy.

    ``demands`` counts specifics and exact texts that the next reply took from earlier context: each is ``resident``,
    ``declared`` (one restore finds it) or ``silent``. ``exact_faults`` are the exact texts among those not resident.
    ``compactions`` counts how often its client dropped its history. If the cost without Mnemosyne is on record,
    ``nanodollars_unmanaged`` is this amount, and both amounts of the simulation were multiplied by ``scale``.
    ``places`` are those that a helper model may judge. ``steps`` counts the steps down to each fidelity.
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
    steps: Mapping[Fidelity, int] = attrs.field(factory=dict)
    scale: Fraction | None = None
    epochs: Sequence[Epoch] = ()
    points: Sequence[TurnPoint] = attrs.field(default=(), repr=False)
    places: Sequence[JudgedPlace] = attrs.field(default=(), repr=False)

    @property
    def ratio(self) -> Fraction:
        """The bill with the policy divided by the bill without; 1 if the latter is zero."""
        return self.billed / self.billed_unmanaged if self.billed_unmanaged else Fraction(1)

    def scale_to(self, recorded: int) -> "SessionResult":
        """Scale the dollars so that the cost without Mnemosyne is the recorded amount, in nanodollars."""
        if not self.nanodollars_unmanaged:
            return self
        scale = Fraction(recorded, self.nanodollars_unmanaged)
        return attrs.evolve(
            self, nanodollars=round(self.nanodollars * scale), nanodollars_unmanaged=recorded, scale=scale
        )

    @property
    def ends(self) -> list[Fraction]:
        """The ratio after each turn, as if the session had ended there."""
        return list_ends((point.billed for point in self.points), (point.shadow for point in self.points))


@attrs.frozen(kw_only=True)
class PolicyResult:
    """One policy over all sessions. ``about`` describes the policy in a sentence. A ``bound`` knows the future: a
    limit, not a candidate.
    """

    name: str
    about: str
    sessions: Sequence[SessionResult]
    bound: bool = False


@attrs.frozen(kw_only=True)
class DearerStretch:
    """After each request from ``first`` to ``last``, a ``session`` had cost more than 1.02 times the alternative, at
    most ``worst`` times. Request ``turn`` caused it, by costing ``more``; ``why`` gives the reason.
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
    """A ``policy`` compared ``against`` another one under a ``tariff``. ``billed`` is in tokens of plain input,
    ``nanodollars`` at list prices (0 for one's own machine). ``ratio`` is of all sessions together, ``dearest`` of the
    worst session. ``ends`` counts all prefixes of sessions, ``ends_dearer`` those above 1.02 times, and ``dearer``
    explains them; ``dearest_end`` is the worst. None means nothing to compare.
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
    """The result of a run. ``settings`` are its options, ``skipped`` has a sentence with file and line for each
    unusable input. ``comparisons`` are of each policy with each alternative under each tariff; ``legend`` explains them
    by name. ``verdict`` is the result in a sentence, ``judged`` the policy that it is about (None if nothing was
    managed). ``window`` describes the effect of a limited window, if there is one.
    ``developers`` is how many developers the sessions are of, 0 if that is not known of all. ``judge`` is the result of
    a helper model that compared contexts, if one was used.
    """

    settings: Mapping[str, str | int | float]
    policies: Sequence[PolicyResult]
    skipped: Sequence[str] = ()
    comparisons: Sequence[PolicyComparison] = ()
    legend: Mapping[str, str] = attrs.field(factory=dict)
    verdict: str | None = None
    judged: str | None = None
    window: Sequence[str] = ()
    developers: int = 0
    judge: JudgeResult | None = None


# Comparison of a policy with its alternatives under each tariff. Each session is also judged as if it had ended after
# each of its requests, because an average hides early ends.

SMALLER = Fraction(98, 100)
"""A prompt below this share of another means that the client dropped some of its history."""


def compare(
    tariff: str, policy: str, against: str, managed: Sequence[SessionResult], others: Sequence[SessionResult]
) -> PolicyComparison:
    """Compare two policies on the same sessions, given in the same order."""
    pairs = list(zip(managed, others, strict=True))
    billed, whole = (sum((each.billed for each in results), Fraction(0)) for results in (managed, others))
    ratios = [(one.billed / other.billed, one.name) for one, other in pairs if other.billed]
    worst, name = max(ratios, key=lambda each: each[0], default=(None, ""))
    ends = [(end, one.name) for one, other in pairs for end in ends_of(one, other)]
    worst_end, end_name = max(ends, key=lambda each: each[0], default=(None, ""))
    return PolicyComparison(
        tariff=tariff,
        policy=policy,
        against=against,
        billed=billed,
        billed_against=whole,
        nanodollars=sum(each.nanodollars for each in managed),
        nanodollars_against=sum(each.nanodollars for each in others),
        ratio=billed / whole if whole else None,
        dearest=worst,
        dearest_session=name,
        ends=len(ends),
        ends_dearer=sum(end > DEARER for end, _ in ends),
        dearest_end=worst_end,
        dearest_end_session=end_name,
        dearer=[each for one, other in pairs for each in find_dearer(one, other)],
    )


def ends_of(managed: SessionResult, other: SessionResult) -> list[Fraction]:
    """For each request, the ratio of both bills if the session had ended after it."""
    return list_ends((point.billed for point in managed.points), (point.billed for point in other.points))


def find_dearer(managed: SessionResult, other: SessionResult) -> Iterator[DearerStretch]:
    """The stretches of requests after which a session cost more than 1.02 times as much. Each names the request that
    added most since the session was last no dearer.
    """
    more = [one.billed - without.billed for one, without in zip(managed.points, other.points, strict=True)]
    sums = list(accumulate(more))
    ends = ends_of(managed, other)
    if len(ends) < len(more):  # a free session has no ratio
        return
    for is_dearer, group in groupby(range(len(ends)), lambda number: ends[number] > DEARER):
        stretch = list(group)
        if is_dearer:
            first = stretch[0]
            since = max((number + 1 for number in range(first) if sums[number] <= 0), default=0)
            turn = max(range(since, first + 1), key=more.__getitem__)
            yield DearerStretch(
                session=managed.name,
                first=managed.points[first].turn,
                last=managed.points[stretch[-1]].turn,
                worst=max(ends[number] for number in stretch),
                turn=managed.points[turn].turn,
                more=more[turn],
                why=_explain(managed, other, turn),
            )


def _explain(managed: SessionResult, other: SessionResult, number: int) -> str:
    point = managed.points[number]
    for epoch in managed.epochs:
        if epoch.turn == point.turn:
            return f"rewritten: {epoch.reason}"
    if point.restored:
        return f"{point.restored:,} tokens that had left were needed"
    if other.points[number].prompt < SMALLER * point.prompt:
        return "the other client had dropped some of its history"
    return "its prompt was larger, or less of it was in the cache"
