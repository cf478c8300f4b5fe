"""Which objects hold the plan that is being followed: it stays in the window until its last step is done.

A client's list of things to do is one object each time that it is written whole, or several where each call tells one
step. What the user agreed to in plan mode goes before a list, and is done with it. Of plans that contradict each other
the last one holds.
"""

from collections.abc import Iterable
from typing import Protocol

from mnemosyne.domain.objects.kinds import KINDS, ObjectKind

LIST, PROPOSAL = "todos", "plan"
"""Source keys: of a list that is written whole, and of what was agreed to in plan mode."""

FINISHED = "finished"
"""Tag of a list on which nothing is open."""

LARGEST = 4_000
"""Tokens of an object above which it is no plan that is worth its place until its end."""

_BEGUN, _ENDED = "begun:", "ended:"


def step_tag(number: str, *, is_open: bool) -> str:
    """The tag of a call that tells how far one step is, by its number."""
    return f"{_BEGUN if is_open else _ENDED}{number}"


class PlanPart(Protocol):
    """What is read of an object: a ``MemoryObject`` has it, and an evaluation's."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> ObjectKind: ...
    @property
    def source_key(self) -> str | None: ...
    @property
    def tags(self) -> tuple[str, ...]: ...


def find_followed_plan(objects: Iterable[PlanPart]) -> frozenset[str]:
    """The ids of those that hold it, of a branch's objects in the order in which they were made; none once all of it is
    done, or where it was refused.
    """
    proposal: tuple[PlanPart, ...] = ()
    parts: tuple[PlanPart, ...] = ()
    left: set[str] = set()
    for each in objects:
        if not KINDS[each.kind].is_settled:
            continue
        begun, ended = _steps(each, _BEGUN), _steps(each, _ENDED)
        if each.source_key == PROPOSAL:
            proposal, parts, left = (each,), (), set()
        elif each.source_key == LIST:
            proposal, parts, left = ((), (), set()) if FINISHED in each.tags else (proposal, (each,), set())
        elif begun or ended:
            parts, left = (*parts, each) if left else (each,), (left | begun) - ended
            proposal, parts = (proposal, parts) if left else ((), ())
    return frozenset(each.id for each in (*proposal, *parts))


def _steps(each: PlanPart, how: str) -> set[str]:
    return {tag.removeprefix(how) for tag in each.tags if tag.startswith(how)}
