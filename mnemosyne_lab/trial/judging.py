"""The helper task ``judge_runs``: did two runs of a trial do the task equally well, and if not, why?

The judge does not learn which run had memory. It reads each pair in both orders, and its verdict counts only if both
answers agree: many models prefer the first text, or the second.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.helper.model import HelperPrompt
from mnemosyne.domain.helper.task import Accepted, HelperTask, Rejected, write_prompt
from mnemosyne_lab.evaluation.judging import (
    EQUIVALENT,
    MOST_TOKENS,
    PATIENT,
    SHORTEST_QUOTE,
    Difference,
    properties_of,
    verify_differences,
)
from mnemosyne_lab.trial.tasks import ARMS, RunResult

FIRST, SECOND = "run 1 is better", "run 2 is better"
VERDICTS = (EQUIVALENT, FIRST, SECOND)
PROPERTIES = properties_of(VERDICTS)

LONGEST_TASK = 4_000

_INSTRUCTIONS = f"""\
You compare two runs of a coding agent on the same task. You read the command that started each run, what it changed \
in its files, and the end of its output. Reply with one JSON object and nothing else: {{"verdict": "{EQUIVALENT}", \
"{FIRST}" or "{SECOND}", "differences": [{{"why": string, "quote": string}}]}}.

{EQUIVALENT}: both runs did the task equally well, even if in other words or in another way. Then differences is empty.
{FIRST}, {SECOND}: that run did the task better. For each reason: why it matters for the task, in one sentence, and a \
quotation of at least {SHORTEST_QUOTE} characters from one run that the other lacks, copied exactly.
Ignore cost, time, ids and style."""


@attrs.frozen
class RunPair:
    """Two runs of the same ``task`` (the agent's command), in the order in which a judge reads them."""

    task: str = attrs.field(repr=False)
    first: RunResult
    second: RunResult

    @property
    def texts(self) -> tuple[str, str]:
        one, other = (f"{each.changes}\n{each.output}" for each in (self.first, self.second))
        return one, other


@attrs.frozen
class RunsVerdict:
    """An answer about a pair: the better arm, or None if both are equivalent, and the differences."""

    better: str | None
    differences: Sequence[Difference]


def _prompt(pair: RunPair) -> HelperPrompt:
    texts = [("command of the agent", pair.task[:LONGEST_TASK])]
    for number, run in enumerate((pair.first, pair.second), 1):
        texts += [(f"run {number}, changes", run.changes or ""), (f"run {number}, end of output", run.output or "")]
    return write_prompt(_INSTRUCTIONS, {"runs": 2}, texts, most_tokens=MOST_TOKENS)


def _verify(pair: RunPair, answer: Mapping[str, Any]) -> Accepted[RunsVerdict] | Rejected:
    one, other = pair.texts
    found = verify_differences(answer, VERDICTS, [(one, other), (other, one)], "\n".join((pair.task, one, other)))
    if isinstance(found, Rejected):
        return found
    better = {FIRST: pair.first.arm, SECOND: pair.second.arm}.get(answer["verdict"])
    return Accepted(RunsVerdict(better, found.result), found.record, found.dropped)


JUDGE_RUNS = HelperTask(
    name="judge_runs", version=1, properties=PROPERTIES, prompt=_prompt, verify=_verify, limits=PATIENT
)


def list_pairs(results: Iterable[RunResult], commands: Mapping[str, str]) -> list[RunPair]:
    """The pairs that a judge can read, each in both orders, one after the other. ``commands`` are those of the pairs by
    name. Runs without recorded texts are left out.
    """
    runs: dict[str, dict[str, RunResult]] = {}
    for each in results:
        if each.changes is not None and each.output is not None and each.pair in commands:
            runs.setdefault(each.pair, {}).setdefault(each.arm, each)
    whole = [(commands[pair], [arms[arm] for arm in ARMS]) for pair, arms in runs.items() if len(arms) == len(ARMS)]
    return [RunPair(task, *order) for task, both in whole for order in (both, both[::-1])]


@attrs.frozen
class PairVerdict:
    """The verdict on the pair ``name``: EQUIVALENT, the better arm, DISAGREE if the answers in both orders disagree, or
    None without two accepted answers; why, with a quotation each; and the ``reasons`` of rejected answers.
    """

    name: str
    verdict: str | None
    differences: Sequence[Difference] = ()
    reasons: Sequence[str] = ()


DISAGREE = "the orders disagree"


@attrs.frozen(kw_only=True)
class JudgedTrial:
    """The verdicts of a ``helper`` on the pairs that it was asked about. ``missing`` pairs were not sent to it, because
    their texts were not recorded, its budget was used up, or it kept failing. ``nanodollars`` is the cost of answers.
    """

    helper: str
    pairs: Sequence[PairVerdict]
    missing: int
    nanodollars: int

    def count(self, verdict: str | None) -> int:
        return sum(each.verdict == verdict for each in self.pairs)

    @property
    def agreement(self) -> float | None:
        """The share of pairs with two accepted answers in which these agree; None without such pairs."""
        whole = len(self.pairs) - self.count(None)
        return (whole - self.count(DISAGREE)) / whole if whole else None


def combine(asked: Sequence[RunPair], verdicts: Sequence[Accepted[RunsVerdict] | Rejected]) -> list[PairVerdict]:
    """The verdict on each pair whose two orders were judged; ``asked`` as from ``list_pairs``."""
    both = list(zip(asked, verdicts, strict=False))
    return [
        _combine(pair.first.pair, one, other) for (pair, one), (_, other) in zip(both[::2], both[1::2], strict=False)
    ]


def _combine(name: str, *verdicts: Accepted[RunsVerdict] | Rejected) -> PairVerdict:
    found = [each.result for each in verdicts if isinstance(each, Accepted)]
    reasons = [reason for each in verdicts if isinstance(each, Rejected) for reason in each.reasons]
    if reasons:
        return PairVerdict(name, None, reasons=reasons)
    better = {each.better for each in found}
    if len(better) > 1:
        return PairVerdict(name, DISAGREE)
    return PairVerdict(name, better.pop() or EQUIVALENT, found[0].differences)
