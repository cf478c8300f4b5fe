"""What of a session is worth knowing in the next: what its user settled, in words of their own.

Only claims are looked at (``segmentation.statements``), and of these only the user's. What a tool brought, what was
pasted or quoted, and what the model said is nobody's decision. What the user agreed to in the model's words counts a
little less.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.decide import EntryDraft
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.domain.objects.aggregate import MemoryObject, is_claim
from mnemosyne.domain.objects.speakers import AGREED, Speaker, speaker_of
from mnemosyne.domain.recall.goals import find_typed_in
from mnemosyne.domain.segmentation.own_words import paragraphs
from mnemosyne.domain.segmentation.settling import ClaimKind, settles
from mnemosyne.domain.segmentation.statements import claims
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.state import Branch
from mnemosyne.domain.wire.normal_form import content_blocks

SURE, AGREED_TO, ASKED_TO_REMEMBER = 0.8, 0.75, 0.95
"""How far an entry is believed that the user said, agreed to, or asked to be remembered."""

_KINDS = {
    ClaimKind.DECISION.value: EntryKind.DECISION,
    ClaimKind.PREFERENCE.value: EntryKind.WORKFLOW,
    ClaimKind.CONSTRAINT.value: EntryKind.CONSTRAINT,
}
"""Conclusions hold for the files that they were drawn from as they were, corrections for what was said just before."""

_ASKED = re.compile(
    r"^(?:ok(?:ay)?,? |and |so |also,? )*(?:please,? )?(?:always )?"
    r"(?:remember|memorize|note|save|store|learn|keep in mind|don't forget|do not forget|never forget)"
    r"(?: this| it)?(?::| that\b|,|(?= i\b| we\b| my\b| our\b))\s*",
    re.IGNORECASE,
)
"""How somebody asks for something to be remembered; what follows is the thing."""

_STYLE = re.compile(
    r"\b(?:answers?|repl(?:y|ies)|respond|responses?|explain|explanations?|concise|verbose|emojis?|tone|tell me|"
    r"ask me|talk to me|speak)\b",
    re.IGNORECASE,
)
_OF_ONESELF = re.compile(
    r"\b(?:i (?:prefer|like|don't like|do not like|hate|want|always|never)|my name is|i am|i'm)\b", re.IGNORECASE
)
_PASSING = re.compile(
    r"\b(?:for now|this time|just now|right now|today|temporar\w+|in this (?:pr|commit|file|function|test|case|one)|"
    r"here|above|below|that one|this one|the (?:first|second|third|last|latter|former)|option \w|both|it|them|these|"
    r"those)\b",
    re.IGNORECASE,
)
"""What a sentence points at that says so: away from its place it says nothing."""


@attrs.frozen
class FoundDraft:
    """An entry that a session gave, and the scope in which it holds."""

    scope: Scope
    draft: EntryDraft


def list_typed_branches(branches: Iterable[Branch]) -> frozenset[str]:
    """The branches in which a person types: what an agent is told that another one calls, a model wrote."""
    return frozenset(each.name for each in branches if each.kind in _TYPED)


_TYPED = frozenset({BranchKind.MAIN, BranchKind.FORK, BranchKind.SUCCESSOR})


def extract(objects: Iterable[MemoryObject], session: UUID, branches: Collection[str]) -> Iterator[FoundDraft]:
    """The entries that the claims of a session give, in their order; ``branches`` are those in which a person types."""
    for each in objects:
        theirs = is_claim(each) and each.branch in branches and speaker_of(each.tags) is Speaker.USER
        if theirs and not each.stale and not each.forgotten:
            source = Provenance(session=session, branch=each.branch, turn=each.first_turn, object=each.id)
            found = _draft(each.stub, each.tags, source)
            if found is not None:
                yield found


def extract_prompt(typed: str, source: Provenance | None) -> Iterator[FoundDraft]:
    """The entries that a text gives which a person typed, and of which there is no object yet; ``source`` is None where
    it belongs to no session on record.
    """
    for each in claims(typed, paragraphs(typed, Speaker.USER), Speaker.USER):
        found = _draft(each.sentence, (each.kind.value,), source)
        if found is not None:
            yield found


def extract_messages(messages: Iterable[Mapping[str, Any]], source: Provenance | None) -> Iterator[FoundDraft]:
    """The same of a conversation's messages, as the Messages API has them: of those alone that the user typed."""
    for each in messages:
        yield from extract_prompt(find_typed_in(each.get("role"), content_blocks(each.get("content"))), source)


def _draft(sentence: str, tags: Collection[str], source: Provenance | None) -> FoundDraft | None:
    asked = _ASKED.match(sentence)
    said = sentence[asked.end() :] if asked else sentence
    kind = _find_kind(tags, said if asked else None)
    if kind is None or (not asked and _PASSING.search(said)) or len(said.split()) < _FEWEST_WORDS:
        return None
    is_own = _OF_ONESELF.search(said) is not None
    is_style = _STYLE.search(said) is not None and kind is not EntryKind.DECISION
    draft = EntryDraft(
        kind=EntryKind.RESPONSE_STYLE if is_style else kind,
        content=said[:1].upper() + said[1:],
        source=EntrySource.EXTRACTED,
        confidence=ASKED_TO_REMEMBER if asked else AGREED_TO if AGREED in tags else SURE,
        provenance=source,
    )
    return FoundDraft(Scope.USER if is_own or is_style else Scope.PROJECT, draft)


_FEWEST_WORDS = 3


def _find_kind(tags: Collection[str], asked_for: str | None) -> EntryKind | None:
    """What a claim tells of; what somebody asked to be remembered is a fact if it settles nothing."""
    if asked_for is None:
        return next((_KINDS[tag] for tag in tags if tag in _KINDS), None)
    settled = settles(asked_for, Speaker.USER)
    return _KINDS.get(settled.value, EntryKind.FACT) if settled is not None else EntryKind.FACT
