"""The agent's work plan and its progress: a pure fold over the calls of the client's own plan tools."""

from collections.abc import Iterable

import attrs

from mnemosyne.domain.history.calls import AnsweredCall
from mnemosyne.domain.segmentation import plan_items
from mnemosyne.domain.segmentation.plan_items import ItemState, PlanItem
from mnemosyne.domain.segmentation.tools import QUESTIONS, render_answers
from mnemosyne.domain.text.stubs import plain


@attrs.frozen(kw_only=True)
class WorkPlan:
    """The current plan. ``title`` is the first line of the plan that the user approved in plan mode, empty if there was
    none. ``turn`` is the turn of the last change. ``left`` counts the open items of the unfinished plan that this one
    replaced. ``decisions`` are the user's answers to the agent's questions since the previous plan ended.
    """

    title: str = ""
    items: tuple[PlanItem, ...] = ()
    turn: int
    left: int = 0
    decisions: tuple[str, ...] = ()

    @property
    def standing(self) -> int:
        """The number of items that were not dropped."""
        return sum(each.state is not ItemState.DROPPED for each in self.items)

    @property
    def done(self) -> int:
        """The number of items that are done."""
        return sum(each.state is ItemState.DONE for each in self.items)

    @property
    def open(self) -> tuple[PlanItem, ...]:
        """The open items, in order."""
        return tuple(each for each in self.items if each.state.is_open)

    @property
    def is_followed(self) -> bool:
        """Whether items are open. An approved plan without items counts as followed."""
        return bool(self.open) or bool(self.title and not self.items)

    @property
    def progress(self) -> str | None:
        """The progress, as ``3 of 7``; None if the plan has no items."""
        return f"{self.done} of {self.standing}" if self.items else None


def plan_after(calls: Iterable[AnsweredCall]) -> WorkPlan | None:
    """The plan after these calls; None if none of them made one."""
    plan: WorkPlan | None = None
    decided: tuple[str, ...] = ()
    for call in calls:
        if call.failed or call.refused:
            continue
        if call.tool.lower() in QUESTIONS:
            decided = (*decided, render_answers(call.said) or plain(call.said, plan_items.LONGEST))
        plan = _change(plan, call) or plan
        if plan is not None and (plan.is_followed or plan.turn == call.turn):
            plan, decided = attrs.evolve(plan, decisions=(*plan.decisions, *decided)), ()
    return plan


def _change(plan: WorkPlan | None, call: AnsweredCall) -> WorkPlan | None:
    """The plan after a call of a plan tool; None after any other call."""
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
    """The plan after its whole list was written. Open items that are missing from the new list were dropped; a list
    that shares no item with the old one is a new plan.
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
    """The plan that the user approved in plan mode. Newer clients keep it in a file and state it only in the result."""
    given = call.given.get("plan")
    text = given if isinstance(given, str) else call.said.partition("## Approved Plan:")[2]
    title = next((line.strip("# ").strip() for line in text.splitlines() if line.strip("# ").strip()), "")
    if not title:
        return None
    return WorkPlan(title=plain(title, plan_items.LONGEST), turn=call.turn, left=_count_open(plan))


def _count_open(plan: WorkPlan | None) -> int:
    return len(plan.open) if plan is not None else 0
