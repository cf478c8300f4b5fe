"""``mnemosyne trial``: paired tasks with and without memory, and whether an agent is as good with it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from mnemosyne.cli.log_access import json_option
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import printable

if TYPE_CHECKING:
    from mnemosyne.config import Config
    from mnemosyne_lab.trial.judging import JudgedTrial
    from mnemosyne_lab.trial.report import TrialResult
    from mnemosyne_lab.trial.tasks import RunResult, TrialRecord

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
    from mnemosyne_lab.trial.report import TrialResult, as_data, render, render_reasons, trial_report
    from mnemosyne_lab.trial.running import Arm, run_pairs, run_task
    from mnemosyne_lab.trial.tasks import TrialRecord, TrialTerms, order_runs, read_tasks

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
        write_private(report, trial_report(found))


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


def _take(named: Sequence[str]) -> dict[str, str]:
    """The variables that only one arm gets."""
    found = {}
    for each in named:
        name, _, variable = each.partition("=")
        if not name or variable not in os.environ:
            raise click.BadParameter(f"{each!r} is not NAME=VARIABLE with a VARIABLE that is set.")
        found[name] = os.environ[variable]
    return found
