"""Whether what the user says begins something else: a new goal, more of the same, or a mere "yes, go on".

A logistic regression on two measures. A new task is explained, so it has words of its own; and it does not take up
what was just said, so few of them stand in the last answer or in the message before. It was fitted on 217 messages of
recorded coding sessions, labelled by hand (``tests/domain/labels/goals.json``), 26 of them new goals. Each session
judged by a fit on the others, 45 % of what was called new was new, and 54 % of what was new was found. Half of the
wrong ones were what came out of a run, pasted: the user goes on with that. Others begin with a word about what was just
said ("it", "this", "I also"). Without both it is 67 %.

The distance of vectors tells less: the cosine of two messages (all-MiniLM-L6-v2) is below 0.5 for 86 % of them, and
13 % of these begin something new, as 12 % of all do. What follows from a new goal must do no harm where there is none.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.objects.speakers import Speaker
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.segmentation.speaking import speakers
from mnemosyne.domain.text.consent import consents
from mnemosyne.domain.text.words import query_words, words
from mnemosyne.domain.wire.blocks import has_results


class GoalStep(Enum):
    """What a message of the user's does to the goal."""

    NEW = "new"
    """It begins another task."""
    CONTINUED = "continued"
    """It goes on with the one before: a step of it, a question, a correction."""
    ACKNOWLEDGED = "acknowledged"
    """It only says yes, or which of the things that were offered."""


LENGTH, TAKEN_UP, BASE = 1.28, -3.09, -4.31
"""Of the regression: for the logarithm of the number of words, for the share of them that was said before, alone."""

NEW_FROM = 0.3
"""From this probability on it is taken for a new goal: about as many are missed as are found."""

_MOST_WORDS = 40
_LOOKED_AT = 2_000
_LOOKED_AT_BEFORE = 20_000

_SWITCH = re.compile(
    r"\b(?:unrelated(?: to)?|(?:a|one) (?:different|separate) (?:topic|thing|question|task|issue)|new (?:task|topic)|"
    r"next (?:task|topic)|moving on to|quick (?:thing|question))\b",
    re.IGNORECASE,
)


_PASTED_OUTPUT = re.compile(
    r"^[ \t]{0,8}(?:--- FAIL: \S|={3,20} \S|Traceback \(most recent call|panic: \S|E {2,8}\S|FAILED \S|FAIL\b|"
    r"[^\s:]{1,200}:\d{1,7}:(?:\d{1,7}:)? )",
    re.MULTILINE,
)
"""What came out of a run: it is of the work that is under way, however many words of its own it has."""


_TAKES_UP = re.compile(
    r"\W{0,4}(?:(?:ok(?:ay)?|oh|ah|hm+|so|and|but|well|yes|yeah|no|now|right|question)\b[\s,.:-]{1,4}){0,3}"
    r"(?:it|this|that|these|those|also|one more (?:thing|question)|i mean|regarding|"
    r"i (?:also|think (?:it|this|that))|you (?:also )?(?:wrote|said|mentioned)|"
    r"(?:looking|going back) (?:at|to) (?:it|this|that)|can (?:we|you) (?:also|add that))\b",
    re.IGNORECASE,
)
"""How a message begins that speaks of what was just said or done: it goes on with it, however many words follow."""


def find_typed_in(role: str | None, blocks: Sequence[Mapping[str, Any]]) -> str:
    """What the user typed in a message of these blocks; nothing where that is another's, or brings results."""
    if role != "user" or has_results(blocks):
        return ""
    said = zip(blocks, speakers(role, blocks), strict=True)
    return "\n\n".join(str(block["text"]) for block, who in said if who is Speaker.USER).strip()


@attrs.frozen
class SessionGoal:
    """What a user was after from ``turn`` on, in their own words."""

    turn: int
    text: str


def find_goal(messages: Iterable[SeenMessage]) -> SessionGoal | None:
    """What the user of a conversation is after at its end; None where nobody typed anything."""
    goal: SessionGoal | None = None
    before: dict[str, str] = {}
    for each in messages:
        typed = find_typed_in(each.role, each.content)
        if typed and read_goal(typed, list(before.values())) is GoalStep.NEW:
            goal = SessionGoal(each.turn, typed)
        said = "\n".join(str(block.get("text")) for block in each.content if block.get("type") == "text")
        if said and not has_results(each.content):
            before[each.role] = said
    return goal


def read_goal(message: str, before: Sequence[str]) -> GoalStep:
    """What a message does to the goal. ``before`` is what was said just before it: the user's last message, and the
    last answer. The first message of all begins a goal.
    """
    if not before:
        return GoalStep.NEW
    if consents(message[:_LOOKED_AT]):
        return GoalStep.ACKNOWLEDGED
    if _SWITCH.search(message[:_LOOKED_AT]):
        return GoalStep.NEW
    if _PASTED_OUTPUT.search(message[:_LOOKED_AT]) or _TAKES_UP.match(message[:_LOOKED_AT]):
        return GoalStep.CONTINUED
    return GoalStep.NEW if newness(message, before) >= NEW_FROM else GoalStep.CONTINUED


def newness(message: str, before: Sequence[str]) -> float:
    """How likely it is that a message begins something new, 0 to 1."""
    said = query_words(message[:_LOOKED_AT])
    known = {word for text in before for word in words(text[-_LOOKED_AT_BEFORE:])}
    taken_up = sum(word in known for word in said) / len(said) if said else 1.0
    length = math.log(1 + min(len(said), _MOST_WORDS))
    return 1 / (1 + math.exp(-(LENGTH * length + TAKEN_UP * taken_up + BASE)))
