"""Work in steps has the same result with and without other work in between."""

from mnemosyne.steps import Steps, collect, finish


def added(numbers: list[int]) -> Steps[int]:
    return sum((yield from collect(numbers)))


def test_work_without_pauses_returns_the_result_of_its_last_step() -> None:
    assert finish(added([1, 2, 3])) == 6


def test_each_item_is_a_step() -> None:
    numbers = iter([1, 2])
    steps = collect(numbers)
    next(steps)
    assert list(numbers) == [2]
