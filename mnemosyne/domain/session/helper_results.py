"""Results of helper tasks that become part of a session's state, folded from ``HelperWorked``.

They are data: none of their text is shown to the session's model. Results about objects state which promises of short
forms hold, and how likely an object is to be needed again.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject, is_episode
from mnemosyne.domain.objects.events import FaultKind, ObjectCreated, ObjectEvent, ObjectFaulted, ObjectRestored
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.session.input_events import HelperWorked

GOAL, SUMMARY, AUDIT, UTILITY = "goal", "session_summary", "audit", "utility"
"""The names of the tasks."""

SUMMARY_LISTS = ("done", "decided", "open")
"""The lists of lines in a summary."""

SOURCES = "sources"
"""The member of its record that names an object for each line that one supports."""

MOST_MISSED = 2
"""Number of consecutive exchanges with unused predictions after which no more objects are placed."""


@attrs.frozen(kw_only=True)
class Goal:
    """The user's goal in the exchange that began in ``turn`` of a branch, and the objects that it will probably
    need, best first. ``placed`` are those that were restored for it, with the turn of that; ``used`` says whether one
    was needed later. ``missed`` counts the consecutive earlier exchanges whose placed objects were not used.
    """

    turn: int
    text: str = ""
    needed: tuple[str, ...] = ()
    placed: Mapping[str, int] = attrs.field(factory=dict)
    used: bool = False
    missed: int = 0

    @property
    def is_paused(self) -> bool:
        """Whether predictions no longer pay in this branch."""
        return self.missed >= MOST_MISSED

    def after(self, event: ObjectEvent) -> "Goal":
        """The goal after an event of an object. An object is used if a later one links to it, as an edit or another
        read of the same file does, or the model asks for it.
        """
        match event:
            case ObjectRestored(cause=Cause.GOAL):
                return attrs.evolve(self, placed={**self.placed, event.object: event.turn})
            case ObjectCreated() if self.placed and not is_episode(event):
                used = any(self.placed.get(link.target, event.last_turn) < event.last_turn for link in event.links)
            case ObjectFaulted():
                placed = self.placed.get(event.object, event.turn + 1)
                used = placed < event.turn + (event.kind is not FaultKind.IMPLICIT)
            case _:
                return self
        return attrs.evolve(self, used=True) if used and not self.used else self


@attrs.frozen(kw_only=True)
class SessionSummary:
    """A session's ``title``, and ``lines`` about its work, decisions and open points; empty if none was accepted. The
    ``sources`` are the objects that they rest on, by line. The last work was asked for after a ``turn`` of a
    ``branch``.
    """

    branch: str
    turn: int
    title: str = ""
    lines: tuple[str, ...] = ()
    sources: Mapping[str, str] = attrs.field(factory=dict)


def goal_after(before: Goal | None, event: HelperWorked) -> Goal | None:
    """A branch's goal after work on the task; it ends the exchange of the goal ``before``."""
    if event.turn is None:
        return before
    known = before or Goal(turn=0)
    unused = known.missed + 1 if known.placed else known.missed
    found = _read(event.record)
    return Goal(
        turn=event.turn,
        text=found.get("goal") or known.text,
        needed=tuple(found.get("needed", ())),
        missed=0 if known.used else unused,
    )


def find_goal(events: Iterable[object], branch: str, turn: int) -> str | None:
    """The user's goal in a turn of a branch, from a helper's work among these events; None if unknown."""
    goal: Goal | None = None
    for event in events:
        if isinstance(event, HelperWorked) and event.task == GOAL and event.branch == branch:
            goal = goal_after(goal, event) if event.turn is not None and event.turn <= turn else goal
    return goal.text or None if goal is not None else None


def summary_after(before: SessionSummary | None, event: HelperWorked) -> SessionSummary | None:
    if event.branch is None or event.turn is None:
        return before
    known = before or SessionSummary(branch=event.branch, turn=event.turn)
    if known.branch == event.branch and event.turn < known.turn:
        return known  # this summary was delayed
    found = _read(event.record)
    if not found:
        return attrs.evolve(known, branch=event.branch, turn=event.turn)
    lines, named = list_lines(found), found.get(SOURCES, {})
    sources = {line: key for line in lines if (key := named.get(line.partition(": ")[2]))}
    return SessionSummary(branch=event.branch, turn=event.turn, title=found["title"], lines=lines, sources=sources)


def list_lines(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The lines of an accepted summary."""
    return tuple(f"{name.capitalize()}: {line}" for name in SUMMARY_LISTS for line in record[name])


def name_form(object_id: str, fidelity: Fidelity) -> str:
    """The subject of work on an object's rendition."""
    return f"{object_id}.{fidelity.label}"


def apply_work(memory: Memory, work: HelperWorked) -> Memory:
    """The memory after recorded work."""
    if not work.record or work.task not in (AUDIT, UTILITY):
        return memory
    record = json.loads(work.record)
    if work.task == UTILITY:
        scores = {each["object"]: each["utility"] for each in record.get("scores", ())}
        return _change(memory, {key: {"utility": score} for key, score in scores.items()})
    object_id, _, label = work.subject.partition(".")
    known = memory.objects.get(object_id)
    fidelity = next((each for each in known.renditions if each.label == label), None) if known is not None else None
    if known is None or fidelity is None:
        return memory
    return _change(memory, {object_id: {"renditions": _withdraw(known, fidelity, record)}})


def _withdraw(known: MemoryObject, fidelity: Fidelity, record: Mapping[str, Any]) -> Mapping[Fidelity, Any]:
    """The renditions of an object after one was reduced to the promises that hold."""
    held, rendition = {each["question"] for each in record.get("answers", ())}, known.renditions[fidelity]
    promises = tuple(each for number, each in enumerate(rendition.losses.can_answer, 1) if number in held)
    losses = attrs.evolve(rendition.losses, can_answer=promises)
    return {**known.renditions, fidelity: attrs.evolve(rendition, losses=losses)}


def _change(memory: Memory, changes: Mapping[str, Mapping[str, Any]]) -> Memory:
    known = {key: fields for key, fields in changes.items() if key in memory.objects}
    changed = {key: attrs.evolve(memory.objects[key], **fields) for key, fields in known.items()}
    return attrs.evolve(memory, objects={**memory.objects, **changed})


def _read(record: str) -> dict[str, Any]:
    """The members of a record; empty if there is none, or its session was forgotten."""
    found: dict[str, Any] = json.loads(record) if record else {}
    return found
