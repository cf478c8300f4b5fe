"""Results for a small window agree with the sizes of the requests."""

from collections.abc import Sequence

import attrs
import pytest

from mnemosyne_lab.evaluation.results import PolicyResult, SessionResult
from mnemosyne_lab.evaluation.small_window import list_refused, render_too_small, render_window, split_too_small
from tests.lab.evaluation.building import session

WINDOW = 20_000


def of(*prompts: int, fixed: int = 5_000, compactions: int = 0, resident: int = 100) -> SessionResult:
    """A session whose requests have these sizes, with a hundred demands."""
    made = session(turns=len(prompts), strength=0)
    points = [
        attrs.evolve(point, fixed=fixed, resident=(prompt - fixed, 0, 0, 0))
        for point, prompt in zip(made.points, prompts, strict=True)
    ]
    return attrs.evolve(made, points=points, compactions=compactions, demands=100, resident=resident)


def test_only_a_request_larger_than_the_window_is_refused() -> None:
    assert list_refused(of(19_000, WINDOW, WINDOW + 1, 6_000, 30_000), WINDOW) == [2, 4]


def test_sessions_with_a_too_large_head_are_listed_separately_once() -> None:
    key = ("api-5m", "native")
    large, small = {key: of(WINDOW, fixed=WINDOW)}, {key: of(6_000)}
    assert split_too_small([large, small], WINDOW, key) == ([large[key]], [small])
    assert split_too_small([large, small], None, key) == ([], [large, small])
    [said] = render_too_small([large[key]], WINDOW)
    assert said.startswith("System prompt and tools of 1 session take 20,000 tokens, so no request fits into a window")
    assert render_too_small([], WINDOW) == []


@pytest.mark.parametrize(
    ("idle", "native", "ours", "said"),
    [
        ([of(6_000, 9_000)], [of(6_000)], None, ["All 2 requests of 1 session fit into a window of 20,000 tokens."]),
        (
            [of(6_000, 21_000, 22_000), of(6_000, 7_000)],
            [of(6_000, 9_000, 30_000, compactions=1, resident=80), of(6_000, 7_000)],
            [of(6_000, 9_000, 9_000, resident=99), of(6_000, 7_000)],
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
