"""An evaluation as JSON: for each policy every session's figures, their sums, and the ratios that are judged.

The other reports are made of this value, so that no two of them can say different things. The same evaluation gives
the same bytes: nothing in it is of the day or the machine, and exact amounts are rounded once, here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import attrs

from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.figures import printable
from mnemosyne_lab.evaluation.judging import JudgeResult
from mnemosyne_lab.evaluation.results import DEARER, Evaluation, PolicyComparison, PolicyResult, SessionResult
from mnemosyne_lab.evaluation.verdict import closeness


def report_json(evaluation: Evaluation) -> str:
    """The report as ASCII text that ends with a newline."""
    return json.dumps(report(evaluation), indent=2, allow_nan=False) + "\n"


def report(evaluation: Evaluation) -> dict[str, Any]:
    """``{"verdict", "judged", "settings", "skipped", "comparisons", "legend", "policies", "window",
    "closeness", "judge"}``; ``policies`` is ``{NAME: {"about", "bound", "totals", "sessions"}}``.

    Billed amounts are in input-token equivalents. A ratio with denominator zero is None. Raises ``ValueError`` if two
    policies share a name.
    """
    names = [policy.name for policy in evaluation.policies]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two policies are named {name!r}; rename one.")
    return {
        "verdict": evaluation.verdict,
        "judged": evaluation.judged,
        "settings": dict(evaluation.settings),
        "skipped": list(evaluation.skipped),
        "comparisons": [_comparison(each) for each in evaluation.comparisons],
        "legend": dict(evaluation.legend),
        "policies": {policy.name: _policy(policy) for policy in evaluation.policies},
        "window": list(evaluation.window),
        "closeness": closeness(evaluation),
        "judge": None if evaluation.judge is None else _judge(evaluation.judge),
    }


def _judge(found: JudgeResult) -> dict[str, Any]:
    """The verdicts of the helper model, with its reasons and their quotations."""
    return {
        "policy": found.policy,
        "helper": found.helper,
        "sampled": found.sampled,
        "judged": len(found.judgements) - len(found.rejected),
        "equivalent": found.equivalent,
        "not_equivalent": [
            {
                "session": place.session,
                "turn": place.turn,
                "differences": [{"why": each.why, "quote": each.quote} for each in differences],
            }
            for place, differences in found.different
        ],
        "rejected": [
            {"session": place.session, "turn": place.turn, "reasons": list(reasons)}
            for place, reasons in found.rejected
        ],
        "dollars": found.nanodollars / NANODOLLARS,
    }


def _comparison(found: PolicyComparison) -> dict[str, Any]:
    ratios = {name: getattr(found, name) for name in ("ratio", "dearest", "dearest_end")}
    return {
        **attrs.asdict(found),
        **{name: round_amount(getattr(found, name), 3) for name in ("billed", "billed_against")},
        **{name: None if value is None else round_amount(value, 4) for name, value in ratios.items()},
        "share_of_ends_dearer": _ratio(found.ends_dearer, found.ends, digits=6),
        "dearer": [
            {**attrs.asdict(each), "worst": round_amount(each.worst, 4), "more": round_amount(each.more, 3)}
            for each in found.dearer
        ],
    }


def _policy(policy: PolicyResult) -> dict[str, Any]:
    sessions = [{"name": session.name, **_sums([session])} for session in policy.sessions]
    return {"about": policy.about, "bound": policy.bound, "totals": _totals(policy.sessions), "sessions": sessions}


_DEMANDS = ("evictions", "exact_faults", "demands", "resident", "declared", "silent", "wire_violations")


def _sums(sessions: Sequence[SessionResult]) -> dict[str, Any]:
    def add(name: str) -> Any:
        return sum(getattr(session, name) for session in sessions)

    return {
        **{name: add(name) for name in ("turns", "tokens_sent", "tokens_unmanaged")},
        **{name: round_amount(add(name), 3) for name in ("billed", "billed_unmanaged")},
        "dollars": add("nanodollars") / NANODOLLARS,
        "dollars_unmanaged": add("nanodollars_unmanaged") / NANODOLLARS,
        "epochs": sum(len(session.epochs) for session in sessions),
        **{name: add(name) for name in _DEMANDS},
    }


def _totals(sessions: Sequence[SessionResult]) -> dict[str, Any]:
    sums = _sums(sessions)
    steps = {rung.label: sum(session.steps.get(rung, 0) for session in sessions) for rung in list(Fidelity)[1:]}
    billed = sum((session.billed for session in sessions), Fraction(0))
    unmanaged = sum((session.billed_unmanaged for session in sessions), Fraction(0))
    dearest = max(sessions, key=lambda session: session.ratio, default=None)
    dearer = sum(session.ratio > DEARER for session in sessions)
    return {
        **sums,
        "steps": steps,
        "sessions": len(sessions),
        "billed_ratio": _ratio(billed, unmanaged),
        "nominal_ratio": _ratio(sums["tokens_sent"], sums["tokens_unmanaged"]),
        "dearest_session": dearest and {"name": dearest.name, "ratio": round_amount(dearest.ratio, 4)},
        "share_of_sessions_dearer": _ratio(dearer, len(sessions)),
        "exact_faults_per_eviction": _ratio(sums["exact_faults"], sums["evictions"], digits=6),
        "share_of_steps_to_short_forms": _ratio(steps["L1"] + steps["L2"], sum(steps.values())),
        "share_resident": _ratio(sums["resident"], sums["demands"], digits=6),
        "faults_per_thousand_demands": _ratio(1000 * (sums["declared"] + sums["silent"]), sums["demands"]),
        "silent_per_thousand_demands": _ratio(1000 * sums["silent"], sums["demands"]),
        "epochs_per_session": _ratio(sums["epochs"], len(sessions)),
    }


def _ratio(part: Fraction | int, whole: Fraction | int, *, digits: int = 4) -> float | None:
    return round_amount(Fraction(part) / whole, digits) if whole else None


def round_amount(value: Fraction | int, digits: int) -> float:
    """The exact amount as a decimal number. Rounding is exact too: no sum of floats comes before it."""
    return float(round(Fraction(value), digits))


# The columns of the comparison, shared by terminal and page

Totals = Mapping[str, Any]
"""The ``totals`` of one policy in the JSON report."""

NOTHING = "–"  # noqa: RUF001 - a dash, where there is no number


@attrs.frozen
class Column:
    """A table column that shows the figure ``key`` of the totals; ``words`` explain it."""

    title: str
    key: str
    form: str
    words: str

    def value(self, totals: Totals) -> float | None:
        """A policy's figure; for the dearest session, its ratio. None if there is nothing to compare."""
        found = totals[self.key]
        value: float | None = found["ratio"] if isinstance(found, Mapping) else found
        return value

    def text(self, totals: Totals) -> str:
        """The cell of a policy, for people."""
        value = self.value(totals)
        return NOTHING if value is None else self.form.format(value)


