"""The plan that is being followed: its objects stay in the window until its last step is done.

A client's to-do list is one object for each time it is written whole, or several objects where each call updates one
step. A plan that the user accepted in plan mode precedes such a list and is finished with it. Of conflicting plans the
last one applies.
"""

from collections.abc import Iterable
from typing import Protocol

from mnemosyne.domain.objects.index import Described
from mnemosyne.domain.objects.kinds import KINDS

LIST, PROPOSAL = "todos", "plan"
"""Source keys of a to-do list that is written whole, and of a plan accepted in plan mode."""

FINISHED = "finished"
"""Tag of a list without open items."""

LARGEST = 4_000
"""Tokens above which an object is too large to keep as part of a plan."""

_BEGUN, _ENDED = "begun:", "ended:"


def step_tag(number: str, *, is_open: bool) -> str:
    """The tag of a call that opens or closes one step, by the step's number."""
    return f"{_BEGUN if is_open else _ENDED}{number}"


class PlanPart(Described, Protocol):
    """The fields that are read of an object: a ``MemoryObject`` has them, and so has an evaluation's object."""

    @property
    def id(self) -> str: ...


def find_followed_plan(objects: Iterable[PlanPart]) -> frozenset[str]:
    """The ids of the objects that hold the plan, given a branch's objects in order of creation; empty if the plan is
    finished or was rejected.
    """
    proposal: tuple[PlanPart, ...] = ()
    parts: tuple[PlanPart, ...] = ()
    open_steps: set[str] = set()
    for part in objects:
        if not KINDS[part.kind].is_settled:
            continue
        begun, ended = _steps(part, _BEGUN), _steps(part, _ENDED)
        if part.source_key == PROPOSAL:
            proposal, parts, open_steps = (part,), (), set()
        elif part.source_key == LIST:
            proposal, parts, open_steps = ((), (), set()) if FINISHED in part.tags else (proposal, (part,), set())
        elif begun or ended:
            parts, open_steps = (*parts, part) if open_steps else (part,), (open_steps | begun) - ended
            proposal, parts = (proposal, parts) if open_steps else ((), ())
    return frozenset(part.id for part in (*proposal, *parts))


def _steps(part: PlanPart, how: str) -> set[str]:
    return {tag.removeprefix(how) for tag in part.tags if tag.startswith(how)}
