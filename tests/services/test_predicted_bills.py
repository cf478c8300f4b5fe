"""A bill is predicted from facts known before each turn, and compared with the provider's count."""

from typing import Any

import pytest

from mnemosyne.services.predicted_bills import PredictedBill, predict_bill

PRICE = 5_000
"""Nanodollars for an input token of the model."""

_PARTS = ("output", "read", "write_5m", "write_1h")


def turn(
    counted: int, estimated: int, *, read: int = 0, expected_read: int | None = None, **other: Any
) -> dict[str, Any]:
    """A row of an observed turn that writes nothing to the cache."""
    reads = {"actual": read, "expected": read if expected_read is None else expected_read, "shadow": read}
    sides = {f"{side}_{part}": {"read": reads[side]}.get(part, 0) for side in reads for part in _PARTS} | {
        f"{side}_input": counted - reads[side] for side in reads
    }
    flags = {
        "size": 0,
        "shadow_size": 0,
        "assumed": 0,
        "far": 0,
        "compacted": 0,
        "deviates": False,
        "rounds": 1,
        "turns": 1,
        "replies": 1,
        "compared": False,
    }
    terms = {"replied": None, "service_tier": None, "inference_geo": None, "speed": None, "web_searches": 0}
    about = {"branch": "main", "mode": "observe", "model": "claude-opus-4-5"}
    return {**about, **sides, **flags, **terms, "counted": counted, "estimated": estimated, **other}


def test_a_second_prompt_is_predicted_from_the_counted_first_one_and_estimated_growth() -> None:
    """The first one is mostly system prompt and tools, whose scale is another."""
    found = predict_bill([turn(2_000, 1_000), turn(2_500, 1_500)])
    assert (found.predicted, found.billed, found.error) == (2_500 * PRICE, 2_500 * PRICE, 0.0)


def test_growth_is_predicted_at_the_scale_of_earlier_growth() -> None:
    found = predict_bill([turn(1_000, 2_000), turn(2_000, 2_500), turn(4_000, 3_500)])
    assert found.predicted == (1_500 + 4_000) * PRICE


def test_a_first_request_is_left_out_because_other_sessions_may_have_cached_a_part_of_it() -> None:
    found = predict_bill([turn(10_000, 10_000, read=9_900, expected_read=0), turn(10_000, 10_000)])
    assert (found.turns, found.left_out, found.error) == (1, 1, 0.0)
    assert "1 turn left out (first requests, hidden rounds or no count)" in found.sentence


def test_first_request_of_a_branch_is_predicted_if_another_branch_cached_its_prefix() -> None:
    agent = turn(1_500, 1_000, branch="agent", read=1_200, expected_read=800)
    found = predict_bill([turn(3_000, 2_000), agent])
    assert (found.turns, found.left_out) == (1, 1)
    assert found.predicted == (700 + 80) * PRICE  # of 1,500 tokens at the scale of the other branch
    assert predict_bill([turn(3_000, 2_000), {**agent, "expected_read": 0}]).turns == 0
    assert predict_bill([turn(3_000, 2_000, model="claude-haiku-4-5"), agent]).turns == 0


def test_a_loss_of_the_cache_is_an_error_of_the_prediction() -> None:
    found = predict_bill([turn(1_000, 1_000), turn(1_000, 1_000, read=0, expected_read=1_000)])
    assert (found.predicted, found.billed) == (100 * PRICE, 1_000 * PRICE)
    assert "is 90.0 % less than the bill of" in found.sentence


@pytest.mark.parametrize("other", [{"rounds": 2}, {"assumed": 1}, {"counted": 0}, {"model": "nobody's"}])
def test_unpredictable_turns_are_excluded_and_counted(other: dict[str, Any]) -> None:
    found = predict_bill([turn(1_000, 1_000), turn(1_000, 1_000), {**turn(1_000, 1_000), **other}])
    assert (found.turns, found.left_out, found.predicted) == (1, 2, 1_000 * PRICE)
    assert predict_bill([{**turn(1_000, 1_000), **other}]).sentence.startswith("No bill was predicted: 1 turn")


def test_branches_and_models_are_predicted_apart() -> None:
    main, agent = [turn(9_000, 1_000)] * 2, [turn(500, 500, branch="agent")] * 2
    found = predict_bill([main[0], agent[0], main[1], agent[1], turn(700, 700, model="claude-haiku-4-5")])
    assert found.predicted == (9_000 + 500) * PRICE + 700 * 1_000
    assert predict_bill([]) == PredictedBill(turns=0, left_out=0, predicted=0, billed=0, error=0.0)
