"""Which sentences settle something: patterns of English as people type it to an agent."""

import re
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
    said = said.replace("\u2019", "'")
    if len(said) < _SHORTEST:
        return None
    return next((kind for kind, rule in _RULES[speaker] if rule.search(said)), None)


def is_open(said: str, speaker: Speaker) -> bool:
    """Whether a sentence leaves open what it says, or says what somebody else said."""
    return _OPEN.search(said) is not None or _REPORTED.search(said) is not None


# What is left open, and what others said

_OPEN = re.compile(
    r"\b(?:maybe|perhaps|might|could (?:we|you|be|it)|should (?:we|I)|would (?:be|it|you|we|that)|what if|not sure|"
    r"I (?:guess|wonder|suspect)|wonder(?:ing)?|whether|probably|likely|possibly|seems?|hypothe\w+|"
    r"hopefully|I (?:expect|assume|will assume)|unless I|or (?:it's|is|isn't)|"
    r"(?:let me|I'll|I need to|we need to) (?:see|check|look|verify|find|try)|(?:I|we) need to know|suggests?|"
    r"mentions?|(?-i:may))\b"
    r"|^(?:can|could|would) (?:you|we)\b|^(?:tell|show|explain|give) me\b"
    r"|\b(?:where|what|how|which|why) (?:we|I) should\b"
    r"|^(?:if|when|unless|suppose|imagine|option|either|which)\b"
    r"(?!.{3,200}, (?:then )?(?:we|I|the|it|let's)\b(?! would))",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\baccording to\b|\b(?:readme|files?|docs?|documentation|page|ticket|issue|log|notes?|mail|email|comment|message|"
    r"it|he|she|they|someone|somebody|user|you|spec|article|code|\w+\.\w{1,4}) (?:there )?(?:says?|said|states?|stated|"
    r"reads|tells?|told|asks?|asked|claims?|claimed|noted?|notes|wrote|writes)\b",
    re.IGNORECASE,
)

_TELLS = re.compile(
    r"\baccording to (?:the |this |that |our )?\S+|\b(?:readme|files?|docs?|documentation|page|ticket|issue|notes?|"
    r"mail|email|"
    r"comment|spec|article|\w+\.(?:md|txt|html?|pdf)) (?:\w+ )?(?:says?|said|states?|stated|reads|tells?|asks?|"
    r"contains?|noted?)\b"
    r"|\b(?:said|says|asked|noted|wrote|writes|told)(?: \w+){0,2}:",
    re.IGNORECASE,
)


def tells_of_a_text(said: str) -> bool:
    """Whether a sentence tells what some text says: where that ends, nobody can tell."""
    return _TELLS.search(said) is not None


# What somebody pasted without marking it

_REVIEW = re.compile(
    r"\bconsider (?:\w+ing|using|adding|whether)\b|\b(?:low|medium|high|critical) severity\b"
    r"|\b(?:is|are) never (?:called|cleared|used|displayed|asserted)\b|\bpotential (?:logic )?issue\b",
    re.IGNORECASE,
)
_SPEAKS = re.compile(r"\b(?:I|I'd|I'm|we|let's|lets|my|our|can you|please|yes|no|ok)\b", re.IGNORECASE)
_TYPED = 150
"""Characters that people type without speaking of themselves, or to anybody."""


def is_pasted(said: str) -> bool:
    """Whether a message is what somebody else wrote, pasted as it is: nobody speaks in it, and it is long and begins as
    texts do, or remarks on code as reviews do.
    """
    if _SPEAKS.search(said):
        return False
    return (len(said) > _TYPED and said[:1].isupper()) or _REVIEW.search(said) is not None


# What settles something

_CHOOSE = (
    r"(?:use|go with|keep|store|put|call it|stick (?:with|to)|switch (?:to|over to)|drop|skip|avoid|adopt|default to|"
    r"rename|remove|not (?!worry|forget)\w+)"
)
_SUBJECT = r"(?:we|I|you)"
_LOOKING = (
    r"(?:see|say|check|look|verify|confirm|review|wait|pause|discuss|talk|think|find|figure|start|begin|continue|"
    r"go\b(?! with)|"
    r"move on|be\b|run|debug|investigate|understand|focus|try\b(?! \d)|give|do (?:that|this|it|so)\b(?=\W*$)|"
    r"(?:implement|fix|add|apply) (?:that|this|it)\b(?=\W*$)|first)"
)
_USER = (
    (
        ClaimKind.CORRECTION,
        r"^(?:ah,? |ok(?:ay)?,? |hm+,? )?no,? (?:wait|we|it|that|this|the|revert|remove|I|you|don't|only|keep|"
        r"use)\b(?! is fine)"
        r"|\b(?:that|this|it)(?:'s| is) (?:wrong|incorrect|not (?:fully |quite |really )?(?:true|correct|right|an? \S))"
        r"|\bwhat I (?:actually |really )?mean[t]? (?:is|are|was|were)\b|\bI (?:mostly|actually|rather|only) meant\b"
        r"|\b(?:does ?n[o']t|do ?n[o']t|won't|can ?n[o']t) work (?:since|because|as)\b"
        r"|\bthis should(?: not|n't) be \w+|\bshould still be\b"
        r"|\b(?:is|are) (?:too?|way too) (?:much|big|many|strict|complex)\b",
    ),
    (
        ClaimKind.CONSTRAINT,
        r"(?:^|[,;:] |\bplease )(?:never|always|do not|don'?t ever) "
        r"|\b(?:make|be) sure (?:that|to|it|we|you|the|once|our|there)\b|\bensure that\b"
        r"|(?:^|[,;:] |\b(?:please|and|but|also|so) )(?:please )?don'?t (?:use|add|change|touch|remove|delete|"
        r"commit|push|modify|"
        r"edit|create|write|break|include|put|make|call|assume|fix|give|do)\b"
        rf"|\b(?:{_SUBJECT}|it|this|that|they|there) (?:must|should (?:never|always)) "
        r"|\b(?:keep|bear) in mind that\b|\bsource of truth\b|\bthere should (?:be|not be|never be)\b"
        r"|\b(?:must not|mustn't|must never|must always|is not allowed|are not allowed|not expected that)\b"
        r"|\b(?:should|can) (?:not bother|only|never|always)\b|\b(?:but|and) always \w+\b|\bwe need to accept\b"
        r"|\bshould be (?:directly |always |only )?(?:validated|checked|tested|kept|the default|optional)\b"
        r"|^keep \w+ (?:compatib|working)|\bshould (?:show|return|contain|be shown)\b",
    ),
    (
        ClaimKind.PREFERENCE,
        r"\b(?:we|I) (?:don'?t|do not) want\b|\bI (?:would )?rather would\b"
        r"|\bI (?:(?:would|do) )?(?:strongly |really )?(?:prefer\w?|like it (?:when|better)|don'?t like|dislike|hate)\b"
        r"|\b(?:I'?d|I would|we'?d|we would) (?:rather|prefer\w?)\b|^(?:please )?prefer "
        r"|\bI(?:'d| would) (?:not )?care\b|\bI(?:'d| would) want\b|\bI (?:want|like) (?:full|to have|option|the|a|"
        r"better|my|our)\b"
        r"|\bI (?:still |just )?feel (?!like\b)|\bI think .{1,60} (?:is|are) (?:not |too |to |a bit )?(?:confusing|"
        r"redundant|much|big|fine|wrong|useless|the right)\b"
        r"|\bnot worth\b",
    ),
    (
        ClaimKind.DECISION,
        rf"\b(?:let'?s|lets) (?:just |rather |instead |also |then |completely |try |now |first )*(?!{_LOOKING})\w+ "
        rf".*\w{{2}}"
        rf"|\b(?:let'?s|lets) (?:just |rather |instead |also |then )?{_CHOOSE}\b"
        rf"|\b{_SUBJECT}(?:'ll| will|'re going to| are going to|'m going to| am going to| should)"
        rf" (?:just |rather |only |also )?{_CHOOSE}\b"
        r"|\b(?:we|I)(?:'ve| have)? (?:decided|agreed|settled)(?: (?:to|on|that|against|not)\b|: )"
        r"|\b(?:we|I)(?:'ve| have)? changed (?:our|my) minds?\b"
        r"|\b(?:let'?s|lets) do .{3,60} only\b|\bfor now (?:I|we) (?:would|will|can|should|'ll) (?:just )?keep\b"
        r"|^(?:ok(?:ay)?,? |yes,? |no,? )?(?:go|going) with |^(?:please )?use .+ instead\b"
        r"|\b(?:I|we) (?:think )?(?:we )?(?:should|need to|want to|have to) (?!see|check|look|know|understand|find|"
        r"figure|be sure|verify|ask|confirm|apply|revert|address)\w+"
        r"|\bI'd (?:like|go with|keep|say we)\b(?! to (?:see|know|understand|ask|look|check|do some|modify))|\bI "
        r"would (?:keep|go with|use)\b"
        r"|\bI don'?t think (?:we|it|that|this|\w+ \w+ (?:is|are))\b"
        r"|\b(?:for now|instead) (?:we|I) (?:just |will |can |would )?\w+\b|\b(?:then|so|and) (?:the|we) "
        r".{2,80}\b(?:should|just|decides?)\b"
        r"|\bI think we (?:should|can just)\b|^(?:or )?better: |^keep (?:the|all|using|it|this|that)\b"
        r"|\byou (?:just |only )*should (?:just |only )*(?:use|run|call|keep)\b|(?:^|[,;] )(?:ignore|no need to)\b"
        r"|\bI think (?:it's|that's|it is) (?:fine|ok|better|enough)\b"
        r"|^(?:in this repo|instead of .+?,?) we (?:want|should)\b|\bthe right (?:approach|way|thing)\b",
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
    speaker: tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in rules)
    for speaker, rules in ((Speaker.USER, _USER), (Speaker.ASSISTANT, _ASSISTANT))
}
