"""Claims: the sentences of user and assistant that settle something, found by rules.

A claim is cheap to keep when what it was said in has left the window. The rules prefer to miss one: a wrong claim is
shown again and again. They read prose alone: no code, no quotation, no table, nothing between tags (the client's
reminders and a command's output stand between such). Linear in the text's length.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from enum import Enum

import attrs

from mnemosyne.domain.text.words import query_words

LONGEST = 200
_SHORTEST = 20
_SHORTEST_CONCLUSION = 40  # "This confirms the issue." tells nothing away from its place
_LONGEST_READ = 600  # a longer sentence is no sentence


class SaidBy(Enum):
    """Who said it. What a tool answers is data and claims nothing."""

    USER = "user"
    ASSISTANT = "assistant"


class ClaimKind(Enum):
    """What a claim settles."""

    DECISION = "decision"
    """How it will be done."""
    CONCLUSION = "conclusion"
    """What was found to be so."""
    PREFERENCE = "preference"
    """What somebody would rather have."""
    CONSTRAINT = "constraint"
    """What must or must not be."""


@attrs.frozen
class Claim:
    """``sentence`` is what stands at ``text[start:end]``, without ``**`` and its white space made single.

    It has at most ``LONGEST`` characters: a longer one is cut after a word.
    """

    kind: ClaimKind
    sentence: str
    start: int
    end: int


def claims(text: str, speaker: SaidBy) -> tuple[Claim, ...]:
    """The claims in what somebody said, in their order, each sentence once."""
    found: dict[str, Claim] = {}
    for start, end in _sentences(text):
        kind = _kind(_plain(text[start:end]), speaker)
        if kind is not None:
            end = start + len(_clipped(text[start:end]))
            claim = Claim(kind, _plain(text[start:end]), start, end)
            found.setdefault(claim.sentence.casefold(), claim)
    return tuple(found.values())


# What is settled anew

_REVISES = re.compile(
    r"\bchanged (?:our|my) minds?\b|\binstead\b|\bfrom now on\b|\bno longer\b|\bany ?more\b|\brather than\b"
    r"|\bafter all\b|\brevis(?:e|es|ed|ing)\b|\breplac(?:e|es|ing)\b",
    re.IGNORECASE,
)
_REASON = re.compile(r"[,;]? (?:because|since|so that) ", re.IGNORECASE)
_SAME_WORDS, _SAME_SHARE = 3, 0.6


def revised(sentence: str, earlier: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of the earlier decisions that a decision takes the place of; none if it does not say so, or of which.

    What is decided on has to be named by the same words, at least three of them and most of the shorter sentence's, and
    more than any other decision shares. Of several that share as much, all are revised if they are one decision
    that was told again; else none is. What tells an earlier one again revises nothing.
    """
    if not _REVISES.search(_QUOTED.sub("…", sentence)):
        return ()
    if any(_clause(other) in sentence for other in earlier.values()):
        return ()
    new = _decided(sentence)
    old = {key: _decided(other) for key, other in earlier.items()}
    shared = {key: len(new & each) for key, each in old.items() if _same_matter(new, each)}
    nearest = [key for key, common in shared.items() if common == max(shared.values())]
    told = [old[key] for key in nearest]
    return tuple(nearest) if all(min(told, key=len) <= each for each in told) else ()


def _same_matter(one: frozenset[str], other: frozenset[str]) -> bool:
    common = len(one & other)
    return common >= _SAME_WORDS and common > _SAME_SHARE * min(len(one), len(other))


def _decided(sentence: str) -> frozenset[str]:
    """The words of what is decided, without those that only say that it is."""
    return frozenset(query_words(_clause(sentence))) - _DECIDING


def _clause(sentence: str) -> str:
    """What is decided, without why."""
    return _REASON.split(sentence, maxsplit=1)[0]


_DECIDING = frozenset(
    query_words("let's go use keep adopt decide decided decision settle agree choose change mind instead")
)


# What settles something

