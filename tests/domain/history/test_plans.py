"""The plan of a session, read from the client's own plan tools."""

from typing import Any

import pytest

from mnemosyne.domain.history.calls import AnsweredCall, read_calls
from mnemosyne.domain.history.plans import WorkPlan, plan_after
from mnemosyne.domain.segmentation.plan_items import ItemState
from tests.domain.segmenting_support import Talk
from tests.not_none import not_none

OPEN, DOING, DONE = "pending", "in_progress", "completed"


def todos(**items: str) -> dict[str, Any]:
    return {"todos": [{"content": text, "status": status} for text, status in items.items()]}


Made = tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str]


def calls(*made: Made) -> list[AnsweredCall]:
    talk = Talk().user("go")
    for tool, given, *said in made:
        talk.call(tool, given, *(said or ["ok"]))
    return list(read_calls(talk.messages))


def summarize_plan(plan: WorkPlan | None) -> tuple[str | None, dict[str, str], int]:
    assert plan is not None
    return plan.progress, {each.text: each.state.value for each in plan.items}, plan.left


def test_a_rewritten_list_continues_the_same_plan() -> None:
    """Open items that are missing from the new list were dropped and no longer count."""
    found = plan_after(
        calls(("TodoWrite", todos(a=DOING, b=OPEN, c=OPEN)), ("TodoWrite", todos(a=DONE, c=DOING, d=OPEN)))
    )
    assert summarize_plan(found) == ("1 of 3", {"a": "done", "c": "in progress", "d": "open", "b": "dropped"}, 0)
    assert found is not None
    assert (found.is_followed, found.turn) == (True, 3)


def test_a_new_plan_replaces_the_old_one_and_counts_its_open_items() -> None:
    found = plan_after(calls(("TodoWrite", todos(a=DONE, b=OPEN, c=DOING)), ("TodoWrite", todos(x=OPEN))))
    assert summarize_plan(found) == ("0 of 1", {"x": "open"}, 2)


def test_a_plan_has_the_decisions_since_the_previous_plan_ended() -> None:
    def asked(answer: str) -> Made:
        return ("AskUserQuestion", {"questions": []}, f'User has answered: "Which?"="{answer}"')

    first, second = ("TodoWrite", todos(a=DOING)), ("TodoWrite", todos(b=OPEN))
    decided = [asked("one"), first, asked("two")]
    for more, expected in (
        ((), ["Which? one", "Which? two"]),
        ((("TodoWrite", todos(a=DONE)), asked("three"), second, asked("four")), ["Which? three", "Which? four"]),
    ):
        assert [*not_none(plan_after(calls(*decided, *more))).decisions] == expected


def test_tasks_change_one_at_a_time() -> None:
    """By the client's task number; a task created before the recording has no text."""
    found = plan_after(
        calls(
            ("TaskCreate", {"subject": "a"}, "Task #1 created successfully: a"),
            ("TaskCreate", {"subject": "b"}, "Task #2 created successfully: b"),
            ("TaskUpdate", {"taskId": "1", "status": DONE}),
            ("TaskUpdate", {"taskId": "2", "subject": "b again"}),
            ("TaskUpdate", {"taskId": "7", "status": DOING}),
            ("TaskList", {}),
        )
    )
    assert summarize_plan(found) == ("1 of 3", {"a": "done", "b again": "open", "Task 7": "in progress"}, 0)


def test_an_approved_plan_gives_its_list_a_title() -> None:
    """A refused plan changes nothing; newer clients state the text only in the result."""
    agreed: Made = ("ExitPlanMode", {}, "User has approved your plan.\n\n## Approved Plan:\n# Mend it\n\n1. look")
    refused: Made = ("ExitPlanMode", {"plan": "# Burn it"}, "The user doesn't want to proceed with this tool use.")
    title = not_none(plan_after(calls(agreed)))
    assert (title.title, title.progress, title.is_followed) == ("Mend it", None, True)
    listed = not_none(plan_after(calls(agreed, refused, ("TodoWrite", todos(a=DONE)))))
    assert (listed.title, listed.progress, listed.is_followed) == ("Mend it", "1 of 1", False)


@pytest.mark.parametrize(
    "made",
    [
        (),
        (("Bash", {"command": "ls"}),),
        (("TodoWrite", {"todos": "a"}),),
        (("TaskUpdate", {}),),
        (("ExitPlanMode", {}),),
        (("ExitPlanMode", {"plan": "\n#\n"}),),
    ],
)
def test_unrelated_calls_make_no_plan(made: Any) -> None:
    assert plan_after(calls(*made)) is None


def test_a_list_without_items_is_not_followed() -> None:
    found = not_none(plan_after(calls(("TodoWrite", todos()))))
    assert (found.progress, found.is_followed) == (None, False)


def test_a_list_and_tasks_replace_each_other() -> None:
    task = ("TaskCreate", {"subject": "t"}, "Task #1 created successfully: t")
    assert summarize_plan(plan_after(calls(("TodoWrite", todos(a=OPEN)), task))) == ("0 of 1", {"t": "open"}, 1)
    assert summarize_plan(plan_after(calls(task, ("TodoWrite", todos(a=OPEN))))) == ("0 of 1", {"a": "open"}, 1)


def test_a_call_that_failed_changes_nothing() -> None:
    first, second = calls(("TodoWrite", todos(a=OPEN)), ("TodoWrite", todos(a=DONE)))
    failed = AnsweredCall(turn=3, id="x", tool="TodoWrite", given=second.given, said="no", failed=True)
    assert [each.state for each in not_none(plan_after([first, failed])).items] == [ItemState.OPEN]
