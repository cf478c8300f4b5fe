"""What of a session is worth knowing in the next: what its user settled, in words of their own.

Only claims are looked at (``segmentation.statements``), and of these only the user's. What a tool brought, what was
pasted or quoted, and what the model said is nobody's decision. What the user agreed to in the model's words counts a
little less.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.decide import EntryDraft
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.domain.knowledge.lasting import find_right, is_passing, says_what_instead, stands
from mnemosyne.domain.objects.aggregate import MemoryObject, is_claim
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.speakers import AGREED, Speaker, speaker_of
from mnemosyne.domain.segmentation.claiming import Voices, find_claims
from mnemosyne.domain.segmentation.segment import SeenMessage
from mnemosyne.domain.segmentation.settling import ClaimKind, settles
from mnemosyne.domain.session.state import Branch
from mnemosyne.domain.wire.normal_form import content_blocks

SURE, AGREED_TO, ASKED_TO_REMEMBER = 0.8, 0.75, 0.95
"""How far an entry is believed that the user said, agreed to, or asked to be remembered."""

_KINDS: Mapping[ClaimKind | None, EntryKind] = {
    ClaimKind.DECISION: EntryKind.DECISION,
    ClaimKind.PREFERENCE: EntryKind.WORKFLOW,
    ClaimKind.CONSTRAINT: EntryKind.CONSTRAINT,
}
"""Conclusions hold for the files that they were drawn from as they were."""

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


@attrs.frozen
class FoundDraft:
    """An entry that a session gave, and the scope in which it holds."""

    scope: Scope
    draft: EntryDraft


def list_typed_branches(branches: Iterable[Branch]) -> frozenset[str]:
    """The branches in which a person types: what an agent is told that another one calls, a model wrote."""
    return frozenset(each.name for each in branches if each.is_typed)


def extract(objects: Iterable[MemoryObject], session: UUID, branches: Collection[str]) -> Iterator[FoundDraft]:
    """The entries that the claims of a session give, in their order; ``branches`` are those in which a person types."""
    for each in objects:
        theirs = is_claim(each) and each.branch in branches and speaker_of(each.tags) is Speaker.USER
        if theirs and not each.stale and not each.forgotten:
            source = Provenance(session=session, branch=each.branch, turn=each.first_turn, object=each.id)
            found = _draft(each.stub, each.tags, source)
            if found is not None:
                yield found


def extract_prompt(messages: Sequence[SeenMessage], source: Provenance | None) -> Iterator[FoundDraft]:
    """The entries that the last of a conversation's messages gives, of which there is no object yet: from what is its
    user's, as claims are found. ``source`` is None where it belongs to no session on record.
    """
    yield from _extract_from(messages[-1:], messages, source)


def extract_messages(messages: Iterable[Mapping[str, Any]], source: Provenance | None) -> Iterator[FoundDraft]:
    """The same of all of a conversation's messages, as the Messages API has them."""
    read = [
        SeenMessage(number, str(each.get("role")), 1, content_blocks(each.get("content")))
        for number, each in enumerate(messages)
    ]
    yield from _extract_from(read, read, source)


def _extract_from(
    read: Iterable[SeenMessage], among: Iterable[SeenMessage], source: Provenance | None
) -> Iterator[FoundDraft]:
    said = Voices({each.index: each for each in among})
    for message in read:
        for number in range(len(message.content)):
            for each in find_claims(BlockPlace(message.index, number), said):
                if each.speaker is Speaker.USER and not each.agreed:
                    found = _draft(each.claim.sentence, (each.claim.kind.value,), source)
                    if found is not None:
                        yield found


def _draft(sentence: str, tags: Collection[str], source: Provenance | None) -> FoundDraft | None:
    asked = _ASKED.match(sentence)
    if asked:
        said = sentence[asked.end() :]
        kind: EntryKind | None = _KINDS.get(settles(said, Speaker.USER), EntryKind.FACT)
    else:
        said, claimed = _find_said(sentence, tags)
        kind = None if is_passing(said) else _find_kind(claimed, said)
    if kind is None or len(said.split()) < _FEWEST_WORDS:
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


def _find_said(sentence: str, tags: Collection[str]) -> tuple[str, ClaimKind | None]:
    """What a claim says, and what that settles. A correction says what is right, if it says more than what is wrong."""
    kind = next((each for each in ClaimKind if each.value in tags), None)
    if kind is not ClaimKind.CORRECTION:
        return sentence, kind
    right = find_right(sentence)
    return right, ClaimKind.DECISION if says_what_instead(right) else settles(right, Speaker.USER)


def _find_kind(claimed: ClaimKind | None, said: str) -> EntryKind | None:
    """What an entry tells of that a claim gives. Preferences and rules are told in every session: one that does not say
    itself that it stands is no preference, and a rule only a decision, told where it has to do with the task.
    """
    if claimed in _STANDING and not stands(said):
        return EntryKind.DECISION if claimed is ClaimKind.CONSTRAINT else None
    return _KINDS.get(claimed)


_STANDING = frozenset({ClaimKind.PREFERENCE, ClaimKind.CONSTRAINT})
