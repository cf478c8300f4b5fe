"""How large people are told that a thing is: by what its turn's prompt grew, where the provider counted that."""

from fractions import Fraction

from mnemosyne.domain.history.counted_sizes import MUCH, TurnSize, find_scales, tokens_of


def turn(number: int, tokens: int, counted: int | None, branch: str = "main") -> TurnSize:
    return TurnSize(branch=branch, turn=number, tokens=tokens, counted=counted)


def test_what_came_with_a_turn_is_as_large_as_the_prompt_grew() -> None:
    scales = find_scales([turn(1, 10_000, 11_000), turn(2, 13_000, 13_400)])
    assert scales == {("main", 1): Fraction(11, 10), ("main", 2): Fraction(2_400, 2_000)}
    assert tokens_of(1_000, "main", 2, scales) == 1_200


def test_what_nobody_counted_is_as_far_from_its_estimate_as_what_came_before_it() -> None:
    scales = find_scales([turn(1, 10_000, 9_000), turn(2, 13_000, None), turn(3, 16_000, 15_000)])
    assert [tokens_of(700, "main", number, scales) for number in (1, 2, 3)] == [630, 630, 630]


def test_where_nothing_was_counted_the_estimate_is_told() -> None:
    assert tokens_of(700, "main", 2, find_scales([turn(1, 10_000, None), turn(2, 13_000, None)])) == 700
    assert tokens_of(700, "main", 2, {}) == 700


def test_a_prompt_that_was_rewritten_or_hardly_grew_tells_nothing_of_what_came_with_it() -> None:
    rewritten, little = turn(2, 6_500, 6_000), turn(3, 6_000 + MUCH - 1, 6_000 + MUCH - 100)
    much_more = turn(4, 8_000, 14_000)
    scales = find_scales([turn(1, 10_000, 11_000), rewritten, little, much_more])
    assert set(scales.values()) == {Fraction(11, 10)}


def test_a_branch_is_counted_by_its_own_turns() -> None:
    scales = find_scales([turn(1, 10_000, 9_000), turn(2, 12_000, 12_200, "side"), turn(3, 14_000, 14_100, "side")])
    assert scales == {("main", 1): Fraction(9, 10), ("side", 2): 1, ("side", 3): Fraction(1_900, 1_800)}
