"""What a task accepts is stored, and read again with the same result."""

from typing import TypeVar

from mnemosyne.domain.helper.task import Accepted, HelperTask

Inputs = TypeVar("Inputs")
Result = TypeVar("Result")


def accepted(task: HelperTask[Inputs, Result], inputs: Inputs, answer: str) -> Accepted[Result]:
    """The verdict on an answer, which must be accepted."""
    verdict = task.read(inputs, answer)
    assert isinstance(verdict, Accepted)
    again = task.read(inputs, verdict.text)
    assert isinstance(again, Accepted)
    assert again.result == verdict.result
    return verdict
