"""A verdict on two runs counts only if it quotes a difference, and is the same in both orders."""

import json
from collections.abc import Sequence

import attrs
import pytest

from mnemosyne.domain.helper.task import Accepted, Rejected
from mnemosyne_lab.evaluation.judging import EQUIVALENT
from mnemosyne_lab.trial.judging import DISAGREE, JUDGE_RUNS, JudgedTrial, RunsVerdict, combine, list_pairs
from mnemosyne_lab.trial.tasks import RunResult

FIXED = "+    return int(text or 0)"
LISTED = "+    return [int(each) for each in text]"
WHY = "An empty text is a case of the task."


def run(pair: str, arm: str, changes: str | None) -> RunResult:
    said = None if changes is None else "The tests pass."
    ended = RunResult(pair=pair, arm=arm, first=True, passed=True, exit=0, seconds=1, dollars=None)
    return attrs.evolve(ended, changes=changes, output=said)


PAIR = [run("a/1", "with", FIXED), run("a/1", "without", LISTED)]
OTHERS = [run("b/1", "with", FIXED), run("old/1", "with", None), run("old/1", "without", None)]
COMMANDS = {"a/1": "agent 'Handle an empty text.'", "b/1": "agent", "old/1": "agent"}
ASKED = list_pairs([*PAIR, *OTHERS], COMMANDS)


def judged(order: int, verdict: object, *quotes: object, why: str = WHY) -> Accepted[RunsVerdict] | Rejected:
    given = [{"why": why, "quote": quote} for quote in quotes]
    return JUDGE_RUNS.read(ASKED[order], json.dumps({"verdict": verdict, "differences": given}))


def test_only_whole_pairs_with_recorded_texts_are_judged_in_both_orders() -> None:
    assert [(each.first.arm, each.second.arm) for each in ASKED] == [("with", "without"), ("without", "with")]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("run 1 is better", "run 2 is better"), "with"),
        (("run 2 is better", "run 1 is better"), "without"),
        (("run 1 is better", "run 1 is better"), DISAGREE),
        ((EQUIVALENT, "run 1 is better"), DISAGREE),
        ((EQUIVALENT, EQUIVALENT), EQUIVALENT),
        (("run 1 is better", "both"), None),
    ],
)
def test_judge_that_prefers_a_place_has_no_verdict(verdicts: Sequence[str], expected: str | None) -> None:
    answers = [
        judged(order, verdict, *([] if verdict == EQUIVALENT else [FIXED])) for order, verdict in enumerate(verdicts)
    ]
    (found,) = combine(ASKED, answers)
    assert (found.name, found.verdict) == ("a/1", expected)
    assert bool(found.reasons) == (expected is None)
    whole = JudgedTrial(helper="h", pairs=[found], missing=0, nanodollars=0)
    assert whole.agreement == (None if expected is None else float(expected != DISAGREE))
    assert combine(ASKED, answers[:1]) == [], "one order is not enough"


@pytest.mark.parametrize(
    ("quotes", "why"),
    [
        ((), WHY),
        (("The tests pass.",), WHY),
        (("return float(text)",), WHY),
        ((FIXED,), "It breaks parse_all() of src/other.py."),
    ],
)
def test_verdict_without_a_quote_that_only_one_run_contains_is_rejected(quotes: tuple[str, ...], why: str) -> None:
    assert isinstance(judged(0, "run 1 is better", *quotes, why=why), Rejected)


def test_accepted_answer_reads_the_same_from_its_record() -> None:
    found = judged(1, "run 2 is better", FIXED)
    assert isinstance(found, Accepted)
    assert JUDGE_RUNS.read(ASKED[1], found.text) == found
    assert found.result.better == "with"
