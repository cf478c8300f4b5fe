"""Whether a sentence holds beyond the moment in which somebody typed it.

Most of what is settled in a session is about the work just then: "let's fix 3 too". Told in the next session it is
wrong, however right it was. The rules prefer to miss something: a wrong line stands in every session that comes.
"""

import re

from mnemosyne.domain.segmentation.statements import LONGEST

_PROJECT = r"(?:repo|repository|project|codebase|code base)"

_POINTS = re.compile(
    r"\b(?:here|above|below|both|it|them|these|those|next|too|something|(?:any|every)thing|your|"
    r"(?:this|that) one|the (?:first|second|third|last|latter|former|next|current|existing)|current branch|"
    rf"this(?! {_PROJECT}\b)|(?:if|do|fix|use|apply|keep|change|remove|rename|like|with|to|for|of|and|but) that(?:'s)?|"
    r"(?:we|you|i) (?:just )?(?:made|did|added|changed)|rename to|"
    r"(?:option|case|step|point|issue|item|session|approach|number|do|fix|for|think|and|with|is) #?\d{1,2}|"
    r"\d\.? ?\+ ?\d)\b|\N{HORIZONTAL ELLIPSIS}|^\W*\(",
    re.IGNORECASE,
)
"""It points at what is not in it: away from its place it says nothing."""

_FOR_NOW = re.compile(
    r"\?|\b(?:for now|this time|just now|right now|today|temporar\w+|let me know|(?:can|could|would) you|"
    r"(?:i'd like|i would like|i want) to)\b",
    re.IGNORECASE,
)
_TASK = re.compile(
    r"\b(?:let'?s|don't|do not) (?:(?:just|also|first|now|then) )*(?:do|fix|try|start|continue|follow|abandon|apply|"
    r"commit|push|merge|rebase|review|finish|implement|integrate|run|check|change|touch|edit|modify|delete|call|give|"
    r"go (?!with))\b",
    re.IGNORECASE,
)
"""It asks for something to be done, and is done with once it was."""

_STANDS = re.compile(
    r"^(?:please,? )?(?:prefer|every|each)\b|(?:^|[,;:] )(?:please,? )?(?:never|always)\b"
    r"|\b(?:(?:i|we|you)(?: should| must| will)? (?:never|always)|from now on|in general|generally|by default|"
    r"(?:every|each) time|whenever|without asking|"
    rf"must(?:n't)?|in (?:this|our) {_PROJECT}|answers|replies|responses|explanations|emojis?|tone|"
    r"(?:i|we)(?:'d| would)? (?:\w+ly )?(?:prefer|hate|dislike)|(?:i|we) (?:don't |do not )?like (?:it when|\w+ing))\b",
    re.IGNORECASE,
)
"""It says itself that it holds whatever is done."""

_CORRECTS = re.compile(
    r"^\W*(?:(?:ah|ok(?:ay)?|hm+),? )?(?:no|nope|wrong|actually)\b[,.:;]?(?: wait,?)? ", re.IGNORECASE
)
_NOT_THE_OTHER = re.compile(
    r"^(?:we|i) (?:\w+ ){0,2}(?:use|run|call|write|keep|store|test|deploy|build|log)\b.{2,}"
    r"(?:, not |\binstead of |\brather than )\w",
    re.IGNORECASE,
)


def is_passing(said: str) -> bool:
    """Whether a sentence is about its moment alone, or cut off before its end."""
    if _POINTS.search(said) or _FOR_NOW.search(said) or _is_cut(said):
        return True
    return _TASK.search(said) is not None and not stands(said)


def _is_cut(said: str) -> bool:
    return len(said) > LONGEST - _LONGEST_WORD and said[-1] not in ".!"


_LONGEST_WORD = 20
"""A claim is cut after a word."""


def stands(said: str) -> bool:
    """Whether a sentence says itself that it holds from then on, whatever is done."""
    return _STANDS.search(said) is not None


def find_right(correction: str) -> str:
    """What a correction says to be so, without the words that only say that something was wrong."""
    return _CORRECTS.sub("", correction, count=1)


def says_what_instead(right: str) -> bool:
    """Whether a sentence says of how something is done what is so and what is not: ``we use pnpm, not npm``."""
    return _NOT_THE_OTHER.search(right) is not None
