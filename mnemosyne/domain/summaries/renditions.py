"""Renditions: an object's content at L1 and L2, and the checks that a helper's text must pass to become one.

A helper gets a ``RenditionRequest`` and returns a ``ProposedRendition``. ``find_fault`` allows it only if it is smaller
than its source, grounded in it, invents no specific, and loses no more specifics than its kind of object allows.
Otherwise the extractor's text is used (``extractive/``), which is cut from the source.
"""

import re

import attrs

from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, ObjectKind
from mnemosyne.domain.objects.losses import measure
from mnemosyne.domain.text.entities import specifics
from mnemosyne.domain.text.grounding import LEAST_GROUNDED, MOST_SEARCHES, find_invented, measure_grounding
from mnemosyne.domain.text.parts import TextPart

SIZE_TOLERANCE = 1.25
"""Accepted size of a model's text, as a multiple of the target: models cannot count characters."""

L2_KEEPS = 0.25
"""An L2 is a sixth of its source: it must keep a quarter of the specifics that an L1 of the kind must keep
(``Traits.allowed_loss``)."""

FEW_SPECIFICS = 8
"""With fewer specifics than this, a share means nothing, and a text may lose all of them."""

_SENTENCE = re.compile(r"[^\n]+?(?:[.!?][\"')\]*_]*(?=\s)|[\u3002\uff01\uff1f]|$)\s*", re.MULTILINE)
"""A sentence, or a line without an end of one, with the white space behind it."""

_MARK = re.compile(r"^⋯ \d+(?: lines?)?$", re.MULTILINE)


@attrs.frozen(kw_only=True)
class RenditionRequest:
    """The request to a helper: make ``text`` fit into ``target_chars``.

    ``kind`` is the object's; ``source_tool`` and ``source_key`` name the call that returned the text (``Read``, a
    path), or are None. ``text`` is L0, ``parts`` its parts if they are known, ``fidelity`` the level of the result.
    """

    kind: ObjectKind
    source_tool: str | None
    source_key: str | None
    text: str = attrs.field(repr=False)
    target_chars: int
    parts: tuple[TextPart, ...] = attrs.field(default=(), repr=False)
    fidelity: Fidelity = Fidelity.DETAILED


@attrs.frozen
class ProposedRendition:
    """A helper's result before ``find_fault`` has checked it."""

    text: str
    declared: Losses


def find_fault(request: RenditionRequest, candidate: ProposedRendition) -> str | None:
    """The reason for which a candidate cannot become a rendition of its source, without quotations; None if it can."""
    return (
        _wrong_size(request, candidate.text)
        or _check_grounded(request.text, candidate.text)
        or _invention(request.text, _text_of(candidate))
        or _too_lossy(request, candidate.text)
    )


def drop_inventions(source: str, text: str) -> tuple[str, int]:
    """The text without its sentences that have specifics which its source lacks, and the number of those sentences."""
    invented = frozenset(find_invented(source, _MARK.sub("⋯", text)))
    if not invented:
        return text, 0
    sentences = _SENTENCE.findall(text)
    kept = [each for each in sentences if invented.isdisjoint(specifics(each))]
    return "".join(kept).strip(), len(sentences) - len(kept)


def _wrong_size(request: RenditionRequest, text: str) -> str | None:
    most = int(request.target_chars * SIZE_TOLERANCE)
    if not text.strip():
        return "it is empty"
    if len(text) >= len(request.text):
        return f"it is not smaller than its source: {len(text)} of {len(request.text)} characters"
    if len(text) > most:
        return f"it is too long: {len(text)} characters, at most {most}"
    return None


def _check_grounded(source: str, text: str) -> str | None:
    share = measure_grounding(source, text)
    return None if share >= LEAST_GROUNDED else f"only {share:.0%} of its words are from its source"


def _text_of(candidate: ProposedRendition) -> str:
    declared = candidate.declared
    return "\n".join(
        (candidate.text, *declared.dropped, *declared.can_answer, *declared.fault_when, *declared.key_entities)
    )


def _invention(source: str, text: str) -> str | None:
    """Describe a specific of the text that the source lacks. Marks of omissions are not specifics."""
    invented = find_invented(source, _MARK.sub("⋯", text))
    if len(invented) > MOST_SEARCHES:
        return f"it has {len(invented)} specifics that its source lacks as such"
    if not invented:
        return None
    kinds = ", ".join(sorted({specific.kind.value for specific in invented}))
    return f"it invents {len(invented)} specifics ({kinds})"


def _too_lossy(request: RenditionRequest, text: str) -> str | None:
    allowed = KINDS[request.kind].allowed_loss
    measured = measure(request.text, text)
    if request.fidelity is Fidelity.COMPACT:
        allowed = 1 - (1 - allowed) * L2_KEEPS
    if measured.of < FEW_SPECIFICS or measured.share <= allowed:
        return None
    return f"it loses more than {allowed:.0%} of the specifics of a {request.kind.value}"
