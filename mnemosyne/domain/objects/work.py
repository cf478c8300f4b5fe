"""Deferred summaries of objects, and the losses recorded with a summary."""

import attrs

from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.objects.aggregate import SHARE, MemoryObject, missing_rendition
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.losses import Measured, accumulate
from mnemosyne.domain.objects.memory import Memory

COMPACT_SHARE = 0.05
"""Size of an L2 as a share of the full text."""

SHORTEST_COMPACT = 240
"""Minimum length of an L2 in characters; anything shorter is hardly better than a stub."""


@attrs.frozen(kw_only=True)
class DeferredSummary:
    """One rendition that is still to be made. ``content`` and ``by_user`` are the object's (``ObjectCreated``). For an
    L2, ``detailed`` is the digest of the L1 and ``lost`` are the losses of the L1, which the L2 inherits; both are None
    if the L1 itself is missing. ``estimator`` counts the branch's tokens. ``lines`` are the lines of a file that the
    object shows, if it shows a part of it.
    """

    object: str
    fidelity: Fidelity
    kind: ObjectKind
    source_tool: str | None
    source_key: str | None
    content: bytes
    by_user: tuple[int, ...]
    detailed: bytes | None
    lost: Losses | None
    size: int
    estimator: Estimator
    lines: str | None = None

    @property
    def target_chars(self) -> int:
        """Target length in characters."""
        if self.fidelity is Fidelity.COMPACT:
            return max(SHORTEST_COMPACT, int(COMPACT_SHARE * self.size))
        return int(SHARE * self.size)


def missing_of(obj: MemoryObject, memory: Memory) -> DeferredSummary | None:
    """The fullest rendition that an object lacks, as deferred work, whatever its size; None if none is missing."""
    missing = missing_rendition(obj)
    if missing is None:
        return None
    detailed = obj.renditions.get(Fidelity.DETAILED)
    return DeferredSummary(
        object=obj.id,
        fidelity=missing,
        kind=obj.kind,
        source_tool=obj.source_tool,
        source_key=obj.source_key,
        content=obj.content,
        by_user=obj.by_user,
        detailed=None if detailed is None else detailed.text,
        lost=None if detailed is None else detailed.losses,
        size=obj.size,
        estimator=memory.view_of(obj.branch).estimator(None),
        lines=obj.lines,
    )


def losses_of(declared: Losses, measured: Measured, before: Losses | None = None) -> Losses:
    """Combine declared and measured losses for the log; samples are taken from each kind in turn. ``before`` are the
    losses of the rendition above: everything that it dropped, this one has dropped too.
    """
    samples = [loss.sample for loss in measured.losses if loss.lost]
    return Losses(
        dropped=declared.dropped if before is None else accumulate(before.dropped, declared.dropped),
        can_answer=declared.can_answer,
        fault_when=declared.fault_when if before is None else accumulate(before.fault_when, declared.fault_when),
        key_entities=declared.key_entities,
        lost={loss.kind.value: loss.lost for loss in measured.losses if loss.lost},
        sample=tuple(text for number in range(_SAMPLES) for texts in samples for text in texts[number : number + 1])[
            :_SAMPLES
        ],
    )


_SAMPLES = 5
