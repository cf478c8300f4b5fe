"""The result of a trial: in sentences, as data for programs, and as one self-contained HTML page.

The template of the page escapes all text; its content security policy allows no script.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import attrs
from jinja2 import Environment

from mnemosyne.figures import amount_text, dollars_text, percent_text, plural, printable
from mnemosyne.http.inspector.formatting import FILTERS
from mnemosyne.http.inspector.session_report import read_styles
from mnemosyne.services.charts import WIDTH
from mnemosyne_lab.evaluation.judging import EQUIVALENT, one_line
from mnemosyne_lab.trial.judging import DISAGREE, JudgedTrial
from mnemosyne_lab.trial.statistics import Conclusion, PairCounts, TrialOutcome, conclude, interval, mcnemar
from mnemosyne_lab.trial.tasks import ARMS, RunResult, count_pairs


@attrs.frozen
class TrialResult:
    """A trial as far as it has run. ``margin`` is a share."""

    runs: Sequence[RunResult]
    margin: float
    stopped: str | None = None
    """Why it ended before its last pair."""
    judged: JudgedTrial | None = None

    @property
    def counts(self) -> PairCounts:
        return count_pairs(self.runs)


def render(trial: TrialResult) -> list[str]:
    """The result of a trial in sentences; the first is the conclusion."""
    counts = trial.counts
    lines = []
    if trial.stopped is not None:
        lines.append(f"Stopped: {trial.stopped}. To continue, run the same command with a larger budget.")
    if not counts.pairs:
        return ["No pair has ended yet.", *lines]
    low, high = interval(counts)
    with_memory, without = counts.both + counts.gained, counts.both + counts.lost
    found = conclude(counts, trial.margin)
    return [
        _render_conclusion(found, counts, trial.margin),
        *lines,
        f"{with_memory} passed with memory and {without} without it, a difference of"
        f" {100 * counts.difference:+.1f} points (90 %: {100 * low:+.1f} to {100 * high:+.1f}).",
        f"{counts.gained} passed only with memory and {counts.lost} only without it (McNemar's exact test of any"
        f" difference: p = {mcnemar(counts):.3f}).",
        *_render_costs(trial.runs),
        *_render_judged(trial.judged),
    ]


def _render_conclusion(found: Conclusion, counts: PairCounts, margin: float) -> str:
    points = f"{100 * margin:g} {'point' if margin == 0.01 else 'points'}"
    pairs = plural(counts.pairs, "pair")
    if found.outcome is TrialOutcome.NOT_WORSE:
        return f"Not worse by {points} with memory: shown by {pairs} (p = {found.p:.3f})."
    if found.outcome is TrialOutcome.WORSE:
        return f"Worse by more than {points} with memory: shown by {pairs}."
    if found.needed is None:
        more = "more will not help if the difference stays"
    else:
        more = f"about {found.needed:,} needed to show that memory is not worse by {points}"
    return f"Inconclusive: {pairs}, {more} (p = {found.p:.3f})."


def _render_judged(judged: JudgedTrial | None) -> list[str]:
    if judged is None:
        return []
    agreed = "" if judged.agreement is None else f" (agreement {percent_text(judged.agreement)})"
    missing = f" {plural(judged.missing, 'pair')} not judged." if judged.missing else ""
    return [
        f"{plural(len(judged.pairs), 'pair')} judged by {printable(judged.helper)}, each in both orders:"
        f" {judged.count(EQUIVALENT)} equivalent, {judged.count('with')} better with memory,"
        f" {judged.count('without')} better without, {judged.count(DISAGREE)} with different verdicts{agreed},"
        f" {judged.count(None)} without a usable answer; cost {dollars_text(judged.nanodollars)}.{missing}"
    ]


def render_reasons(judged: JudgedTrial | None) -> list[str]:
    """The reasons for each pair that is not equivalent or has no verdict."""
    lines = []
    for each in judged.pairs if judged is not None else ():
        if each.reasons:
            lines.append(f"{printable(each.name)}: rejected because {one_line('; '.join(each.reasons))}")
        elif each.differences:
            lines.append(f"{printable(each.name)}: better {each.verdict} memory")
            lines += [f"  {one_line(why.why)}\n    > {one_line(why.quote)}" for why in each.differences]
    return lines


def _render_costs(results: Sequence[RunResult]) -> list[str]:
    costs = []
    for arm in ARMS:
        own = [each for each in results if each.arm == arm]
        dollars = [each.dollars for each in own if each.dollars is not None]
        seconds = sum(each.seconds for each in own)
        cost = amount_text(sum(dollars)) if own and len(dollars) == len(own) else "an unknown sum"
        costs.append(f"{cost} and {seconds:.0f} s {arm} memory")
    return [f"All runs took {' and '.join(costs)}."]


def as_data(trial: TrialResult) -> dict[str, Any]:
    counts, judged = trial.counts, trial.judged
    found = conclude(counts, trial.margin)
    texts = attrs.filters.exclude("changes", "output")
    return {
        "conclusion": found.outcome.value,
        "pairs": counts.pairs,
        **attrs.asdict(counts),
        "difference": counts.difference,
        "interval": interval(counts),
        "margin": trial.margin,
        "p_not_inferior": found.p,
        "p_mcnemar": mcnemar(counts),
        "pairs_needed": found.needed,
        "stopped": trial.stopped,
        "runs": [attrs.asdict(each, filter=texts) for each in trial.runs],
        "judge": judged and {**attrs.asdict(judged), "agreement": judged.agreement},
    }


def trial_report(trial: TrialResult) -> str:
    """The page: its conclusion, the interval against the margin, and every pair."""
    found = as_data(trial)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(FILTERS, amount=amount_text)
    pairs: dict[str, dict[str, Any]] = {}
    for run in found["runs"]:
        pairs.setdefault(run["pair"], {}).setdefault(run["arm"], run)
    judged = (found["judge"] or {}).get("pairs", ())
    reach = min(1.0, 1.2 * max(found["margin"], *map(abs, found["interval"])))
    page = files("mnemosyne_lab.trial").joinpath("report_page.html").read_text(encoding="utf-8")
    return environment.from_string(page).render(
        sentences=render(trial),
        found=found,
        pairs=pairs,
        verdicts={each["name"]: each for each in judged},
        x=lambda share: round(WIDTH / 2 + 0.45 * WIDTH * share / reach, 1),
        styles=read_styles(),
    )
