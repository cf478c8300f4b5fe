"""Read the items of a client's to-do list from a call: the lists of Claude Code and opencode, which are written as a
whole each time, Codex's plan, and Claude Code's newer tasks, of which each call changes one.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.text.stubs import plain, stub

LONGEST = 200
"""How many characters of an item are kept."""

MOST = 200
"""How many items of a list are read."""


class ItemState(Enum):
    """The progress of an item."""

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
    """One thing to do. ``name`` identifies it within its plan: its number if the client gives one, else its text."""

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
    """Return the state for a client's status word; unknown words mean open."""
    return _STATES.get(status, ItemState.OPEN) if isinstance(status, str) else ItemState.OPEN


def list_of(given: Mapping[str, Any]) -> tuple[PlanItem, ...] | None:
    """Read the items of a list that is written as a whole; None if the input is not one. Invalid items are omitted."""
    match given:
        case {"todos": list(items)} | {"plan": list(items)}:
            read = (_item(value) for value in items[:MOST])
            return tuple({item.name: item for item in read if item is not None}.values())
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
    """A change of one task, by its ``number``; None for a field that does not change."""

    number: str
    text: str | None
    state: ItemState | None


_CREATED = re.compile(r"[Tt]ask #?(\d{1,6})\b")


def task_of(given: Mapping[str, Any], answer: str) -> TaskChange | None:
    """Read the task that a call creates or changes; None if there is none. The answer to a creation contains its
    number.
    """
    match given:
        case {"taskId": str(number)}:
            status = given.get("status")
            return TaskChange(plain(number, 20), _text(given), None if status is None else state_of(status))
        case {"subject": str()} if (match := _CREATED.search(answer[:200])) is not None:
            return TaskChange(match[1], _text(given), ItemState.OPEN)
        case _:
            return None


def _text(given: Mapping[str, Any]) -> str | None:
    subject = given.get("subject")
    return plain(subject, LONGEST) if isinstance(subject, str) else None


MOST_NAMED = 3
"""How many open items a line names."""


def render_list(items: Sequence[PlanItem]) -> str:
    """Return the stub of a list: its progress and the open items, those in progress first. The number of further open
    items is omitted, because it would look like that of another state of the same list.
    """
    kept = [item for item in items if item.state is not ItemState.DROPPED]
    unfinished = [item for item in kept if item.state.is_open]
    unfinished.sort(key=lambda item: item.state is not ItemState.IN_PROGRESS)
    done = len(kept) - len(unfinished)
    names = "; ".join(plain(item.text, 60) for item in unfinished[:MOST_NAMED])
    more = "; …" if len(unfinished) > MOST_NAMED else ""
    what = f"Todo list: {done} of {len(kept)} {'step' if len(kept) == 1 else 'steps'} done"
    return stub(f"{what}; open: {names}{more}" if unfinished else what)
