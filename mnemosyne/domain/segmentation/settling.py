"""Which sentences settle something: patterns of English as people type it to an agent.

They are of lower case, for folded text, and each begins where a word does. A pattern that ignores case, or looks for
where a word begins once for each alternative, takes three times as long.
"""

import re
from collections.abc import Iterator
from enum import Enum

from mnemosyne.domain.objects.speakers import Speaker


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
    CORRECTION = "correction"
    """What is not as somebody took it to be."""


_SHORTEST = 12


def settles(said: str, speaker: Speaker) -> ClaimKind | None:
    """What a sentence settles, whose quotations are masked; None if it settles nothing."""
    return next((kind for kind, _ in find_settling(said, speaker)), None)


def find_settling(said: str, speaker: Speaker) -> Iterator[tuple[ClaimKind, int]]:
    """All that a sentence may settle, what goes first before the rest, and where the words for it begin."""
    said = said.replace("\u2019", "'").casefold()
    if len(said) >= _SHORTEST:
        for kind, rule in _RULES[speaker]:
            yield from ((kind, found.start()) for found in rule.finditer(said))


def is_open(said: str, speaker: Speaker) -> bool:
    """Whether a sentence leaves open what it says, or says what somebody else said."""
    if "may" in said and _MAY.search(said):
        return True
    folded = said.casefold()
    return _OPEN.search(folded) is not None or _REPORTED.search(folded) is not None


# What is left open, and what others said

_MAY = re.compile(r"\bmay\b")  # "May" is a month
_OPEN = re.compile(
    r"\b(?=\w)(?:(?:maybe|perhaps|might|could (?:we|you|be|it)|should (?:we|i)|would (?:be|it|you|we|that)|what if|"
    r"not sure|i (?:guess|wonder|suspect)|wonder(?:ing)?|whether|probably|likely|possibly|seems?|hypothe\w+|"
    r"hopefully|apparently|i (?:expect|assume|will assume)|unless i|or (?:it's|is|isn't)|"
    r"(?:let me|i'll|i need to|we need to) (?:see|check|look|verify|find|try)|(?:i|we) need to know|suggests?|"
    r"mentions?)\b"
    r"|^(?:can|could|would) (?:you|we)\b|^(?:tell|show|explain|give) me\b"
    r"|(?:where|what|how|which|why) (?:we|i) should\b"
    r"|^(?:if|when|unless|suppose|imagine|option|either|which)\b"
    r"(?!.{3,200}, (?:then )?(?:we|i|the|it|let's)\b(?! would)))",
)
_REPORTED = re.compile(
    r"\b(?=\w)(?:according to\b|(?:readme|files?|docs?|documentation|page|ticket|issue|log|notes?|mail|email|"
    r"comment|message|"
    r"it|he|she|they|someone|somebody|user|you|spec|article|code|\w+\.\w{1,4}) (?:there )?(?:says?|said|states?|stated|"
    r"reads|tells?|told|asks?|asked|claims?|claimed|noted?|notes|wrote|writes)\b)",
)

_TELLS = re.compile(
    r"\b(?=\w)(?:according to (?:the |this |that |our )?\S+|(?:readme|files?|docs?|documentation|page|ticket|issue|"
    r"notes?|mail|email|comment|spec|article|\w+\.(?:md|txt|html?|pdf)) (?:\w+ )?(?:says?|said|states?|stated|reads|"
    r"tells?|asks?|contains?|noted?)\b"
    r"|(?:said|says|asked|noted|wrote|writes|told)(?: \w+){0,2}:|(?:was|were|am|been) told\b"
    r"|(?:expects?|contains?|has|have|with|prints?|shows?|returns?|puts?|added|inserted) (?:the |this |a )?"
    r"(?:string|text|line|sentence|phrase|message|words)\b"
    r"|(?:caption|text|ocr|transcript|description|elicitation|prompt|injection|summary|wiki|slack|chat|thread|mail|docs?|"
    r"notes?\.\w+|readme|position|quot(?:e|ing)|original|translation|insists?|demands?|wants|tool|mcp__\w+|\w+\.(?:md|txt|"
    r"html?|pdf))(?: [^\s:]+| \(.{1,40}\)|'s){0,3}: )",
)


def tells_of_a_text(said: str) -> bool:
    """Whether a sentence tells what some text says: where that ends, nobody can tell."""
    return _TELLS.search(said.casefold()) is not None


# What somebody pasted without marking it

