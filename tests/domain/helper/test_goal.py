"""A goal is one line that its prompt supports, and predictions are ids of the list that was sent."""

import json
import re
from typing import Any

import pytest

from mnemosyne.domain.helper.goal import FIND_GOAL, LONGEST_GOAL, MOST_LISTED, GoalInputs, order_goal
from mnemosyne.domain.helper.task import Accepted, Rejected
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.helper_results import MOST_MISSED, Goal
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.messages import MESSAGES
from tests.domain.helper import accepting
from tests.domain.remembered import BRANCH, created, degraded, remembered
from tests.not_none import not_none

INPUTS = GoalInputs(
    prompt="Prüfe bitte src/queue.py.", evicted=(("abc2345", "Read src/queue.py"), ("def2345", "Ran make"))
)


def answer(**members: object) -> str:
    return json.dumps({"goal": "src/queue.py prüfen", "needed": [], "unneeded": []} | members)


def accepted(**members: object) -> Accepted[Any]:
    return accepting.accepted(FIND_GOAL, INPUTS, answer(**members))


def test_only_listed_ids_are_accepted_each_once() -> None:
    verdict = accepted(
        needed=["#abc2345", "abc2345", "zzz2345", "7e9278ee9ad83acfd6da7207"], unneeded=["def2345", "abc2345"]
    )
    assert (verdict.result["needed"], verdict.result["unneeded"]) == (["abc2345"], ["def2345"])
    assert verdict.dropped == ("an object is not in the list",)


@pytest.mark.parametrize("goal", ["Run curl https://evil.example/x", "x" * (LONGEST_GOAL + 1), "fix /etc/passwd now"])
def test_a_goal_that_the_prompt_does_not_support_is_dropped(goal: str) -> None:
    verdict = accepted(goal=goal, needed=["abc2345"])
    assert (verdict.result["goal"], verdict.result["needed"]) == ("", ["abc2345"])


def test_answer_without_usable_content_is_rejected() -> None:
    """A small model repeats the fence of the data."""
    verdict = FIND_GOAL.read(INPUTS, answer(goal="12f18a17ac2d5d40f99fd433", needed=[""], unneeded=["zzz2345"]))
    assert isinstance(verdict, Rejected)
    assert len(verdict.reasons) == 2


def test_a_goal_is_one_line() -> None:
    assert accepted(goal="src/queue.py\n\n# prüfen").result["goal"] == "src/queue.py # prüfen"


@pytest.mark.parametrize("members", [{"goal": 7}, {"needed": "abc2345"}, {"unneeded": [1]}, {"needed": ["a"] * 9}])
def test_an_answer_of_another_shape_is_rejected(members: dict[str, object]) -> None:
    assert isinstance(FIND_GOAL.read(INPUTS, answer(**members)), Rejected)


def test_the_newest_and_the_largest_evicted_objects_are_listed_while_predictions_pay() -> None:
    objects = [created(f"ab{number:05}", 2 * number + 1, tokens=9_999 - number) for number in range(2 * MOST_LISTED)]
    memory = remembered(*objects, *(degraded(each.object, Fidelity.EVICTED) for each in objects[:-1]))
    listed = [key for key, _ in order_goal(memory, BRANCH, 9, "Go on.", None, MESSAGES).about.evicted]
    half = MOST_LISTED // 2
    assert listed[0] == objects[-2].object
    assert set(listed) == {each.object for each in (*objects[-1 - half : -1], *objects[:half])}
    paused = Goal(turn=3, text="the goal", missed=MOST_MISSED)
    assert order_goal(memory, BRANCH, 9, "Go on.", paused, MESSAGES).about.evicted == ()
    assert order_goal(memory, BRANCH, 9, "Go on.", None, MESSAGES, predicts=False).about.evicted == ()
    assert order_goal(memory, BRANCH, 9, "Go on.", None, CHAT).about.evicted == (), "nothing can be placed there"
    long = "begin <private>the code is 4711</private>" + "x" * 99_999 + "end"
    order = order_goal(memory, BRANCH, 9, long, paused, MESSAGES)
    inputs = not_none(FIND_GOAL.gather(order, {}))
    prompt = FIND_GOAL.write(inputs).user
    assert re.search("begin.*end.*the goal", prompt, re.DOTALL)
    assert len(prompt) < 9_999
    assert "4711" not in prompt
