"""An evaluation as JSON: for each policy every session's figures, their sums, and the ratios that are judged.

The other reports are made of this value, so that no two of them can say different things. The same evaluation gives
the same bytes: nothing in it is of the day or the machine, and exact amounts are rounded once, here.
"""

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs

from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne_lab.evaluation.judging import JudgeResult
from mnemosyne_lab.evaluation.results import DEARER, Evaluation, PolicyComparison, PolicyResult, SessionResult
from mnemosyne_lab.evaluation.verdict import closeness


def report_json(evaluation: Evaluation) -> str:
    """The report as ASCII text that ends with a newline."""
    return json.dumps(report(evaluation), indent=2, allow_nan=False) + "\n"


def report(evaluation: Evaluation) -> dict[str, Any]:
    """``{"verdict", "verdicts", "judged", "settings", "skipped", "comparisons", "legend", "policies", "window",
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
        "verdicts": dict(evaluation.verdicts),
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
