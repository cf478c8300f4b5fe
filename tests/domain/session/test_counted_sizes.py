"""The sizes that people see: by the counted growth of a turn's prompt, if the provider counted it."""

from fractions import Fraction

from mnemosyne.domain.objects.events import TurnAssessed
from mnemosyne.domain.session.counted_sizes import LEAST_GROWTH, CountedTurns, Scales, tokens_of
from mnemosyne.domain.session.events import TurnFinished
from tests.domain.session_events import assessed, finished


def turn(number: int, tokens: int, counted: int | None, branch: str = "main") -> tuple[int, int, int | None, str]:
    return number, tokens, counted, branch


def find_scales(turns: list[tuple[int, int, int | None, str]]) -> Scales:
    counts = {(branch, number): counted for number, _, counted, branch in turns if counted is not None}
    return CountedTurns({(branch, number): tokens for number, tokens, _, branch in turns}, counts).find_scales()


def test_the_content_of_a_turn_has_the_size_by_which_the_prompt_grew() -> None:
    scales = find_scales([turn(1, 10_000, 11_000), turn(2, 13_000, 13_400)])
    assert scales == {("main", 1): Fraction(11, 10), ("main", 2): Fraction(2_400, 2_000)}
    assert tokens_of(1_000, "main", 2, scales) == 1_200


def test_an_uncounted_turn_has_the_scale_of_the_turn_before() -> None:
    scales = find_scales([turn(1, 10_000, 9_000), turn(2, 13_000, None), turn(3, 16_000, 15_000)])
    assert [tokens_of(700, "main", number, scales) for number in (1, 2, 3)] == [630, 630, 630]


def test_a_prompt_that_was_rewritten_or_hardly_grew_yields_no_scale() -> None:
    rewritten, little = turn(2, 6_500, 6_000), turn(3, 6_000 + LEAST_GROWTH - 1, 6_000 + LEAST_GROWTH - 100)
    much_more = turn(4, 8_000, 14_000)
    scales = find_scales([turn(1, 10_000, 11_000), rewritten, little, much_more])
    assert set(scales.values()) == {Fraction(11, 10)}


def test_a_branch_is_counted_by_its_own_turns() -> None:
    scales = find_scales([turn(1, 10_000, 9_000), turn(2, 12_000, 12_200, "side"), turn(3, 14_000, 14_100, "side")])
    assert scales == {("main", 1): Fraction(9, 10), ("side", 2): 1, ("side", 3): Fraction(1_900, 1_800)}


def scales_of(*events: TurnAssessed | TurnFinished) -> Scales:
    turns = CountedTurns()
    for event in events:
        turns = turns.after(event)
    return turns.find_scales()


def test_the_last_counted_attempt_determines_the_scale() -> None:
    first, second = (
        finished(1, None, {"input_tokens": 9_000}, attempt=1),
        finished(1, None, {"input_tokens": 7_000}, attempt=2),
    )
    assert scales_of(assessed(1, 10_000), first, second, finished(1, None, {}, attempt=3)) == {
        ("main", 1): Fraction(7, 10)
    }


def test_a_turn_that_is_assessed_after_its_reply_is_scaled_all_the_same() -> None:
    assert scales_of(finished(1, None, {"input_tokens": 14_000}, attempt=1), assessed(1, 10_000)) == {
        ("main", 1): Fraction(14, 10)
    }


def test_a_reply_to_an_unassessed_turn_yields_no_scale() -> None:
    assert scales_of(finished(1, None, {"input_tokens": 14_000}, attempt=1)) == {}
