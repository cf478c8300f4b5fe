"""``mnemosyne trial``: paired tasks with and without memory, and whether an agent is as good with it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from mnemosyne.cli.log_access import json_option
from mnemosyne.cli.printing import print_json, say
from mnemosyne.figures import amount_text, plural, printable

if TYPE_CHECKING:
    from mnemosyne_lab.trial.record import RunResult
    from mnemosyne_lab.trial.running import Stopped
    from mnemosyne_lab.trial.statistics import PairCounts

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
    help="The results as JSON lines; a stopped trial continues from them.",
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
@click.option("--with-env", multiple=True, metavar="NAME=VARIABLE", help=_ENVIRON.format("with"))
@click.option("--without-env", multiple=True, metavar="NAME=VARIABLE", help=_ENVIRON.format("without"))
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
    as_json: bool,
) -> None:
    """Run every task twice, with and without memory, in random order, and test whether as many succeed.

    \b
      mnemosyne serve --manage --port 8788
      mnemosyne trial tasks.toml --with http://127.0.0.1:8788 \\
        --without https://api.anthropic.com --results runs.jsonl

    TASKS.toml has a table [[task]] for each: `name`, `command` (its provider is in ANTHROPIC_BASE_URL or
    OPENAI_BASE_URL), `check` (exits with 0 if the task is done), and optionally `folder`, of which each run gets a
    copy, and `seconds`. /bin/sh runs both with your permissions, so trust your tasks.

    An exact test of the pairs that disagree decides, at a significance of 5 %. See docs/cost.md.
    """
    from mnemosyne_lab.trial.record import TrialRecord, TrialTerms, count_pairs
    from mnemosyne_lab.trial.running import Arm, run_pairs, run_task
    from mnemosyne_lab.trial.tasks import order_runs, read_tasks

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
    if as_json:
        print_json(as_data(ended, margin / 100, stopped))
        return
    for line in render(count_pairs(ended), ended, margin / 100, stopped):
        say(line)


def _take(named: Sequence[str]) -> dict[str, str]:
    """The variables that only one arm gets."""
    found = {}
    for each in named:
        name, _, variable = each.partition("=")
        if not name or variable not in os.environ:
            raise click.BadParameter(f"{each!r} is not NAME=VARIABLE with a VARIABLE that is set.")
        found[name] = os.environ[variable]
    return found


def render(
    counts: "PairCounts", results: Sequence["RunResult"], margin: float, stopped: "Stopped | None" = None
) -> list[str]:
    """The result of a trial in sentences; ``margin`` is a share."""
    from mnemosyne_lab.trial.statistics import DISAGREE, LEVEL, count_needed, interval, mcnemar, non_inferiority

    lines = (
        [f"Stopped: {stopped.why}. To continue, run the same command with a larger budget."]
        if stopped is not None
        else []
    )
    if not counts.pairs:
        return [*lines, "No pair has ended yet."]
    low, high = interval(counts)
    with_memory, without = counts.both + counts.gained, counts.both + counts.lost
    chance = non_inferiority(counts, margin)
    points = f"{100 * margin:g} {'point' if margin == 0.01 else 'points'}"
    shown = "shown" if chance <= LEVEL else "not shown"
    share = counts.disagreeing or DISAGREE
    return [
        *lines,
        f"{plural(counts.pairs, 'pair')}: {with_memory} passed with memory and {without} without it, a difference of"
        f" {100 * counts.difference:+.1f} points (90 %: {100 * low:+.1f} to {100 * high:+.1f}).",
        f"Not worse by {points}: {shown} (p = {chance:.3f}).",
        f"{counts.gained} passed only with memory and {counts.lost} only without it (McNemar's exact test of any"
        f" difference: p = {mcnemar(counts):.3f}).",
        f"A claim of {points} needs about {count_needed(margin, share)} pairs, if {share:.0%} of them disagree and"
        " neither way is better.",
        *_render_costs(results),
    ]


def _render_costs(results: Sequence["RunResult"]) -> list[str]:
    told = []
    for arm in ("with", "without"):
        own = [each for each in results if each.arm == arm]
        dollars = [each.dollars for each in own if each.dollars is not None]
        seconds = sum(each.seconds for each in own)
        cost = amount_text(sum(dollars)) if own and len(dollars) == len(own) else "an unknown sum"
        told.append(f"{cost} and {seconds:.0f} s {arm} memory")
    return [f"All runs took {' and '.join(told)}."]


def as_data(results: Sequence["RunResult"], margin: float, stopped: "Stopped | None") -> dict[str, Any]:
    """The same for programs."""
    from mnemosyne_lab.trial.record import count_pairs
    from mnemosyne_lab.trial.statistics import DISAGREE, LEVEL, count_needed, interval, mcnemar, non_inferiority

    counts = count_pairs(results)
    chance = non_inferiority(counts, margin)
    return {
        "pairs": counts.pairs,
        **attrs.asdict(counts),
        "difference": counts.difference,
        "interval": interval(counts),
        "margin": margin,
        "p_not_inferior": chance,
        "is_not_inferior": chance <= LEVEL,
        "p_mcnemar": mcnemar(counts),
        "pairs_needed": count_needed(margin, counts.disagreeing or DISAGREE),
        "stopped": None if stopped is None else stopped.why,
        "runs": [attrs.asdict(each) for each in results],
    }
