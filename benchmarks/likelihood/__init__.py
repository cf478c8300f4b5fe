"""How much less likely a small language model finds the recorded next action when context is kept in other ways.

``data/likelihood.jsonl`` has the scores of the actions that were measured, without their texts. With the model
(``make likelihood``) further actions, and ways that an action lacks, are scored and appended, so a run can be stopped
and continued; without it, the tables are computed from the file.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.harness import Group, Row, Server, single
from benchmarks.likelihood import announcements
from benchmarks.likelihood.contexts import ANSWERED, CUT, EVICTED, FULL, GRADED, MASKED, NATIVE, RECALLED, STUB, SUMMARY
from benchmarks.likelihood.judging import judge, read_announcements, read_cases
from benchmarks.likelihood.model import Engine, Tokenizer, Weights, open_model
from benchmarks.likelihood.statistics import (
    Result,
    area_under_curve,
    estimate_row,
    mean_added,
    mean_of,
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
    return Engine(weights, arrays)


def _actions(_: Sequence[Server], quick: bool) -> list[Row]:
    """Score until there are enough actions, then the table."""
    path = find_model()
    if path is not None and not quick:
        weights, tokenizer = load(path)
        judge(_engine(weights), tokenizer, SCORES, partial(print, file=sys.stderr), ACTIONS)
    results = [
        Result(case["session"], case["needed"], case["losses"], case["needed_losses"], case["context_tokens"])
        for case in read_cases(SCORES).values()
    ]
    return [*_rows(results), *_targets(results)]


def _rows(results: Sequence[Result]) -> Iterator[Row]:
    for way, label in LABELS.items():
        among = [each for each in results if way in each.losses]
        needing, others = _split(among)
        mean, middle = mean_added(way, FULL), mean_added(way, FULL, median)
        for name, of, figure, unit in (
            ("added where needed, mean", needing, mean, "nats"),
            ("added where needed, median", needing, middle, "nats"),
            ("added to the needed tokens, mean", of_needed(needing), mean, "nats"),
            ("added where not needed, mean", others, mean, "nats"),
            ("added where not needed, median", others, middle, "nats"),
            ("area under the curve", among, area_under_curve(way, FULL), ""),
        ):
            yield from estimate_row((name, label, unit), of, figure)
        if among:
            context = sum(each.context_tokens[way] for each in among) / sum(each.context_tokens[FULL] for each in among)
            yield single("context ÷ full context", label, "", context)


def _split(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """The results that need their object, and the others."""
    return [each for each in results if each.needed], [each for each in results if not each.needed]


def _targets(results: Sequence[Result]) -> Iterator[Row]:
    needing, others = _split(results)
    graded = ratio(GRADED, EVICTED, FULL)
    yield from estimate_row(("graded ÷ thrifty", "needed", ""), needing, graded, goal=HALF)
    yield from estimate_row(("graded ÷ thrifty", "needed tokens", ""), of_needed(needing), graded, goal=HALF)
    yield from estimate_row(("graded", "not needed", "nats"), others, mean_added(GRADED, FULL), goal=UNNEEDED)
    for variant, among in (("needed", needing), ("needed tokens", of_needed(needing))):
        for name, way in (("one answer ÷ thrifty", ANSWERED), ("stub and answer ÷ thrifty", RECALLED)):
            there = [each for each in among if way in each.losses]
            yield from estimate_row((name, variant, ""), there, ratio(way, EVICTED, FULL), goal=LOST)


def _announcements(_: Sequence[Server], quick: bool) -> list[Row]:
    """How likely a call is after an announcement, before a rewrite and after it."""
    results = [Result(session, 0, each["odds"]) for session, scored in read_announcements(SCORES) for each in scored]
    rows: list[Row] = []
    for rendering in announcements.RENDERINGS if results else ():
        rows += estimate_row(("log-odds of a call", rendering, "nats"), results, mean_of(rendering))
        share = sum(each.losses[rendering] > 0 for each in results) / len(results)
        rows.append(single("a call is likelier than the end", rendering, "%", 100 * share))
        if rendering != announcements.WHOLE:
            change = mean_added(rendering, announcements.WHOLE)
            rows += estimate_row(("change of the log-odds", rendering, "nats"), results, change)
    return rows


GROUP = Group("likelihood", (), {"actions": _actions, "announcements": _announcements}, by_default=False)
