"""Whether what the user says begins something else: a new goal, more of the same, or a mere "yes, go on".

What a message is decides first. One that only consents goes on, and so does one that brings the output of a run or
quotes what was shown, that takes up what was just said ("it", "I also"), that asks why, how or whether of it, or that
breaks into work under way. What is left is a request or a statement of its own, and may be either. How likely it is to
begin something new is a logistic regression on six measures. A new task is explained, so it has many words; few of them
stand in the last answer or in the message before; it comes when something was finished, not while a question of the
agent's is open; and it says what is wished for, or states what is wrong without speaking to anybody, as a review does.

It was fitted on 609 messages of recorded sessions, labelled by hand, 70 of them new goals
(``tests/domain/labels/goals.json``, ``benchmarks/data/goals.json``). ``docs/goals.md`` says how well it does on others.

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


@attrs.frozen
class SaidBefore:
    """What was said just before a message: the user's last message, and the agent's last answer."""

    user: str = ""
    answer: str = ""


@attrs.frozen
class Measures:
    """What tells a new goal from more of the same, 0 to 1 each but for ``length``."""

    length: float
    """The logarithm of the number of words."""
    taken_up: float
    """The share of its words that were said just before."""
    impersonal: float
    """Its first sentence speaks of a thing, to nobody."""
    finished: float
    """The answer before says that something is done, or closes the talk, and asks nothing."""
    asks_aside: float
    """It is called a question, or a quick thing, by who asks it."""
    wishes: float
    """It says what its author would like, or noticed."""


WEIGHTS = Measures(length=1.48, taken_up=-2.72, impersonal=0.8, finished=1.01, asks_aside=0.89, wishes=0.97)
BASE = -5.73
"""Of the regression."""

NEW_FROM = 0.55
"""From this probability on it is taken for a new goal."""

_MOST_WORDS = 40
_LOOKED_AT = 2_000
_LEAST_HANDED = 40
_LOOKED_AT_BEFORE = 20_000
_END_OF_ANSWER = 600

_SWITCH = re.compile(
    r"\b(?:unrelated(?: to)?|(?:a|one) (?:different|separate) (?:topic|thing|question|task|issue)|new (?:task|topic)|"
    r"next (?:task|topic|problem|issue)|moving on to|let's move on\b(?! to)|before we (?:finish|wrap up)|"
    r"quick (?:thing|question))\b"
    r"|\A\W{0,4}(?:great|perfect|wonderful|excellent|awesome|nice)\b[\s,.!]{1,4}(?:thanks|thank you)[.!]"
    r"(?=.{0,60}?\b(?:also|can you|could you|i need|i want|i'd like)\b)",
    re.IGNORECASE,
)
"""Words that close what was before, or open something else: who praises, thanks and asks has what they wanted."""


_PASTED_OUTPUT = re.compile(
    r"^[ \t]{0,8}(?:--- FAIL: \S|={3,20} \S|Traceback \(most recent call|panic: \S|E {2,8}\S|FAILED \S|FAIL\b|"
    r"[^\s:]{1,200}:\d{1,7}:(?:\d{1,7}:)? |(?i:remote|fatal|error|warning|usage): )",
    re.MULTILINE,
)
"""What came out of a run: it is of the work that is under way, however many words of its own it has."""

_QUOTES = re.compile(r"\s{0,20}(?:[>+\u276f\u23fa\u2502•]|- |\[)")
"""How a message begins that first shows what was said, printed or changed."""

_LEAD = r"\W{0,4}(?:(?:ok(?:ay)?|oh|ah|hm+|so|and|but|well|then|yes|yeah|no|now|right|actually)\b[\s,.:-]{1,4}){0,3}"

_HANDS_OVER = re.compile(
    _LEAD + r"(?:(?:can|could) (?:you|we) |let's |please )?(?:also )?(?:check|fix|handle|look at|address|do|review)"
    r"\b[^:\n]{0,60}?(?::[\s.]|(?=\s{1,4}\d{1,2}[.)]\s)|:?\n)\s{0,20}(?:\d{1,2}[.)]\s{1,4})?",
    re.IGNORECASE,
)
"""How a message begins that only hands over what follows it, such as one item of a list: that is what is asked for."""

_TAKES_UP = re.compile(
    _LEAD + r"(?:question[\s,.:-]{1,4})?(?:it|this|that|these|those|also|one more (?:thing|question)|i mean|regarding|"
    r"i (?:also|think (?:it|this|that))|you (?:also )?(?:wrote|said|mentioned)|"
    r"(?:looking|going back) (?:at|to) (?:it|this|that)|can (?:we|you) (?:also|add that))\b",
    re.IGNORECASE,
)
"""How a message begins that speaks of what was just said or done: it goes on with it, however many words follow."""

_ASKS_OF_IT = re.compile(
    _LEAD + r"(?:why|how|what|where|which|who|is|are|was|were|does|do|did|should|would|will|"
    r"(?:is|are|does|do|should|would)n't|when (?:do|does|is|was|would)|could (?:there|it))\b",
    re.IGNORECASE,
)
"""How a question begins that asks nothing to be made: mostly it is about what was just done."""

_UNDER_WAY = re.compile(
    r"(?:(?:now|then|so|first|next|but|wait|okay|ok),? )?(?:let me (?!know)|let's |i'll |i will |i need to |i should |"
    r"i'm going to )",
    re.IGNORECASE,
)
"""How a sentence begins that says what its author does next."""

_FINISHED = re.compile(
    r"\b(?:done|fixed|completed?|pass(?:es|ing)?|works|clean|resolved|updated|added|removed|refactored|success\w*|"
    r"pushed|committed|reverted|renamed|booked|cancelled|(?:has|have) been|now|welcome|glad|happy to help|any ?time)\b",
    re.IGNORECASE,
)
_OFFERS_TO_KEEP = re.compile(
    r"\b(?:would you like|do you want|want|shall i|should i)\b(?: me)?(?: to)? (?:now )?(?:commit|push|merge)\b"
    r"[^?\n]{0,80}\?\Z",
    re.IGNORECASE,
)
"""How an answer ends that asks nothing of the work, but only whether it is to be kept."""

_ASKS_ASIDE = re.compile(r"(?:\W{0,3}\w{1,12}\W{1,3}){0,3}question\b", re.IGNORECASE)
_WISHES = re.compile(
    r"\b(?:i(?:'d| would) (?:like|love)|i want|can you help|help me|i(?:'m| am) (?:thinking|wondering)|"
    r"i (?:just )?(?:noticed|had|saw|realized))\b",
    re.IGNORECASE,
)
_SPEAKS_TO = re.compile(r"\b(?:i|we|you|me|my|us|let's|please|thanks)\b|\A\W*(?:yes|no)\b(?!\s)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


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
    before: SaidBefore | None = None
    for each in messages:
        typed = find_typed_in(each.role, each.content)
        if typed and read_goal(typed, before) is GoalStep.NEW:
            goal = SessionGoal(each.turn, typed)
        said = "\n".join(str(block.get("text")) for block in each.content if block.get("type") == "text")
        if said and not has_results(each.content):
            before = before or SaidBefore()
            before = attrs.evolve(before, **{"answer" if each.role == "assistant" else "user": said})
    return goal


def read_goal(message: str, before: SaidBefore | None) -> GoalStep:
    """What a message does to the goal, by what was said just before it. The first message of all, before which nothing
    was, begins a goal.
    """
    if before is None:
        return GoalStep.NEW
    if consents(message[:_LOOKED_AT]):
        return GoalStep.ACKNOWLEDGED
    said = _take_over(message)
    if _SWITCH.search(said):
        return GoalStep.NEW
    if _goes_on(said) or _is_under_way(before.answer):
        return GoalStep.CONTINUED
    return GoalStep.NEW if newness(message, before) >= NEW_FROM else GoalStep.CONTINUED


def _take_over(message: str) -> str:
    """What a message asks for, without words that only hand it over."""
    said = message[:_LOOKED_AT].strip()
    lead = _HANDS_OVER.match(said)
    return said[lead.end() :] if lead is not None and len(said) - lead.end() >= _LEAST_HANDED else said


def _goes_on(said: str) -> bool:
    """Whether a message is of a kind that goes on, whatever it is about."""
    beginnings = (_QUOTES, _TAKES_UP, _ASKS_OF_IT)
    return _PASTED_OUTPUT.search(said) is not None or any(each.match(said) for each in beginnings)


def _is_under_way(answer: str) -> bool:
    """Whether an answer ends with what its author does next: who speaks then breaks into that. A client does, too,
    that has words of its own for a reply of a form that it cannot use.
    """
    end = answer[-_END_OF_ANSWER:].rstrip()
    return not end.endswith("?") and any(_UNDER_WAY.match(each) for each in _SENTENCE.split(end)[-2:])


def _asks_nothing(end: str) -> bool:
    """Whether an answer of this end leaves no question of the work open."""
    return not end.endswith("?") or _OFFERS_TO_KEEP.search(end) is not None


def newness(message: str, before: SaidBefore) -> float:
    """How likely it is that a message begins something new, 0 to 1."""
    measured, weights = attrs.astuple(measure(message, before)), attrs.astuple(WEIGHTS)
    return 1 / (1 + math.exp(-(BASE + sum(a * b for a, b in zip(measured, weights, strict=True)))))


def measure(message: str, before: SaidBefore) -> Measures:
    """What the regression knows of a message."""
    said = _take_over(message)
    asked = query_words(said)
    known = {word for text in (before.user, before.answer) for word in words(text[-_LOOKED_AT_BEFORE:])}
    end = before.answer[-_END_OF_ANSWER:].rstrip()
    return Measures(
        length=math.log(1 + min(len(asked), _MOST_WORDS)),
        taken_up=sum(word in known for word in asked) / len(asked) if asked else 1.0,
        impersonal=float(not _SPEAKS_TO.search(_SENTENCE.split(said)[0])),
        finished=float(_asks_nothing(end) and _FINISHED.search(end) is not None),
        asks_aside=float(_ASKS_ASIDE.match(said) is not None),
        wishes=float(_WISHES.search(said[:200]) is not None),
    )
