"""How much less likely a small language model finds the recorded next action when context is kept in other ways.

``data/likelihood.jsonl`` has the scores of the actions that were measured, without their texts. With the model
(``make likelihood``) further actions, and ways that an action lacks, are scored and appended, so a run can be stopped
and continued; without it, the tables are computed from the file.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Group, Part, Row, Server, single
from benchmarks.likelihood import announcements
from benchmarks.likelihood.contexts import ANSWERED, CUT, EVICTED, FULL, GRADED, MASKED, NATIVE, RECALLED, STUB, SUMMARY
from benchmarks.likelihood.judging import judge, list_recordings, read_announcements, read_cases
from benchmarks.likelihood.model import ArrayEngine, Engine, Tokenizer, Weights, open_model
from benchmarks.likelihood.statistics import (
    Result,
    Statistic,
    area_under_curve,
    estimate,
    mean_added,
    median_added,
    of_needed,
    ratio,
)

ROOT = Path(__file__).parents[2]
PLACE = ROOT / ".cache/likelihood"
"""Where ``make likelihood`` puts the model and the packages that read and run it."""

SCORES = ROOT / "benchmarks/data/likelihood.jsonl"
ACTIONS = 300
"""The number of actions in a complete run."""

LABELS: Mapping[str, str] = {
    EVICTED: "ours, thrifty: evicted, a line in a note",
    GRADED: "ours, graded: L1",
    STUB: "ours, graded: one-line stub",
    ANSWERED: "ours, thrifty, and one answer",
    RECALLED: "ours, graded: one-line stub, and one answer",
    MASKED: "masking: the last 5 results stay",
    NATIVE: "native clearing: the last 3 results stay",
    CUT: "token-level cutting of the object to 30 %",
    SUMMARY: "the client's own summary",
}

HALF, UNNEEDED, LOST = 0.5, 0.02, 0.1
"""Goals: graded's loss relative to thrifty's where the object is needed, its loss in nats where it is not, and what is
left of thrifty's loss after one answer.
"""


def find_model() -> Path | None:
    """The model's file; None if it is not installed."""
    return next(PLACE.rglob("SmolLM2-135M-Instruct*.gguf"), None)


def load(path: Path) -> tuple[Weights, Tokenizer]:
    """The installed model. Makes its packages importable, and lets numpy use one thread: more wait for each other where
    the machine has other work.
    """
    sys.path.append(str(PLACE / "lib"))
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    return open_model(path)


def _engine(weights: Weights) -> Engine:
    """The engine, on a GPU where CuPy is installed."""
    try:
        import cupy as arrays
    except ImportError:
        import numpy as arrays
    return ArrayEngine(weights, arrays)


def _actions(_: Sequence[Server], quick: bool) -> list[Row]:
    """Score until there are enough actions, then the table."""
    path = find_model()
    if path is not None and not quick:
        weights, tokenizer = load(path)
        judge(list_recordings(), _engine(weights), tokenizer, SCORES, partial(print, file=sys.stderr), ACTIONS)
    results = [_result(case) for case in read_cases(SCORES).values()]
    return [*_rows(results), *_targets(results)]


def _result(case: Mapping[str, Any]) -> Result:
    return Result(case["session"], case["needed"], case["losses"], case["needed_losses"], case["context_tokens"])


def _rows(results: Sequence[Result]) -> Iterator[Row]:
    for way, label in LABELS.items():
        among = [each for each in results if way in each.losses]
        needing = [each for each in among if each.needed]
        others = [each for each in among if not each.needed]
        yield from _row("added where needed, mean", label, needing, mean_added(way, FULL))
        yield from _row("added where needed, median", label, needing, median_added(way, FULL))
        yield from _row("added to the needed tokens, mean", label, of_needed(needing), mean_added(way, FULL))
        yield from _row("added where not needed, mean", label, others, mean_added(way, FULL))
        yield from _row("added where not needed, median", label, others, median_added(way, FULL))
        yield from _row("area under the curve", label, among, area_under_curve(way, FULL), unit="")
        if among:
            context = sum(each.context_tokens[way] for each in among) / sum(each.context_tokens[FULL] for each in among)
            yield single("context ÷ full context", label, "", context)


def _targets(results: Sequence[Result]) -> Iterator[Row]:
    needing = [each for each in results if each.needed]
    others = [each for each in results if not each.needed]
    yield from _row("graded ÷ thrifty", "needed", needing, ratio(GRADED, EVICTED, FULL), HALF, "")
    yield from _row("graded ÷ thrifty", "needed tokens", of_needed(needing), ratio(GRADED, EVICTED, FULL), HALF, "")
    yield from _row("graded", "not needed", others, mean_added(GRADED, FULL), UNNEEDED)
    for variant, among in (("needed", needing), ("needed tokens", of_needed(needing))):
        yield from _row("one answer ÷ thrifty", variant, among, ratio(ANSWERED, EVICTED, FULL), LOST, "")
        there = [each for each in among if RECALLED in each.losses]
        yield from _row("stub and answer ÷ thrifty", variant, there, ratio(RECALLED, EVICTED, FULL), LOST, "")


def _row(
    name: str,
    variant: str,
    results: Sequence[Result],
    statistic: Statistic,
    goal: float | None = None,
    unit: str = "nats",
) -> Iterator[Row]:
    """The row of a figure, its interval in the unit's column."""
    found = estimate(results, statistic)
    if found is not None:
        interval = f"{unit} ({found.low:.3f} to {found.high:.3f})".strip()
        yield Row(name, variant, interval, found.value, None, None, len(results), goal)


def _announcements(_: Sequence[Server], quick: bool) -> list[Row]:
    """How likely a call is after an announcement, before a rewrite and after it."""
    results = [Result(session, 0, each["odds"]) for session, scored in read_announcements(SCORES) for each in scored]
    rows: list[Row] = []
    for rendering in announcements.RENDERINGS if results else ():
        rows += _row("log-odds of a call", rendering, results, _mean_of(rendering))
        share = sum(each.losses[rendering] > 0 for each in results) / len(results)
        rows.append(single("a call is likelier than the end", rendering, "%", 100 * share))
        if rendering != announcements.WHOLE:
            rows += _row("change of the log-odds", rendering, results, mean_added(rendering, announcements.WHOLE))
    return rows


def _mean_of(way: str) -> Statistic:
    return lambda results: sum(each.losses[way] for each in results) / len(results)


GROUP = Group("likelihood", (), (Part("actions", _actions), Part("announcements", _announcements)), by_default=False)
