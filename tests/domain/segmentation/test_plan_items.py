"""The lists of clients as they really look, and what a stub says of them."""

from typing import Any

import pytest

from mnemosyne.domain.objects.followed_plan import FINISHED
from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.plan_items import (
    ItemState,
    PlanItem,
    TaskChange,
    list_of,
    render_list,
    task_of,
)
from mnemosyne.domain.segmentation.segment import Draft, segment
from mnemosyne.domain.text.stubs import LONGEST
from tests.domain.segmenting_support import LONG, Talk


def item(text: str, state: ItemState = ItemState.OPEN) -> PlanItem:
    return PlanItem(text, text, state)


CLAUDE = {"todos": [{"content": "Write it", "status": "in_progress", "activeForm": "Writing it"}]}
OPENCODE = {"todos": [{"content": "Write it", "status": "cancelled", "priority": "high"}]}
CODEX = {"explanation": "why", "plan": [{"step": "Write it", "status": "completed"}]}


@pytest.mark.parametrize(
    ("given", "state"),
    [(CLAUDE, ItemState.IN_PROGRESS), (OPENCODE, ItemState.DROPPED), (CODEX, ItemState.DONE)],
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
def test_what_is_no_item_is_left_out(given: dict[str, Any], items: tuple[str, ...] | None) -> None:
    """What a model wrote may be anything. An item without a state that is known is open, and one text is one item."""
    assert list_of(given) == (None if items is None else tuple(map(item, items)))


@pytest.mark.parametrize(
    ("given", "said", "change"),
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
def test_a_task_is_known_by_its_number(given: dict[str, Any], said: str, change: TaskChange | None) -> None:
    """The client gives it in the answer to what makes it; a change without a state leaves that as it is."""
    assert task_of(given, said) == change


def test_a_stub_names_what_is_open_the_item_under_way_first() -> None:
    items = [item("a", ItemState.DONE), item("b"), item("c", ItemState.IN_PROGRESS), item("x", ItemState.DROPPED)]
    assert render_list(items) == "Todo list: 1 of 3 steps done; open: c; b"
    assert render_list([item("a", ItemState.DONE)]) == "Todo list: 1 of 1 step done"
    long = render_list([item(f"{number} {'word ' * 40}") for number in range(9)])
    assert len(long) <= LONGEST


def test_two_states_of_one_list_share_no_number_but_how_long_it_is() -> None:
    done, still = item("a", ItemState.DONE), [item(name) for name in "bcdefg"]
    assert render_list([done, *still[:4]]) == "Todo list: 1 of 5 steps done; open: b; c; d; …"
    assert render_list(still[:5]) == "Todo list: 0 of 5 steps done; open: b; c; d; …"


def test_a_list_that_names_a_file_is_a_use_of_what_shows_it() -> None:
    """A link is what keeps an object from growing old: each time that the list is written, the file is needed."""
    named = {"todos": [{"content": "Mend app/a.py", "status": "pending"}]}
    talk = Talk().user("go").call("Read", {"file_path": "/r/app/a.py"}, LONG).call("TodoWrite", named, "ok")
    read, listed = (each for each in segment(talk.messages, SegmentationState()).drafts if each.source_tool)
    assert (read.source_key, [link.target for link in listed.links]) == ("/r/app/a.py", [0])


def drafts(tool: str, given: dict[str, Any], said: Any) -> tuple[Draft, ...]:
    talk = Talk().user("go").call(tool, given, said).user("and now?")
    return tuple(each for each in segment(talk.messages, SegmentationState()).drafts if each.source_tool)


@pytest.mark.parametrize(
    ("tool", "given", "said", "key", "tags"),
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
def test_an_object_says_by_key_and_tags_what_it_is_to_the_plan(
    tool: str, given: dict[str, Any], said: str, key: str | None, tags: tuple[str, ...]
) -> None:
    """So that which plan is followed can be folded from the log without the words."""
    (draft,) = drafts(tool, given, said)
    assert (draft.source_key, draft.tags) == (key, tags)
