"""The plan of a session: what its agent wrote down that is to be done, and how far it is. A pure fold over the calls of
its client's own tools for that.
"""

from collections.abc import Iterable

import attrs

from mnemosyne.domain.history.calls import AnsweredCall
from mnemosyne.domain.segmentation import plan_items
from mnemosyne.domain.segmentation.plan_items import ItemState, PlanItem
from mnemosyne.domain.text.stubs import plain


@attrs.frozen(kw_only=True)
class WorkPlan:
    """A plan as it stands. ``title`` is the first line of what the user agreed to in plan mode, empty where there was
    no such. ``turn`` is that of the last change. ``left`` counts the open items of the plan before it, whose place it
    took before that was done: the last one holds.
    """

    title: str = ""
    items: tuple[PlanItem, ...] = ()
    turn: int
    left: int = 0

    @property
    def standing(self) -> int:
        """How many items it has that were not dropped."""
        return sum(each.state is not ItemState.DROPPED for each in self.items)

    @property
    def done(self) -> int:
        """How many of those are done."""
        return sum(each.state is ItemState.DONE for each in self.items)

    @property
    def open(self) -> tuple[PlanItem, ...]:
        """What is still to be done, in its order."""
        return tuple(each for each in self.items if each.state.is_open)

    @property
    def is_followed(self) -> bool:
        """Whether there is still something to do; of what was agreed to without items nobody knows more."""
        return bool(self.open) or bool(self.title and not self.items)

    @property
    def progress(self) -> str | None:
        """How far it is, as ``3 of 7``; None where it has no items."""
        return f"{self.done} of {self.standing}" if self.items else None


def plan_after(calls: Iterable[AnsweredCall]) -> WorkPlan | None:
    """The plan that holds after these calls; None where none of them made one."""
    plan: WorkPlan | None = None
    for call in calls:
        if not (call.failed or call.refused):
            plan = _change(plan, call) or plan
    return plan


def _change(plan: WorkPlan | None, call: AnsweredCall) -> WorkPlan | None:
    """The plan after a call that is about it; None after any other."""
    match call.tool.lower():
        case "todowrite" | "update_plan":
            items = plan_items.list_of(call.given)
            return None if items is None else _write(plan, items, call.turn)
        case "taskcreate" | "taskupdate":
            return _change_task(plan, call)
        case "exitplanmode":
            return _agree(plan, call)
        case _:
            return None


def _write(plan: WorkPlan | None, items: tuple[PlanItem, ...], turn: int) -> WorkPlan:
    """A list that was written whole. What was open on the one before and is on it no more was dropped; one with none of
    the items of the one before is another plan.
    """
    before = plan if plan is not None else WorkPlan(turn=turn)
    names = {each.name for each in items}
    if before.items and not names & {each.name for each in before.items}:
        return WorkPlan(items=items, turn=turn, left=len(before.open))
    gone = [each for each in before.items if each.name not in names and each.state is not ItemState.DONE]
    dropped = (attrs.evolve(each, state=ItemState.DROPPED) for each in gone)
    return attrs.evolve(before, items=(*items, *dropped), turn=turn)


def _change_task(plan: WorkPlan | None, call: AnsweredCall) -> WorkPlan | None:
    change = plan_items.task_of(call.given, call.said)
    if change is None:
        return None
    before = plan if plan is not None and all(each.name.isdigit() for each in plan.items) else None
    held = before if before is not None else WorkPlan(turn=call.turn, left=_count_open(plan))
    known = next((each for each in held.items if each.name == change.number), None)
    item = known if known is not None else PlanItem(change.number, f"Task {change.number}", ItemState.OPEN)
    item = attrs.evolve(item, text=change.text or item.text, state=change.state or item.state)
    items = tuple(item if each is known else each for each in held.items) if known else (*held.items, item)
    return attrs.evolve(held, items=items, turn=call.turn)


def _agree(plan: WorkPlan | None, call: AnsweredCall) -> WorkPlan | None:
    """What the user agreed to in plan mode. Newer clients hold it in a file, and say it in the answer alone."""
    given = call.given.get("plan")
    text = given if isinstance(given, str) else call.said.partition("## Approved Plan:")[2]
    title = next((line.strip("# ").strip() for line in text.splitlines() if line.strip("# ").strip()), "")
    if not title:
        return None
    return WorkPlan(title=plain(title, plan_items.LONGEST), turn=call.turn, left=_count_open(plan))


def _count_open(plan: WorkPlan | None) -> int:
    return len(plan.open) if plan is not None else 0
