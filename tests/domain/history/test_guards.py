"""Detection of agents that repeat themselves, and of normal work that only looks similar."""

from typing import Any

import pytest

from mnemosyne.domain.history.calls import read_calls
from mnemosyne.domain.history.guards import Repetition, find_repetitions
from tests.domain.segmenting_support import Talk

MAKE = ("Bash", {"command": "make"}, "no rule to make it")
LOOK = ("Read", {"file_path": "a.py"}, "x")
OTHER = ("Grep", {"pattern": "x"}, "none")
LATER = ("Grep", {"pattern": "y"}, "none")
LAST = ("Grep", {"pattern": "z"}, "none")

Called = tuple[str, dict[str, Any], str]


def found(*made: Called) -> list[tuple[str, int]]:
    talk = Talk().user("go")
    for tool, given, said in made:
        talk.call(tool, given, said)
    return [(each.tool, each.times) for each in find_repetitions(read_calls(talk.messages))]


def different(said: str, number: int = 3) -> list[Called]:
    """The same call with different numbers in its results."""
    return [("Bash", {"command": "make"}, said.format(each)) for each in range(number)]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([MAKE, MAKE, MAKE], [("Bash", 3)]),
        ([MAKE, LOOK, OTHER, MAKE, OTHER, MAKE], [("Bash", 3)]),
        ([MAKE, MAKE], [("Bash", 2)]),
        (different("failed in {0}.5s at 10:0{0}:07"), [("Bash", 3)]),
        ([("Bash", {"command": "make", "description": f"try {each}"}, "no") for each in range(3)],
         [("Bash", 3)]),
        ([MAKE, LOOK, MAKE, MAKE], [("Bash", 3)]),
    ],
    ids=["over and over", "with little between", "once more at once", "but for times", "with another word", "mixed"],
)  # fmt: skip
def test_a_call_with_the_same_result_again_is_reported(made: list[Called], expected: list[Any]) -> None:
    assert found(*made) == expected


@pytest.mark.parametrize(
    "made",
    [
        [],
        [MAKE, LOOK, MAKE],
        [MAKE, LOOK, OTHER, LATER, MAKE, LAST, OTHER, LATER, MAKE],
        different("{} errors"),
        [("Bash", {"command": f"make {each}"}, "no rule") for each in range(3)],
        [("BashOutput", {"bash_id": "1"}, "running")] * 4,
    ],
    ids=["nothing", "after a change", "seldom", "another answer", "another question", "waiting"],
)
def test_normal_work_is_not_reported(made: list[Called]) -> None:
    """Such as a check after each change, or polling a running task."""
    assert found(*made) == []


def test_the_users_next_message_restarts_the_count() -> None:
    talk = Talk()
    for _ in range(4):
        talk.user("check it").call(*MAKE)
    assert find_repetitions(read_calls(talk.messages)) == ()


def test_calls_of_one_message_do_not_count_as_ignored() -> None:
    """They were made before any result arrived."""
    talk = Talk().user("go")
    talk.assistant(*({"type": "tool_use", "id": each, "name": "Bash", "input": {"command": "make"}} for each in "ab"))
    talk.results(("a", "no"), ("b", "no"))
    assert find_repetitions(read_calls(talk.messages)) == ()


def test_input_and_result_are_single_lines_of_bounded_length() -> None:
    talk = Talk().user("go")
    for _ in range(3):
        talk.call("Bash", {"command": "make\x1b[31m\n" * 100}, "no\n" * 1000)
    (again,) = find_repetitions(read_calls(talk.messages))
    assert isinstance(again, Repetition)
    assert (again.turns, again.times) == ((2, 4), 3)
    assert max(len(again.given), len(again.said)) <= 120
    assert "\n" not in again.given + again.said
    assert "\x1b" not in again.given + again.said