_REVIEW = re.compile(
    r"\b(?=\w)(?:consider (?:\w+ing|using|adding|whether)\b|(?:low|medium|high|critical) severity\b"
    r"|(?:is|are) never (?:called|cleared|used|displayed|asserted)\b|potential (?:logic )?issue\b)",
)
_SPEAKS = re.compile(r"\b(?=\w)(?:i|i'd|i'm|we|let's|lets|my|our|can you|please|yes|no|ok)\b")
_TYPED = 150
"""Characters that people type without speaking of themselves, or to anybody."""


def is_pasted(said: str) -> bool:
    """Whether a message is what somebody else wrote, pasted as it is: nobody speaks in it, and it is long and begins as
    texts do, or remarks on code as reviews do.
    """
    folded = said.casefold()
    if _SPEAKS.search(folded):
        return False
    return (len(said) > _TYPED and said[:1].isupper()) or _REVIEW.search(folded) is not None


# What settles something

_CHOOSE = (
    r"(?:use|go with|keep|store|put|call it|stick (?:with|to)|switch (?:to|over to)|drop|skip|avoid|adopt|default to|"
    r"rename|remove|not (?!worry|forget)\w+)"
)
_SUBJECT = r"(?:we|i|you)"
_LOOKING = (
    r"(?:see|say|check|look|verify|confirm|review|wait|pause|discuss|talk|think|find|figure|start|begin|continue|"
    r"go\b(?! with)|"
    r"move on|be\b|run|debug|investigate|understand|focus|try\b(?! \d)|give|do (?:that|this|it|so)\b(?=\W*$)|"
    r"(?:implement|fix|add|apply) (?:that|this|it)\b(?=\W*$)|first)"
)
_USER = (
    (
        ClaimKind.CORRECTION,
        r"^(?:ah,? |ok(?:ay)?,? |hm+,? )?no,? (?:wait|we|it|that|this|the|revert|remove|i|you|don't|only|keep|"
        r"use)\b(?! is fine)"
        r"|(?:that|this|it)(?:'s| is) (?:wrong|incorrect|not (?:fully |quite |really )?(?:true|correct|right|an? \S))"
        r"|what i (?:actually |really )?mean[t]? (?:is|are|was|were)\b|i (?:mostly|actually|rather|only) meant\b"
        r"|(?:does ?n[o']t|do ?n[o']t|won't|can ?n[o']t) work (?:since|because|as)\b"
        r"|this should(?: not|n't) be \w+|should still be\b"
        r"|(?:is|are) (?:too?|way too) (?:much|big|many|strict|complex)\b",
    ),
    (
        ClaimKind.CONSTRAINT,
        r"(?:^|(?<=[,;:] )|please )(?:never|always|do not|don'?t ever) "
        r"|^please don'?t (?!worry|mind|hesitate)\w+ "
        r"|(?:make|be) sure (?:that|to|it|we|you|the|once|our|there)\b|ensure that\b"
        r"|(?:^|(?<=[,;:] )|(?:please|and|but|also|so) )(?:please )?don'?t (?:use|add|change|touch|remove|delete|"
        r"commit|push|modify|"
        r"edit|create|write|break|include|put|make|call|assume|fix|give|do)\b"
        rf"|(?:{_SUBJECT}|it|this|that|they|there) (?:must|should (?:never|always)) "
        r"|(?:(?:keep|bear) in mind|(?:^|please |and )(?:remember|memorize|don'?t forget|note)) that\b"
        r"|^from now on,? |source of truth\b|there should (?:be|not be|never be)\b"
        r"|(?:must not|mustn't|must never|must always|is not allowed|are not allowed|not expected that)\b"
        r"|(?:should|can) (?:not bother|only|never|always)\b|(?:but|and) always \w+\b|we need to accept\b"
        r"|should be (?:directly |always |only )?(?:validated|checked|tested|kept|the default|optional)\b"
        r"|we (?:don'?t|do not) need\b(?! to (?:know|worry))"
        r"|^keep \w+ (?:compatib|working)|should (?:show|return|contain|be shown)\b",
    ),
    (
        ClaimKind.PREFERENCE,
        r"(?:we|i) (?:don'?t|do not) want\b|i (?:would )?rather would\b"
        r"|i (?:(?:would|do) )?(?:strongly |really )?(?:prefer\w?|like it (?:when|better)|don'?t like|dislike|hate)\b"
        r"|(?:i'?d|i would|we'?d|we would) (?:rather|prefer\w?)\b|^(?:please )?prefer "
        r"|i(?:'d| would) (?:not )?care\b|i(?:'d| would) want\b|i (?:want|like) (?:full|short|no|only|fewer|more|"
        r"to have|option|the|a|better|my|our)\b"
        r"|i (?:still |just )?feel (?!like\b)|i think .{1,60} (?:is|are) (?:not |too |to |a bit )?(?:confusing|"
        r"redundant|much|big|fine|wrong|useless|the right)\b"
        r"|not worth\b",
    ),
    (
        ClaimKind.DECISION,
        rf"(?:let'?s|lets) (?:just |rather |instead |also |then |completely |try |now |first )*(?!{_LOOKING})\w+ "
        rf".*\w{{2}}"
        rf"|(?:let'?s|lets) (?:just |rather |instead |also |then )?{_CHOOSE}\b"
        rf"|{_SUBJECT}(?:'ll| will|'re going to| are going to|'m going to| am going to| should)"
        rf" (?:just |rather |only |also )?{_CHOOSE}\b"
        r"|(?:we|i)(?:'ve| have)? (?:decided|agreed|settled)(?: (?:to|on|that|against|not)\b|: )"
        r"|(?:we|i)(?:'ve| have)? changed (?:our|my) minds?\b"
        r"|(?:let'?s|lets) do .{3,60} only\b|for now (?:i|we) (?:would|will|can|should|'ll) (?:just )?keep\b"
        r"|^(?:ok(?:ay)?,? |yes,? |no,? )?(?:go|going) with |^(?:please )?use .+ instead\b"
        r"|(?:i|we) (?:think )?(?:we )?(?:should|need to|want to|have to) (?!see|check|look|know|understand|find|"
        r"figure|be sure|verify|ask|confirm|apply|revert|address)\w+"
        r"|i'd (?:like|go with|keep|say we)\b(?! to (?:see|know|understand|ask|look|check|do some|modify))|i "
        r"would (?:keep|go with|use)\b"
        r"|i don'?t think (?:we|it|that|this|\w+ \w+ (?:is|are))\b"
        r"|(?:for now|instead) (?:we|i) (?:just |will |can |would )?\w+\b|(?:then|so|and) (?:the|we) "
        r".{2,80}\b(?:should|just|decides?)\b"
        r"|i think we (?:should|can just)\b|^(?:or )?better: |^keep (?:the|all|using|it|this|that)\b"
        r"|you (?:just |only )*should (?:just |only )*(?:use|run|call|keep)\b|(?:^|(?<=[,;] ))(?:ignore|no need to)\b"
        r"|i think (?:it's|that's|it is) (?:fine|ok|better|enough)\b"
        r"|^(?:yes|yeah|ok(?:ay)?|no),? (?:please |then )?(?:preserve|update|keep|leave|remove|revert|rename|replace|"
        r"move|split|merge|drop|skip|add)\b"
        r"|what (?:we|i) (?:\w+ )?(?:should do|need|want) is\b"
        r"|^(?:in this repo|instead of .+?,?) we (?:want|should)\b|the right (?:approach|way|thing)\b",
    ),
)
_ASSISTANT = (
    (
        ClaimKind.CONCLUSION,
        r"(?:root cause|culprit|(?:actual|real) (?:problem|issue|bug|cause)) (?:is|was|of [^,.]{1,60} (?:is|was))\b"
        r"|^root cause: |(?:the|this) (?:problem|issue|bug|failure|error|reason|cause|crash|mismatch)(?: here| now)?"
        r" (?:is|was) (?:that|because|caused by|due to|in|from)\b|(?:is|was|are|were) (?:actually )?caused by\b"
        r"|turns out\b"
        r"|(?:this|that|which|test|output) (?:confirms|proves|means|shows) (?:that )?(?:the|our|we|there|no)\b"
        r"|(?:fails?|failed|failing|breaks?|broke|happens?|happened|occurs?|occurred|crashe[sd]|works?|worked|"
        r"exists?|wrong|stale|missing|empty|passes|passed|skipped|ignored) (?:[\w'`()./-]+ ){0,4}because ",
    ),
    (
        ClaimKind.DECISION,
        r"(?:we|i)(?:'ve| have)? (?:decided|agreed|settled|chosen|chose)(?: (?:to|on|that|against|not)\b|: )"
        r"|(?:we|i)(?:'ve| have)? changed (?:our|my) minds?\b"
        r"|(?:i'll|i will|we'll|we will|let's) (?:just |simply |instead |also |therefore )?"
        r"(?:go with|stick (?:with|to)|default to|adopt|keep|use .+ (?:instead|rather than)|leave .+ as)\b"
        r"|^(?:decision|decided|chosen approach): |going with\b",
    ),
)
_RULES = {
    speaker: tuple((kind, re.compile(rf"\b(?=\w)(?:{pattern})")) for kind, pattern in rules)
    for speaker, rules in ((Speaker.USER, _USER), (Speaker.ASSISTANT, _ASSISTANT))
}