_CHOOSE = (
    r"(?:use|go with|keep|store|put|call it|stick (?:with|to)|switch (?:to|over to)|drop|skip|avoid|adopt|default to|"
    r"rename|remove|not (?!worry|forget)\w+)"
)
_SUBJECT = r"(?:we|I|you)"
_USER = (
    (
        ClaimKind.CONSTRAINT,
        r"(?:^|[,;:] |\bplease )(?:never|always|do not|don'?t ever) "
        r"|\b(?:make|be) sure (?:that|to|it|we|you|the)\b|\bensure that\b"
        r"|(?:^|[,;:] |\b(?:please|and|but|also|so) )don'?t (?:use|add|change|touch|remove|delete|commit|push|modify|"
        r"edit|create|write|break|include|put|make|call|assume)\b"
        rf"|\b(?:{_SUBJECT}|it|this|that|they|there) (?:must|should (?:never|always)) "
        r"|\b(?:must not|mustn't|must never|must always|is not allowed|are not allowed)\b",
    ),
    (
        ClaimKind.PREFERENCE,
        r"\b(?:we|I) (?:don'?t|do not) want\b|\bI rather would\b"
        r"|\bI (?:(?:would|do) )?(?:strongly |really )?(?:prefer|like it (?:when|better)|don'?t like|dislike|hate)\b"
        r"|\b(?:I'?d|I would|we'?d|we would) (?:rather|prefer)\b|^(?:please )?prefer ",
    ),
    (
        ClaimKind.DECISION,
        rf"\b(?:let'?s|lets) (?:just |rather |instead |also |then )?{_CHOOSE}\b"
        rf"|\b{_SUBJECT}(?:'ll| will|'re going to| are going to|'m going to| am going to| should)"
        rf" (?:just |rather |only |also )?{_CHOOSE}\b"
        r"|\b(?:we|I)(?:'ve| have)? (?:decided|agreed|settled)(?: (?:to|on|that|against|not)\b|: )"
        r"|\b(?:we|I)(?:'ve| have)? changed (?:our|my) minds?\b"
        r"|\b(?:let'?s|lets) do .{3,60} only\b|\bfor now (?:I|we) (?:would|will|can|should|'ll) (?:just )?keep\b"
        r"|^(?:ok(?:ay)?,? |yes,? |no,? )?(?:go|going) with |^(?:please )?use .+ instead\b",
    ),
)
_ASSISTANT = (
    (
        ClaimKind.CONCLUSION,
        r"\b(?:root cause|culprit|(?:actual|real) (?:problem|issue|bug|cause)) (?:is|was|of [^,.]{1,60} (?:is|was))\b"
        r"|^root cause: |\b(?:the|this) (?:problem|issue|bug|failure|error|reason|cause|crash|mismatch)(?: here| now)?"
        r" (?:is|was) (?:that|because|caused by|due to|in|from)\b|\b(?:is|was|are|were) (?:actually )?caused by\b"
        r"|\bturns out\b"
        r"|\b(?:this|that|which|test|output) (?:confirms|proves|means|shows) (?:that )?(?:the|our|we|there|no)\b"
        r"|\b(?:fails?|failed|failing|breaks?|broke|happens?|happened|occurs?|occurred|crashe[sd]|works?|worked|"
        r"exists?|wrong|stale|missing|empty|passes|passed|skipped|ignored) (?:[\w'`()./-]+ ){0,4}because ",
    ),
    (
        ClaimKind.DECISION,
        r"\b(?:we|I)(?:'ve| have)? (?:decided|agreed|settled|chosen|chose)(?: (?:to|on|that|against|not)\b|: )"
        r"|\b(?:we|I)(?:'ve| have)? changed (?:our|my) minds?\b"
        r"|\b(?:I'll|I will|we'll|we will|let's) (?:just |simply |instead |also |therefore )?"
        r"(?:go with|stick (?:with|to)|default to|adopt|keep|use .+ (?:instead|rather than)|leave .+ as)\b"
        r"|^(?:decision|decided|chosen approach): |\bgoing with\b",
    ),
)
_RULES = {
    SaidBy.USER: tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _USER),
    SaidBy.ASSISTANT: tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _ASSISTANT),
}
_OPEN = re.compile(
    r"\b(?:maybe|perhaps|might|could (?:we|you|be|it)|should (?:we|I)|would (?:be|it|you|we|that)|what if|not sure|"
    r"I (?:guess|wonder|suspect)|whether|probably|likely|possibly|seems?|hypothe\w+|"
    r"hopefully|I (?:expect|assume|will assume)|unless I|or (?:it's|is|isn't)|"
    r"(?:let me|I'll|I need to|we need to) (?:see|check|look|verify|find|know|try)|suggests?|mentions?|(?-i:may))\b"
    r"|^(?:if|when|unless|suppose|imagine|option|either|which)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]{0,300}\"|“[^”]{0,300}”|`[^`]{0,300}`|(?<!\w)'[^']{0,300}'(?!\w)")


