"""What a call of a client's own list of things to do says of its items: Claude Code's and opencode's lists, which are
written whole each time, Codex's plan, and Claude Code's newer tasks, of which each call tells one.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.text.stubs import plain, stub

LONGEST = 200
"""Characters of an item that are kept."""

MOST = 200
"""Items of one list that are read."""


class ItemState(Enum):
    """How far an item of a plan is."""

    OPEN = "open"
    IN_PROGRESS = "in progress"
    DONE = "done"
    DROPPED = "dropped"

    @property
    def is_open(self) -> bool:
        """Whether there is still something to do."""
        return self in (ItemState.OPEN, ItemState.IN_PROGRESS)


@attrs.frozen
class PlanItem:
    """One thing to do. ``name`` tells it from others of its plan: its number where the client gives one, else its
    text.
    """

    name: str
    text: str
    state: ItemState


_STATES = {
    "pending": ItemState.OPEN,
    "in_progress": ItemState.IN_PROGRESS,
    "completed": ItemState.DONE,
    "cancelled": ItemState.DROPPED,
    "canceled": ItemState.DROPPED,
    "deleted": ItemState.DROPPED,
}


def state_of(status: object) -> ItemState:
    """What a client's word for a state means; what nobody knows is open."""
    return _STATES.get(status, ItemState.OPEN) if isinstance(status, str) else ItemState.OPEN


def list_of(given: Mapping[str, Any]) -> tuple[PlanItem, ...] | None:
    """The items of a list that is written whole; None where a call's input is none. What is no item is left out."""
    match given:
        case {"todos": list(items)} | {"plan": list(items)}:
            read = (_item(each) for each in items[:MOST])
            return tuple({each.name: each for each in read if each is not None}.values())
        case _:
            return None


def _item(item: object) -> PlanItem | None:
    if not isinstance(item, Mapping):
        return None
    text = item.get("content", item.get("step"))
    shown = plain(text, LONGEST) if isinstance(text, str) else ""
    return PlanItem(shown, shown, state_of(item.get("status"))) if shown else None


@attrs.frozen
class TaskChange:
    """What a call says of one task, by its ``number``; None for what it leaves as it is."""

    number: str
    text: str | None
    state: ItemState | None


_CREATED = re.compile(r"[Tt]ask #?(\d{1,6})\b")


def task_of(given: Mapping[str, Any], said: str) -> TaskChange | None:
    """The task that a call makes or changes; None where it is about none. What makes one is told its number."""
    match given:
        case {"taskId": str(number)}:
            status = given.get("status")
            return TaskChange(plain(number, 20), _text(given), None if status is None else state_of(status))
        case {"subject": str()} if (found := _CREATED.search(said[:200])) is not None:
            return TaskChange(found[1], _text(given), ItemState.OPEN)
        case _:
            return None


def _text(given: Mapping[str, Any]) -> str | None:
    subject = given.get("subject")
    return plain(subject, LONGEST) if isinstance(subject, str) else None


MOST_TOLD = 3
"""Open items that a line names."""


def render_list(items: Sequence[PlanItem]) -> str:
    """What a stub says of a list: how far it is, and what is open, in the midst of which first. How many more are open
    follows from how far it is, and a number of its own would look like that of another state of the same list.
    """
    standing = [each for each in items if each.state is not ItemState.DROPPED]
    left = [each for each in standing if each.state.is_open]
    left.sort(key=lambda each: each.state is not ItemState.IN_PROGRESS)
    done = len(standing) - len(left)
    told = "; ".join(plain(each.text, 60) for each in left[:MOST_TOLD])
    more = "; …" if len(left) > MOST_TOLD else ""
    what = f"Todo list: {done} of {len(standing)} {'step' if len(standing) == 1 else 'steps'} done"
    return stub(f"{what}; open: {told}{more}" if left else what)
