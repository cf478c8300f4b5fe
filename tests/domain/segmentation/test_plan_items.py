"""The lists of real clients, and their stubs."""

from typing import Any

import pytest

from mnemosyne.domain.objects.followed_plan import FINISHED
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.plan_items import ItemState, PlanItem, TaskChange, list_of, render_list, task_of
from mnemosyne.domain.segmentation.segment import Draft, segment
from mnemosyne.domain.text.stubs import LONGEST
from tests.domain.segmenting_support import LONG, Talk


def item(text: str, state: ItemState = ItemState.OPEN) -> PlanItem:
    return PlanItem(text, text, state)


CLAUDE = {"todos": [{"content": "Write it", "status": "in_progress", "activeForm": "Writing it"}]}
OPENCODE = {"todos": [{"content": "Write it", "status": "cancelled", "priority": "high"}]}
CODEX = {"explanation": "why", "plan": [{"step": "Write it", "status": "completed"}]}


@pytest.mark.parametrize(
    ("given", "state"), [(CLAUDE, ItemState.IN_PROGRESS), (OPENCODE, ItemState.DROPPED), (CODEX, ItemState.DONE)]
)
def test_the_lists_of_three_clients_are_read_alike(given: dict[str, Any], state: ItemState) -> None:
    assert list_of(given) == (item("Write it", state),)


@pytest.mark.parametrize(
    ("given", "items"),
    [
        ({}, None),
        ({"todos": "a, b"}, None),
        ({"plan": "# In prose"}, None),
        ({"todos": []}, ()),
        ({"todos": [7, None, {}, {"content": 7}, {"content": " \n"}, ["a"]]}, ()),
        ({"todos": [{"content": "a"}, {"content": "a", "status": {"x": 1}}, {"step": "b\x1b[31m"}]}, ("a", "b [31m")),
    ],
)
def test_invalid_items_are_omitted(given: dict[str, Any], items: tuple[str, ...] | None) -> None:
    """A model may write anything. An item without a known state is open, and equal texts are one item."""
    assert list_of(given) == (None if items is None else tuple(map(item, items)))


@pytest.mark.parametrize(
    ("given", "answer", "change"),
    [
        ({"subject": "Add it"}, "Task #3 created successfully: Add it", TaskChange("3", "Add it", ItemState.OPEN)),
        ({"subject": "Add it"}, "made", None),
        ({"taskId": "3", "status": "completed"}, "Updated task #3 status", TaskChange("3", None, ItemState.DONE)),
        ({"taskId": "3", "status": "deleted"}, "", TaskChange("3", None, ItemState.DROPPED)),
        ({"taskId": "3", "description": "more"}, "", TaskChange("3", None, None)),
        ({"taskId": 3}, "", None),
        ({}, "No tasks found", None),
    ],
)
def test_a_task_is_identified_by_its_number(given: dict[str, Any], answer: str, change: TaskChange | None) -> None:
    """The client gives the number in the answer to a creation; a change without a state keeps the state."""
    assert task_of(given, answer) == change


def test_a_stub_names_open_items_with_the_one_in_progress_first() -> None:
    items = [item("a", ItemState.DONE), item("b"), item("c", ItemState.IN_PROGRESS), item("x", ItemState.DROPPED)]
    assert render_list(items) == "Todo list: 1 of 3 steps done; open: c; b"
    assert render_list([item("a", ItemState.DONE)]) == "Todo list: 1 of 1 step done"
    long = render_list([item(f"{number} {'word ' * 40}") for number in range(9)])
    assert len(long) <= LONGEST


def test_stubs_of_different_states_of_a_list_share_only_its_length() -> None:
    done, still = item("a", ItemState.DONE), [item(name) for name in "bcdefg"]
    assert render_list([done, *still[:4]]) == "Todo list: 1 of 5 steps done; open: b; c; d; …"
    assert render_list(still[:5]) == "Todo list: 0 of 5 steps done; open: b; c; d; …"


def test_a_list_that_names_a_file_is_a_use_of_the_object_that_shows_it() -> None:
    """A link keeps an object from aging: each time that the list is written, the file is needed."""
    named = {"todos": [{"content": "Mend app/a.py", "status": "pending"}]}
    talk = Talk().user("go").call("Read", {"file_path": "/r/app/a.py"}, LONG).call("TodoWrite", named, "ok")
    read, listed = (each for each in segment(talk.messages, SegmentationState()).drafts if each.source_tool)
    assert (read.source_key, [link.target for link in listed.links]) == ("/r/app/a.py", [0])


def drafts(tool: str, given: dict[str, Any], answer: Any) -> tuple[Draft, ...]:
    talk = Talk().user("go").call(tool, given, answer).user("and now?")
    return tuple(each for each in segment(talk.messages, SegmentationState()).drafts if each.source_tool)


@pytest.mark.parametrize(
    ("tool", "given", "answer", "key", "tags"),
    [
        ("TodoWrite", CLAUDE, "ok", "todos", ()),
        ("todowrite", OPENCODE, "ok", "todos", (FINISHED,)),
        ("update_plan", CODEX, "Plan updated", "todos", (FINISHED,)),
        ("TaskCreate", {"subject": "Add it"}, "Task #3 created successfully: Add it", None, ("begun:3",)),
        ("TaskUpdate", {"taskId": "3", "status": "completed"}, "Updated task #3 status", None, ("ended:3",)),
        ("TaskGet", {"taskId": "3"}, "#3 [pending] Add it", None, ()),
        ("ExitPlanMode", {"plan": "# It"}, "User has approved your plan.", "plan", ()),
        ("ExitPlanMode", {"plan": "# It"}, "The user doesn't want to proceed with this tool use.", None, ("refused",)),
    ],
)
def test_key_and_tags_of_an_object_show_its_part_in_the_plan(
    tool: str, given: dict[str, Any], answer: str, key: str | None, tags: tuple[str, ...]
) -> None:
    """So that the current plan can be folded from the log without reading texts."""
    (draft,) = drafts(tool, given, answer)
    assert (draft.source_key, draft.tags) == (key, tags)
