"""The results of a helper model's recorded work about objects: which promises of short forms hold, and utilities.

These results need no event of their own: they are folded from ``HelperWorked``.
"""

import json
from collections.abc import Mapping
from typing import Any

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.session.input_events import HelperWorked

AUDIT, UTILITY = "audit", "utility"
"""Names of the tasks with such results."""


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
    """The renditions of an object, of which one keeps only the promises that hold."""
    held, rendition = {each["question"] for each in record.get("answers", ())}, known.renditions[fidelity]
    promises = tuple(each for number, each in enumerate(rendition.losses.can_answer, 1) if number in held)
    losses = attrs.evolve(rendition.losses, can_answer=promises)
    return {**known.renditions, fidelity: attrs.evolve(rendition, losses=losses)}


def _change(memory: Memory, changes: Mapping[str, Mapping[str, Any]]) -> Memory:
    known = {key: fields for key, fields in changes.items() if key in memory.objects}
    changed = {key: attrs.evolve(memory.objects[key], **fields) for key, fields in known.items()}
    return attrs.evolve(memory, objects={**memory.objects, **changed})
