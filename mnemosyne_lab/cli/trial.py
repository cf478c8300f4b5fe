"""``mnemosyne trial``: paired tasks with and without memory, and whether an agent is as good with it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from mnemosyne.cli.log_access import json_option
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import amount_text, dollars_text, percent_text, plural, printable

if TYPE_CHECKING:
    from mnemosyne.config import Config
    from mnemosyne_lab.trial.judging import JudgedTrial
    from mnemosyne_lab.trial.record import RunResult, TrialRecord
    from mnemosyne_lab.trial.running import Stopped
    from mnemosyne_lab.trial.statistics import Conclusion, PairCounts

_ENVIRON = "In runs {} memory, set NAME to the value of VARIABLE, such as the key of another workspace."


@click.command(no_args_is_help=True)
@click.argument("tasks", type=click.Path(path_type=Path, dir_okay=False), metavar="TASKS.toml")
@click.option("--with", "with_url", required=True, metavar="URL", help="A server that manages.")
@click.option("--without", "without_url", required=True, metavar="URL", help="The provider, or a server that observes.")
@click.option(
    "--results",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The results, changes and output of all runs as JSON lines; a stopped trial continues from them.",
)
@click.option("--seed", type=int, default=1, show_default=True, metavar="N", help="Determines the order.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Pairs of each task."
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="DOLLARS",
    help="Start no pair that may exceed it.  [default: no limit]",
)
@click.option(
    "--run-dollars",
    type=click.FloatRange(min=0),
    metavar="DOLLARS",
    help="Cost of a run whose command reports no `total_cost_usd`.  [default: unknown]",
)
@click.option(
    "--margin",
    type=click.FloatRange(min=0, max=100, min_open=True, max_open=True),
    default=5.0,
    show_default=True,
    metavar="POINTS",
    help="Acceptable loss with memory, in percentage points.",
)
@click.option(
    "--judge",
    "is_judged",
    is_flag=True,
    help="Also have the helper model compare the two runs of each pair. This sends their changes and output to it.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="OUT.html",
    help="Also write the result as a page.",
)
@click.option("--with-env", multiple=True, metavar="NAME=VARIABLE", help=_ENVIRON.format("with"))
@click.option("--without-env", multiple=True, metavar="NAME=VARIABLE", help=_ENVIRON.format("without"))
@log_options()
@json_option
def trial(
    tasks: Path,
    with_url: str,
    without_url: str,
    results: Path,
    seed: int,
    repeat: int,
    budget: float | None,
    run_dollars: float | None,
    margin: float,
    with_env: tuple[str, ...],
    without_env: tuple[str, ...],
    is_judged: bool,
    report: Path | None,
    as_json: bool,
    **options: object,
) -> None:
    """Run every task twice, with and without memory, in random order, and test whether as many succeed.

    \b
      mnemosyne serve --manage --port 8788
      mnemosyne trial tasks.toml --with http://127.0.0.1:8788 \\
        --without https://api.anthropic.com --results runs.jsonl

    TASKS.toml has a table [[task]] for each: `name`, `command` (its provider is in ANTHROPIC_BASE_URL or
    OPENAI_BASE_URL), `check` (exits with 0 if the task is done), and optionally `folder`, of which each run gets a
    copy, and `seconds`. /bin/sh runs both with your permissions, so trust your tasks.

    An exact test of non-inferiority decides, at a significance of 5 %; without a decision, the output says how many
    pairs are needed. See docs/cost.md.
    """
    from mnemosyne_lab.cli.judge import check_judge
    from mnemosyne_lab.trial.record import TrialRecord, TrialTerms
    from mnemosyne_lab.trial.running import Arm, run_pairs, run_task
    from mnemosyne_lab.trial.tasks import order_runs, read_tasks

    config = configuration(options) if is_judged else None
    if config is not None:
        check_judge(config)
    listed = read_tasks(tasks)
    arms = {
        "with": Arm(url=with_url, environ=_take(with_env)),
        "without": Arm(url=without_url, environ=_take(without_env)),
    }
    pairs = order_runs(listed.tasks, repeat, seed)
    record = TrialRecord(results)
    done = record.open(TrialTerms(tasks=listed.digest, seed=seed, urls={name: arm.url for name, arm in arms.items()}))
    ended = list(done)

    def add(result: "RunResult") -> None:
        record.add(result)
        ended.append(result)
        how = "passed" if result.passed else "stopped" if result.stopped else "failed"
        say(f"{len(ended)} of {2 * len(pairs)}: {printable(result.pair)} {result.arm} memory {how}", err=True)

    stopped = run_pairs(pairs, done, lambda each: run_task(each, arms, os.environ, run_dollars), add, budget)
    found = TrialResult(ended, margin / 100, stopped)
    if config is not None:
        commands = {one.pair: one.task.command for one, _ in pairs}
        found = attrs.evolve(found, judged=_judge(config, record, found, commands))
    if as_json:
        print_json(as_data(found))
    else:
        for line in (*render(found), *render_reasons(found.judged)):
            say(line)
    if report is not None:
        _write(report, found)


def _judge(config: "Config", record: "TrialRecord", found: "TrialResult", commands: Mapping[str, str]) -> "JudgedTrial":
    """Have the helper model judge each pair; accepted answers are recorded with the results and not asked for again."""
    from mnemosyne.domain.helper.task import Accepted
    from mnemosyne_lab.cli.judge import ask_judge
    from mnemosyne_lab.trial.judging import JUDGE_RUNS, JudgedTrial, combine, list_pairs

    asked = list_pairs(found.runs, commands)
    helper, replies = ask_judge(
        config, JUDGE_RUNS, asked, lambda name, prompt: record.answers.get((name, prompt.digest.hex()))
    )
    for pair, reply in zip(asked, replies, strict=False):
        if isinstance(reply.verdict, Accepted) and not reply.cached:
            record.add_answer(helper, JUDGE_RUNS.write(pair).digest.hex(), reply.verdict.text)
    verdicts = combine(asked, [reply.verdict for reply in replies])
    return JudgedTrial(
        helper=helper,
        pairs=verdicts,
        missing=found.counts.pairs - len(verdicts),
        nanodollars=sum(reply.nanodollars for reply in replies),
    )


def _write(path: Path, found: "TrialResult") -> None:
    from mnemosyne_lab.trial.report import trial_report

    try:
        write_private(path, trial_report(render(found), as_data(found)))
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}.") from None


def _take(named: Sequence[str]) -> dict[str, str]:
    """The variables that only one arm gets."""
    found = {}
    for each in named:
        name, _, variable = each.partition("=")
        if not name or variable not in os.environ:
            raise click.BadParameter(f"{each!r} is not NAME=VARIABLE with a VARIABLE that is set.")
        found[name] = os.environ[variable]
    return found


@attrs.frozen
class TrialResult:
    """A trial as far as it has run. ``margin`` is a share."""

    runs: Sequence["RunResult"]
    margin: float
    stopped: "Stopped | None" = None
    judged: "JudgedTrial | None" = None

    @property
    def counts(self) -> "PairCounts":
        """The results of its pairs."""
        from mnemosyne_lab.trial.record import count_pairs

        return count_pairs(self.runs)


def render(trial: TrialResult) -> list[str]:
    """The result of a trial in sentences; the first is the conclusion."""
    from mnemosyne_lab.trial.statistics import conclude, interval, mcnemar

    counts = trial.counts
    lines = []
    if trial.stopped is not None:
        lines.append(f"Stopped: {trial.stopped.why}. To continue, run the same command with a larger budget.")
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


def _render_conclusion(found: "Conclusion", counts: "PairCounts", margin: float) -> str:
    from mnemosyne_lab.trial.statistics import TrialOutcome

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


def _render_judged(judged: "JudgedTrial | None") -> list[str]:
    from mnemosyne_lab.evaluation.judging import EQUIVALENT
    from mnemosyne_lab.trial.judging import DISAGREE

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


def render_reasons(judged: "JudgedTrial | None") -> list[str]:
    """The reasons for each pair that is not equivalent or has no verdict."""
    from mnemosyne_lab.cli.judge import one_line  # imported late: slow

    lines = []
    for each in judged.pairs if judged is not None else ():
        if each.reasons:
            lines.append(f"{printable(each.name)}: rejected because {one_line('; '.join(each.reasons))}")
        elif each.differences:
            lines.append(f"{printable(each.name)}: better {each.verdict} memory")
            lines += [f"  {one_line(why.why)}\n    > {one_line(why.quote)}" for why in each.differences]
    return lines


def _render_costs(results: Sequence["RunResult"]) -> list[str]:
    costs = []
    for arm in ("with", "without"):
        own = [each for each in results if each.arm == arm]
        dollars = [each.dollars for each in own if each.dollars is not None]
        seconds = sum(each.seconds for each in own)
        cost = amount_text(sum(dollars)) if own and len(dollars) == len(own) else "an unknown sum"
        costs.append(f"{cost} and {seconds:.0f} s {arm} memory")
    return [f"All runs took {' and '.join(costs)}."]


def as_data(trial: TrialResult) -> dict[str, Any]:
    """The same for programs."""
    from mnemosyne_lab.trial.statistics import conclude, interval, mcnemar

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
        "stopped": None if trial.stopped is None else trial.stopped.why,
        "runs": [attrs.asdict(each, filter=texts) for each in trial.runs],
        "judge": judged and {**attrs.asdict(judged), "agreement": judged.agreement},
    }
