"""Work in steps makes the same whether anything is done in between or not."""

from mnemosyne.steps import Steps, collect, finish


def added(numbers: list[int]) -> Steps[int]:
    return sum((yield from collect(numbers)))


def test_work_that_is_finished_at_once_makes_what_its_last_step_returns() -> None:
    assert finish(added([1, 2, 3])) == 6


def test_each_item_is_a_step() -> None:
    numbers = iter([1, 2])
    steps = collect(numbers)
    next(steps)
    assert list(numbers) == [2]
