"""The task that estimates how likely objects are to be needed again, many at once, from their stubs.

Without a helper model, there is only the score of the rules (``domain/objects/admission.py``).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mnemosyne.domain.helper.background import BackgroundTask, HelperOrder
from mnemosyne.domain.helper.model import STRING, HelperPrompt, list_of, object_of
from mnemosyne.domain.helper.task import Accepted, Rejected, write_prompt
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.session.helper_results import UTILITY
from mnemosyne.domain.text.stubs import render_count

BATCH = 20
"""Number of objects in one order."""

Stubs = Sequence[tuple[str, str]]
"""Ids of objects with their stubs."""

PROPERTIES: Mapping[str, Any] = {"scores": list_of(object_of({"object": STRING, "utility": {"type": "number"}}))}

_INSTRUCTIONS = """\
Each line below describes, with its id, something that a coding agent has read or written. How likely is the agent to \
need the content again later in its work? Reply with one JSON object and nothing else: \
{"scores": [{"object": string, "utility": number}]}, with each id once and a number from 0 (never) to 1 (certainly). \
Decisions, instructions, unsolved errors and files that are being changed are needed more often; listings, \
output without new information and files that were only looked at, less often."""


def order_utility(objects: Sequence[MemoryObject]) -> HelperOrder:
    """The order to score these objects."""
    return HelperOrder(task=UTILITY, subject=objects[0].id, about=[(each.id, each.stub) for each in objects])


def _prompt(stubs: Stubs) -> HelperPrompt:
    return write_prompt(
        _INSTRUCTIONS,
        {"objects": len(stubs)},
        [("descriptions", "\n".join(f"{key}: {stub}" for key, stub in stubs))],
        most_tokens=40 * len(stubs) + 100,
    )


def _verify(stubs: Stubs, answer: Mapping[str, Any]) -> Accepted[Mapping[str, float]] | Rejected:
    given = answer.get("scores")
    if not isinstance(given, list):
        return Rejected(("the answer does not match the schema",))
    known = {key for key, _ in stubs}
    scores = {each["object"]: float(each["utility"]) for each in given if _is_score(each) and each["object"] in known}
    if not scores:
        return Rejected(("the answer scores none of the objects",))
    dropped = len(given) - len(scores)
    return Accepted(
        scores,
        {"scores": [{"object": key, "utility": score} for key, score in scores.items()]},
        (f"{render_count(dropped, 'score')} of no object, or outside 0 to 1",) if dropped else (),
    )


def _is_score(each: object) -> bool:
    match each:
        case {"object": str(), "utility": bool()}:
            return False
        case {"object": str(), "utility": int() | float() as utility}:
            return 0 <= utility <= 1
        case _:
            return False


SCORE_OBJECTS = BackgroundTask(
    name=UTILITY, version=1, properties=PROPERTIES, prompt=_prompt, verify=_verify, gather=lambda order, _: order.about
)
