"""Recorded short forms of a full text, with their measured losses."""

from hashlib import sha256

import attrs

from mnemosyne.domain.cost.tokens import features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject, extract_chars, may_be_extracted
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.losses import measure
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.work import DeferredSummary, losses_of, missing_of
from mnemosyne.domain.summaries import extractive
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest
from mnemosyne.domain.text.parts import TextPart, join


@attrs.frozen
class RecordedForm:
    """A rendition: the command that records it, and its ``text``."""

    command: Summarize
    text: str

    @property
    def content(self) -> tuple[bytes, bytes]:
        """The content that the command names: its digest and its bytes."""
        return self.command.text, self.text.encode()


def extract(each: MemoryObject, memory: Memory, content: bytes, at: int) -> RecordedForm | None:
    """The L1 of an object with this content; None if it has one, or cannot have one."""
    deferred = missing_of(each, memory) if may_be_extracted(each) else None
    if deferred is None:
        return None
    try:
        parts = full_parts(content, deferred.by_user)
    except ValueError:
        return None
    full = join(parts)
    if not full.strip():
        return None
    request = attrs.evolve(request_of(deferred, full, parts), target_chars=extract_chars(each.kind, each.size))
    candidate = extractive.summarize(request)
    return measure_losses(deferred, full, None, candidate, helper=extractive.NAME, at=at)


def request_of(deferred: DeferredSummary, full: str, parts: tuple[TextPart, ...] = ()) -> RenditionRequest:
    """Return the request to summarize a full content."""
    return RenditionRequest(
        kind=deferred.kind,
        source_tool=deferred.source_tool,
        source_key=deferred.source_key,
        text=full,
        parts=parts,
        fidelity=deferred.fidelity,
        target_chars=deferred.target_chars,
    )


def measure_losses(
    deferred: DeferredSummary,
    full: str,
    detailed: str | None,
    candidate: ProposedRendition,
    *,
    helper: str,
    at: int,
) -> RecordedForm:
    """The missing form that an accepted candidate makes, with its losses measured against ``full``."""
    text = candidate.text
    chain = (text,) if detailed is None else (detailed, text)
    command = Summarize(
        at=at,
        object=deferred.object,
        fidelity=deferred.fidelity,
        text=sha256(text.encode()).digest(),
        size=len(text),
        tokens=deferred.estimator.tokens(features_of_text(text)),
        helper=helper,
        losses=losses_of(candidate.declared, measure(full, *chain), deferred.lost),
        nanodollars=0,
    )
    return RecordedForm(command, text)
