"""The short form that an object lacks next, and what a short form on record says about its losses."""

import attrs

from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.objects.aggregate import SHARE, MemoryObject, missing_rendition
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.losses import NOT_CHECKED, Declared, Measured, SpotCheck, accumulate
from mnemosyne.domain.objects.memory import Memory

COMPACT_SHARE = 0.05
"""The size of an L2 as a share of the whole."""

SHORTEST_COMPACT = 240
"""Characters of an L2 at least, whatever its share is: in less, little more stands than in a stub."""


@attrs.frozen(kw_only=True)
class DeferredSummary:
    """One rendition that is owed. ``content`` and ``by_user`` are the object's (``ObjectCreated``); ``detailed`` is the
    digest of its L1 and ``lost`` what that says it lacks, which an L2 lacks too; None where the L1 itself is owed.
    ``estimator`` counts the branch's tokens.
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

    @property
    def target_chars(self) -> int:
        """How long it should be."""
        if self.fidelity is Fidelity.COMPACT:
            return max(SHORTEST_COMPACT, int(COMPACT_SHARE * self.size))
        return int(SHARE * self.size)


def missing_of(each: MemoryObject, memory: Memory) -> DeferredSummary | None:
    """What an object is owed, however small it is: the fullest rendition that it lacks; None if it is owed nothing."""
    missing = missing_rendition(each)
    if missing is None:
        return None
    detailed = each.renditions.get(Fidelity.DETAILED)
    return DeferredSummary(
        object=each.id,
        fidelity=missing,
        kind=each.kind,
        source_tool=each.source_tool,
        source_key=each.source_key,
        content=each.content,
        by_user=each.by_user,
        detailed=None if detailed is None else detailed.text,
        lost=None if detailed is None else detailed.losses,
        size=each.size,
        estimator=memory.view_of(each.branch).estimator(None),
    )


def losses_of(
    declared: Declared, measured: Measured, before: Losses | None = None, checked: SpotCheck = NOT_CHECKED
) -> Losses:
    """What the writer says and what was measured, as the log holds them; of the samples, one of each kind in turn.
    ``before`` is what the rendition above it lacks: what that dropped, this one has dropped, too. ``checked`` is what
    a spot check found.
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
        asked=checked.asked,
        failed=checked.failed,
    )


_SAMPLES = 5
