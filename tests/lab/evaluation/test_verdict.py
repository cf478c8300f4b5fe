"""The verdict states the savings, the dearer sessions and the losses, and nothing beyond the numbers."""

from fractions import Fraction

import attrs
import pytest

from mnemosyne_lab.evaluation.results import Evaluation, PolicyResult
from mnemosyne_lab.evaluation.verdict import find_judged, verdict
from tests.lab.evaluation.building import evaluation, policy, session

OURS = "mnemosyne"


def of(*ratios: str, silent: int = 0) -> Evaluation:
    """Sessions at these multiples of their unmanaged cost, which is ten dollars each."""
    made = [
        attrs.evolve(
            session(f"s{number}"),
            billed=Fraction(ratio) * 2_000_000,
            billed_unmanaged=Fraction(2_000_000),
            nanodollars=int(Fraction(ratio) * 10**10),
            nanodollars_unmanaged=10**10,
            evictions=400,
            exact_faults=1,
            silent=silent,
        )
        for number, ratio in enumerate(ratios)
    ]
    return evaluation(PolicyResult(name=OURS, about="", sessions=made))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            of("0.5", "0.75"),
            "These 2 sessions would have cost $12.50 instead of $20.00; none dearer;"
            " 0.25 % of 800 evicted items were needed again.",
        ),
        (of("1.01", "0.75"), "none more than 2 % dearer"),
        (of("1.5", "1.1", "0.2"), "2 more than 2 % dearer, the worst by 50 %"),
        (of("0.5"), "This session would have cost $5.00 instead of $10.00"),
        (of("0.5", silent=3), "were needed again, 3 times without a hint where it is."),
    ],
)
def test_sentence_states_the_result(found: Evaluation, said: str) -> None:
    assert said in (verdict(found) or "")


def test_verdict_prefers_a_user_policy_and_ignores_policies_with_foresight() -> None:
    ours, own, bound = policy(OURS, 0.5), policy("mine:plan", 0.2), policy("oracle", 0.9, bound=True)
    found = find_judged(evaluation(bound, ours, own))
    assert found is own
    assert find_judged(evaluation(bound, ours)) is ours
    assert find_judged(evaluation(bound)) is None
    assert "under mine:plan" in (verdict(evaluation(ours, own)) or "")
    assert verdict(evaluation(bound)) is None