_BILLED = "the total cost of all sessions in input-token equivalents, relative to the same sessions unmanaged"
_DEAREST = "the billed ratio of the session with the highest one (its name is next to it or below)"
_RESIDENT = "share of demands (exact texts and specifics that the next reply took from earlier) that were still sent"
_SILENT = "demands that were neither sent nor named by anything sent: each one is a defect"
_NOMINAL = "tokens sent, relative to unmanaged; it differs from the cost because of the cache"
_DEARER = "share of sessions that cost more than 1.02 times the unmanaged one"
_FAULTS = "exact texts that were needed but evicted, per eviction"
_STEPS = "share of the steps down that end at a short form"

COLUMNS: Sequence[Column] = (
    Column("billed", "billed_ratio", "{:.3f}", _BILLED),
    Column("nominal", "nominal_ratio", "{:.3f}", _NOMINAL),
    Column("dearest", "dearest_session", "{:.3f}", _DEAREST),
    Column(">1.02", "share_of_sessions_dearer", "{:.0%}", _DEARER),
    Column("faults/evict", "exact_faults_per_eviction", "{:.2%}", _FAULTS),
    Column("to L1, L2", "share_of_steps_to_short_forms", "{:.0%}", _STEPS),
    Column("resident", "share_resident", "{:.1%}", _RESIDENT),
    Column("silent", "silent", "{:d}", _SILENT),
    Column("epochs", "epochs_per_session", "{:.1f}", "rewrites for each session"),
    Column("$", "dollars", "{:.2f}", "dollars for all sessions, input side only"),
)


