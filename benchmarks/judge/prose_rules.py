"""Questions about texts: the user's request, conclusions and decisions, the steps of a plan."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.judge.answers import Answer, Pair, exactly, in_words, own_words
from benchmarks.judge.sources import Source

_FENCE = re.compile(r"```.*?(?:```|\Z)|<[a-z-]+>.*?</[a-z-]+>", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"])|\n+")
_MARKS = re.compile(r"^[\s>#*+\-]*(?:\d+[.)]\s*)?")
_CONCLUDED = re.compile(
    r"\b(?:the (?:\w+ )?(?:issue|problem|bug|cause|reason|difference|key|fix|answer|result|output) (?:is|was|here is)"
    r"|root cause|because|this means|which means|turns out|so the|therefore|this confirms|i found|found that"
    r"|the tests? (?:pass|fail)|all tests)\b",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"\b(?:we should|i'll (?:use|add|make|go|keep|take)|i will (?:use|add|make|go|keep|modify|change)|instead of"
    r"|rather than|decided|go with|recommend|best (?:approach|option|way)|the approach|prefer|we (?:will|can))\b",
    re.IGNORECASE,
)
_PLACE = re.compile(r"([\w./-]*?([\w-]+\.(?:go|py|ts|js|sh|md|rst))):(\d+)")
_NAME = re.compile(r"`([A-Za-z_][\w.]{3,})(?:\(\))?`")
_CODE = re.compile(r"`([^`]{4,})`")
_STEP = re.compile(r"^\s*(?:#{2,4}\s+)?(?:\*\*)?(?:(?:Step|Phase|Item)\s+)?(\d+)[.:)]\s*(\S.{12,140}?)(?:\*\*)?:?$")
_UNDECIDED = re.compile(
    r"^(?:\W|THOUGHT: |Now |So |Then |Wait,? )*(?:let me|let's|based on|agentid|output_file)\b|:\W*$", re.I
)
_SHORTEST, _LONGEST = 40, 220
"""Characters of a sentence that says something and can be said again within ``NEAR`` characters."""

_SAME_STEP = 0.75
_FEWEST_WORDS, _MOST_STEPS = 3, 8


def pairs(source: Source) -> Iterator[Pair]:
    """What can be asked about prose: of people, of helpers that report, of pages."""
    yield from _open_steps(source)
    if source.speaker == "tool":
        if source.tool in ("Task", "Agent", "WebFetch", "WebSearch", "ExitPlanMode"):
            plan = source.given.get("plan")
            yield from _find_conclusions(source, plan if isinstance(plan, str) else source.text, "it")
        return
    if source.speaker == "user":
        yield from _asked(source)
    else:
        yield from _find_conclusions(source, source.text, "the assistant")


def _asked(source: Source) -> Iterator[Pair]:
    """The typed question, or its first sentence."""
    said = [each for each in _sentences(source.text) if not each.startswith(("[", "<", "Caveat"))]
    asked = [each for each in said if each.endswith("?")] or said[:1]
    for sentence in asked[:1]:
        answer = in_words(sentence)
        if answer:
            topic = ", ".join(_longest_words(sentence, 4))
            yield Pair("asked", f"What the user asked about {topic}", "what?", (answer,))


def _find_conclusions(source: Source, text: str, who: str) -> Iterator[Pair]:
    about = source.name if source.speaker == "tool" else f"“{source.name}”"
    said = [each for each in _sentences(text) if not _UNDECIDED.search(each)]
    for rule, cues, verb in (("decided", _DECIDED, "decide"), ("concluded", _CONCLUDED, "conclude")):
        last = next((each for each in reversed(said) if cues.search(each)), "")
        answer = in_words(last)
        if answer:
            topic = ", ".join(_longest_words(last, 2))
            yield Pair(rule, about, f"what did {who} {verb} in the end about {topic}?", (answer,))
    plain = _FENCE.sub("\n", text).split("\n")
    yield from _located(about, plain)
    yield from _steps(about, plain)


def _sentences(text: str) -> list[str]:
    found = (_MARKS.sub("", each).strip() for each in _SENTENCE.split(_FENCE.sub("\n", text)))
    return [each for each in found if _SHORTEST <= len(each) <= _LONGEST]


def _longest_words(sentence: str, count: int) -> list[str]:
    """The longest of its own words, in their order."""
    words = own_words(sentence)
    longest = sorted(words, key=len, reverse=True)[:count]
    return [word for word in words if word in longest]


def _located(about: str, lines: Sequence[str]) -> Iterator[Pair]:
    for line in lines:
        place, name = _PLACE.search(line), _NAME.search(line)
        if place and name and name[1] not in place[1]:
            answer = exactly(name[1], place[2], place[3])
            yield Pair("located", about, f"where is {name[1]}?", (answer,))


def _steps(about: str, lines: Sequence[str]) -> Iterator[Pair]:
    """The text of a numbered step or finding."""
    found = [match for line in lines if (match := _STEP.match(line))]
    times = Counter(match[1] for match in found)
    for match in found:
        answer = _words_of_step(match[2])
        if times[match[1]] == 1 and answer:
            yield Pair("step", about, f"what is number {match[1]}?", (answer,))


def _words_of_step(step: str) -> Answer | None:
    code = _CODE.findall(step)
    if code:
        return exactly(*(each.rpartition("/")[2] for each in code))
    words = own_words(step)
    return Answer((tuple(words),), _SAME_STEP) if len(words) >= _FEWEST_WORDS else None


def _open_steps(source: Source) -> Iterator[Pair]:
    total, still = len(source.steps), source.open_steps
    answers = tuple(Answer((tuple(own_words(each)),), _SAME_STEP) for each in still if own_words(each))
    if 0 < len(answers) <= _MOST_STEPS:
        about = f"Todo list, {total - len(still)} of {total} steps done"
        yield Pair("open-steps", about, "which are open?", answers)
