"""The verdict states the savings, the dearer sessions and the losses, and nothing beyond the numbers."""

from collections.abc import Sequence
from fractions import Fraction

import attrs
import pytest

from mnemosyne_lab.evaluation.results import Evaluation, PolicyResult, SessionResult
from mnemosyne_lab.evaluation.verdict import (
    find_judged,
    list_refused,
    render_too_small,
    render_window,
    split_too_small,
    verdict,
)
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


WINDOW = 20_000


def fill(*prompts: int, fixed: int = 5_000, compactions: int = 0, resident: int = 100) -> SessionResult:
    """A session whose requests have these sizes, with a hundred demands."""
    made = session(turns=len(prompts), strength=0)
    points = [
        attrs.evolve(point, fixed=fixed, resident=(prompt - fixed, 0, 0, 0))
        for point, prompt in zip(made.points, prompts, strict=True)
    ]
    return attrs.evolve(made, points=points, compactions=compactions, demands=100, resident=resident)


def test_only_a_request_larger_than_the_window_is_refused() -> None:
    assert list_refused(fill(19_000, WINDOW, WINDOW + 1, 6_000, 30_000), WINDOW) == [2, 4]


def test_sessions_with_a_too_large_head_are_listed_separately_once() -> None:
    key = ("api-5m", "native")
    large, small = {key: fill(WINDOW, fixed=WINDOW)}, {key: fill(6_000)}
    assert split_too_small([large, small], WINDOW, key) == ([large[key]], [small])
    assert split_too_small([large, small], None, key) == ([], [large, small])
    [said] = render_too_small([large[key]], WINDOW)
    assert said.startswith("System prompt and tools of 1 session take 20,000 tokens, so no request fits into a window")
    assert render_too_small([], WINDOW) == []


@pytest.mark.parametrize(
    ("idle", "native", "ours", "said"),
    [
        (
            [fill(6_000, 9_000)],
            [fill(6_000)],
            None,
            ["All 2 requests of 1 session fit into a window of 20,000 tokens."],
        ),
        (
            [fill(6_000, 21_000, 22_000), fill(6_000, 7_000)],
            [fill(6_000, 9_000, 30_000, compactions=1, resident=80), fill(6_000, 7_000)],
            [fill(6_000, 9_000, 9_000, resident=99), fill(6_000, 7_000)],
            [
                "In a window of 20,000 tokens a client that does nothing when it is full is refused in 1 of 2 sessions,"
                " at request 2 in the median; 2 of 5 requests are never answered.",
                "One that compacts by itself does so once; 10.0 % of what was needed later had left with that; 1"
                " request would not fit all the same.",
                "With mnemosyne: 0 rewrites; 0.5 % of what was needed later was no longer in the prompt; every request"
                " fits.",
            ],
        ),
    ],
)
def test_sentences_give_the_result_of_each_session(
    idle: Sequence[SessionResult],
    native: Sequence[SessionResult],
    ours: Sequence[SessionResult] | None,
    said: Sequence[str],
) -> None:
    policy = None if ours is None else PolicyResult(name="mnemosyne", about="", sessions=ours)
    assert render_window(WINDOW, idle, native, policy) == said