def _kind(sentence: str, speaker: SaidBy) -> ClaimKind | None:
    if not _SHORTEST <= len(sentence) <= _LONGEST_READ or sentence.endswith(("?", ":")):
        return None
    said = _QUOTED.sub("…", sentence)
    if _OPEN.search(said):
        return None
    kind = next((kind for kind, rule in _RULES[speaker] if rule.search(said)), None)
    return None if kind is ClaimKind.CONCLUSION and len(sentence) < _SHORTEST_CONCLUSION else kind


def _plain(sentence: str) -> str:
    return " ".join(sentence.replace("**", "").split())


def _clipped(sentence: str) -> str:
    if len(sentence) <= LONGEST:
        return sentence
    return sentence[: LONGEST + 1].rsplit(None, 1)[0][:LONGEST]


# Where the prose is

_FENCE = re.compile(r"[ >]*(?:```|~~~)")
_NO_PROSE = re.compile(r"\s*(?:[|>#]|[-=*_]{3,}\s*$)|    |\t")
_ITEM = re.compile(r"\s*(?:[-*+•⏺]|\d{1,3}[.)])\s+")
_LEAD = re.compile(r"[\s*_]+")
_STOP = re.compile(r"(?<![.!?])[.!?]++[*_)\"']*+(?=\s|$)")
_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]{0,60})(?:\s[^<>]{0,200})?>")


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    for start, end in _paragraphs(text):
        lead = _LEAD.match(text, start, end)
        left = lead.end() if lead else start
        for stop in _STOP.finditer(text, start, end):
            if _ends(text, stop.end(), end):
                yield left, stop.end()
                left = _skip_space(text, stop.end(), end)
        if left < end:
            yield left, left + len(text[left:end].rstrip())


def _ends(text: str, at: int, end: int) -> bool:
    """Whether a sentence ends at a full stop: what follows begins another (``e.g. this`` does not)."""
    following = _skip_space(text, at, end)
    return following == end or not text[following].islower()


def _skip_space(text: str, at: int, end: int) -> int:
    lead = _LEAD.match(text, at, end)
    return lead.end() if lead else at


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Lines of prose that belong together; an item of a list begins a new one."""
    start = end = None
    for left, right in _prose_lines(text):
        item = _ITEM.match(text, left, right)
        blank = not text[left:right].strip()
        if start is not None and end is not None and (blank or item or left != end + 1):
            yield start, end
            start = None
        if not blank:
            start = start if start is not None else (item.end() if item else left)
            end = right
    if start is not None and end is not None:
        yield start, end


def _prose_lines(text: str) -> Iterator[tuple[int, int]]:
    fenced = False
    for left, right in _outside_tags(text):
        if _FENCE.match(text, left, right):
            fenced = not fenced
        elif not fenced and not _NO_PROSE.match(text, left, right):
            yield left, right


def _outside_tags(text: str) -> Iterator[tuple[int, int]]:
    """The lines without any part of an element that is closed."""
    elements = iter([*_elements(text), (len(text) + 1, len(text) + 1)])
    hidden, shown = next(elements)
    left = 0
    for line in text.split("\n"):
        right = left + len(line)
        while shown <= left:
            hidden, shown = next(elements)
        if right <= hidden:
            yield left, right
        left = right + 1


def _elements(text: str) -> Iterator[tuple[int, int]]:
    """From each tag to the next one that closes it; tags between them do not count."""
    tags = list(_TAG.finditer(text))
    closing: dict[str, list[int]] = {}
    for tag in tags:
        if tag[1]:
            closing.setdefault(tag[2], []).append(tag.end())
    done = 0
    for tag in tags:
        ends = closing.get(tag[2], [])
        after = bisect_left(ends, tag.end())
        if tag.start() >= done and not tag[1] and after < len(ends):
            done = ends[after]
            yield tag.start(), done