def denominator(told: Mapping[str, Any]) -> str:
    """A sentence about the denominator of a JSON report's ratios."""
    return _IN_A_WINDOW if told["window"] else _DENOMINATOR


def wire_sentence(policies: Mapping[str, Any]) -> str:
    """The number of requests that break a wire rule, by policy, in a sentence."""
    broken = {name: policy["totals"]["wire_violations"] for name, policy in policies.items()}
    told = ", ".join(f"{printable(name)} {count}" for name, count in broken.items() if count)
    return f"Requests that violate a protocol rule: {told or 'none, under any policy'}."


_DENOMINATOR = (
    "Each ratio is relative to the actual cost of the same client, including its own compactions and cache hits."
)
_IN_A_WINDOW = "Each ratio is relative to a client that compacts by itself in this window (native)."
LIMITS = (
    "The agent is a recording and does not react to the changed context. These numbers do not show what it would have"
    " done differently, or whether it would have asked for missing content."
)

AGAINST: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], str]]] = (
    ("billed", "the total cost of all sessions, relative to the alternative", lambda row: _ratio_text(row["ratio"])),
    ("dearest", "the same for the session with the highest ratio", lambda row: _ratio_text(row["dearest"])),
    (
        "ends>1.02",
        "share of requests after which the session, had it ended there, would have cost more than 1.02 times as much",
        lambda row: NOTHING if row["share_of_ends_dearer"] is None else f"{row['share_of_ends_dearer']:.1%}",
    ),
    ("worst end", "the highest of these ratios", lambda row: _ratio_text(row["dearest_end"])),
)
"""The columns of a comparison: title, words, and the cell for a row of the JSON report."""


def _ratio_text(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def rows_of_comparisons(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The comparisons of the judged policy in a JSON report."""
    return [row for row in told["comparisons"] if row["policy"] == told["judged"]]


STRETCHES_SHOWN = 12

STRETCHES: Mapping[str, str] = {
    **dict.fromkeys(("session", "after requests", "worst end"), ""),
    "for request": "the request that added most to the difference since the session last cost no more",
    "tokens": "its added cost, in tokens of plain input",
    "why": "",
}
"""Explanations of the columns of the table of dearer ends, by title."""


def rows_of_dearer(told: Mapping[str, Any]) -> list[list[str]]:
    """A row for each stretch of dearer ends in a JSON report, longest first: the tariff and the cells of STRETCHES.
    The comparison is with reality, or with the client that replaces it in a window.
    """
    rows = rows_of_comparisons(told)
    against = rows[0]["against"] if rows else ""
    found = [(row["tariff"], each) for row in rows if row["against"] == against for each in row["dearer"]]
    found.sort(key=lambda each: each[1]["first"] - each[1]["last"])
    return [
        [
            tariff,
            printable(each["session"]),
            f"{each['first']}-{each['last']}" if each["first"] < each["last"] else str(each["first"]),
            _ratio_text(each["worst"]),
            str(each["turn"]),
            f"{each['more']:,.0f}",
            each["why"],
        ]
        for tariff, each in found
    ]
