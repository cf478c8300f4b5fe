"""Recorded short forms of a full text, with their measured losses."""

from hashlib import sha256

import attrs

from mnemosyne.domain.cost.tokens import features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject, may_be_extracted
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.losses import measure
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.work import DeferredSummary, losses_of, missing_of
from mnemosyne.domain.summaries import extractive
from mnemosyne.domain.summaries.renditions import ProposedRendition, RenditionRequest
from mnemosyne.domain.text.parts import TextPart, join


@attrs.frozen(kw_only=True)
class Written:
    """A rendition to record."""

    text: str
    tokens: int
    helper: str
    losses: Losses
    nanodollars: int

    def command(self, deferred: DeferredSummary, at: int) -> Summarize:
        """The command to record it as the missing form."""
        return Summarize(
            at=at,
            object=deferred.object,
            fidelity=deferred.fidelity,
            text=sha256(self.text.encode()).digest(),
            size=len(self.text),
            tokens=self.tokens,
            helper=self.helper,
            losses=self.losses,
            nanodollars=self.nanodollars,
        )


@attrs.frozen
class Extract:
    """An extractive L1: the command that records it, and its ``text``."""

    command: Summarize
    text: str

    @property
    def content(self) -> tuple[bytes, bytes]:
        """The content that the command names: its digest and its bytes."""
        return self.command.text, self.text.encode()


def extract(each: MemoryObject, memory: Memory, content: bytes, at: int) -> Extract | None:
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
    candidate = extractive.summarize(request_of(deferred, full, parts))
    written = measure_losses(deferred, full, None, candidate, helper=extractive.NAME, nanodollars=0)
    return Extract(written.command(deferred, at), written.text)


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
    nanodollars: int,
) -> Written:
    """Return an accepted candidate with its losses measured against ``full``."""
    chain = (candidate.text,) if detailed is None else (detailed, candidate.text)
    return Written(
        text=candidate.text,
        tokens=deferred.estimator.tokens(features_of_text(candidate.text)),
        helper=helper,
        losses=losses_of(candidate.declared, measure(full, *chain), deferred.lost),
        nanodollars=nanodollars,
    )
