"""What the short forms of recorded objects answer, by a judge that knows nothing of how they are made.

The questions are made by rule from what was recorded, and each was read by a person with its answer
(``benchmarks/judge``). Sessions are split in two: what is changed in the short forms is tuned on one half and told of
the other. Whoever tries a way of making them passes it to ``scores`` as a ``Render``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import attrs

from benchmarks.harness import Group, Part, Row, Server
from benchmarks.judge.judging import LINES, RENDITIONS, Render, Verdict, as_recorded, judge
from benchmarks.judge.material import HELD_OUT, TUNING, material
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne_lab.evaluation.trace import Item
from tests.domain.recorded import DATA

SESSIONS = DATA / "sessions"
"""The recorded sessions; they are no part of the repository."""

ALL = "all kinds"

MOST_MISSED = {Fidelity.DETAILED: 35.0, Fidelity.STUB: 5.0}
"""Percent of the questions that a level may leave unanswered. A stub answers by being the one that a question names."""


@attrs.frozen(kw_only=True)
class Score:
    """How one level does on the questions of a split about one kind (``ALL`` for all): shares from 0 to 1.

    ``by_chance`` is the share of other objects' short forms that hold the answer. ``length`` is that of the short forms
    against that of the whole objects, each object as often as it is asked about.
    """

    level: Fidelity
    split: str
    kind: str
    asked: int
    answered: float
    by_chance: float
    length: float


def scores(render: Render = as_recorded, *, quick: bool = False) -> list[Score]:
    """Judge a way of making short forms; nothing where there are no recordings."""
    if not SESSIONS.is_dir():
        return []
    verdicts = list(judge(material(SESSIONS, quick), render))
    return [*_grouped(verdicts, lambda _: ALL), *_grouped(verdicts, lambda each: each.question.item.kind.value)]


def by_rule(render: Render = as_recorded, *, split: str = TUNING) -> list[Score]:
    """The same by the rule that asks, for whoever looks for what is missing; ``kind`` is the rule's name."""
    verdicts = [each for each in judge(material(SESSIONS), render) if each.question.split == split]
    return _grouped(verdicts, lambda each: each.question.pair.rule)


def _grouped(verdicts: Iterable[Verdict], kind_of: Callable[[Verdict], str]) -> list[Score]:
    groups: dict[tuple[Fidelity, str, str], list[Verdict]] = defaultdict(list)
    for each in verdicts:
        groups[each.level, kind_of(each), each.question.split].append(each)
    return [_score(level, kind, split, groups[level, kind, split]) for level, kind, split in sorted(groups)]


def _score(level: Fidelity, kind: str, split: str, verdicts: Sequence[Verdict]) -> Score:
    strangers = sum(each.strangers for each in verdicts)
    return Score(
        level=level,
        split=split,
        kind=kind,
        asked=len(verdicts),
        answered=sum(each.answered for each in verdicts) / len(verdicts),
        by_chance=sum(each.by_chance for each in verdicts) / max(1, strangers),
        length=sum(each.chars for each in verdicts) / sum(each.whole for each in verdicts),
    )


def cut_in_the_middle(item: Item, level: Fidelity) -> str | None:
    """The head and the tail of the text, as most agents cut it, at the length of today's short form."""
    shown = item.texts.get(level)
    if not shown or level not in RENDITIONS:
        return shown
    half = max(0, (len(shown) - 5) // 2)
    return f"{item.text[:half]}\n...\n{item.text[len(item.text) - half :]}"


def whole(item: Item, level: Fidelity) -> str | None:
    """No short form at all: what the judge finds there is all that there is to find."""
    return item.text if level in item.texts else None


def _answers(_: Sequence[Server], quick: bool) -> list[Row]:
    """Unanswered questions by level, kind and split, and what that is worth: length, and answers by chance."""
    return [row for score in scores(quick=quick) for row in _rows(score)]


def _rows(score: Score) -> list[Row]:
    label, of = score.level.label, f"{score.kind}, {score.split}"
    missed = "not named by its line" if score.level in LINES else "unanswered"
    rows = [_row(f"{label} {missed}", of, 1 - score.answered, score.asked, MOST_MISSED.get(score.level))]
    if score.level in RENDITIONS:
        rows.append(_row(f"{label} answered by another object", of, score.by_chance, score.asked))
        rows.append(_row(f"{label} ÷ whole", of, score.length, score.asked))
    return rows


def _row(name: str, variant: str, share: float, n: int, goal: float | None = None) -> Row:
    return Row(name=name, variant=variant, unit="%", median=100 * share, p95=None, p99=None, n=n, goal=goal)


def _baselines(_: Sequence[Server], quick: bool) -> list[Row]:
    """The same questions to a cut in the middle of equal length, and to the whole objects, of which all is known."""
    compared = (("cut in the middle", cut_in_the_middle), ("whole", whole))
    return [
        _row(f"{score.level.label} unanswered", f"{name}, {score.split}", 1 - score.answered, score.asked)
        for name, render in compared
        for score in scores(render, quick=quick)
        if score.kind == ALL and score.level in RENDITIONS and (score.split == HELD_OUT or not quick)
    ]


GROUP = Group("short_forms", (), (Part("answers", _answers), Part("baselines", _baselines)))
