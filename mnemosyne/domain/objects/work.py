"""The summaries that a session's memory owes, derived from its state: nothing else remembers them.

Whoever does the work (``actors/curator.py``) comes back with the command ``Summarize`` (``decide.py``). A crash loses
nothing: after replay the same work is due again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import nsmallest

import attrs

from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.objects.aggregate import MemoryObject, missing_rendition
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.losses import NOT_CHECKED, Declared, Measured, SpotCheck, accumulate
from mnemosyne.domain.objects.memory import Memory

SHARE: Mapping[Fidelity, float] = {Fidelity.DETAILED: 0.30, Fidelity.COMPACT: 0.05}
"""The size of a rendition as a share of the whole."""

SHORTEST_COMPACT = 240
"""Characters of an L2 at least, whatever its share is: in less, little more stands than in a stub."""

Target = tuple[str, Fidelity]
"""One rendition of one object, by the object's id."""


@attrs.frozen(kw_only=True)
class OwedSummary:
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
    def target(self) -> Target:
        """Which rendition it is."""
        return self.object, self.fidelity

    @property
    def target_chars(self) -> int:
        """How long it should be."""
        share = int(SHARE[self.fidelity] * self.size)
        return max(SHORTEST_COMPACT, share) if self.fidelity is Fidelity.COMPACT else share


def due(memory: Memory, limit: int, given_up: Collection[Target] = ()) -> Sequence[OwedSummary]:
    """At most ``limit`` summaries that are owed, the most useful first: of what is large and was not used for long.

    Owed are an L1 of each object that is in a history, was admitted and is worth it, and then an L2. An
    object that a later one replaced is owed nothing: it goes from full to its stub, and the later one is shown. Nor is
    what the operator says, which is always shown in full, or anything that was ``given_up``.
    """
    turns = {name: shown.measure.turn for name, shown in memory.branches.items()}

    def use(each: MemoryObject) -> tuple[int, str]:
        idle = max(0, turns.get(each.branch, 0) - each.last_use)
        return -each.tokens * (1 + idle), each.id

    owing: Iterator[MemoryObject] = map(memory.objects.__getitem__, memory.owing)
    if given_up:
        owing = filter(lambda each: (each.id, missing_rendition(each)) not in given_up, owing)
    best = nsmallest(limit, owing, key=use)
    return [owed for each in best if (owed := missing_of(each, memory)) is not None]


def missing_of(each: MemoryObject, memory: Memory) -> OwedSummary | None:
    """What an object is owed, however small it is: the fullest rendition that it lacks; None if it is owed nothing."""
    missing = missing_rendition(each)
    if missing is None:
        return None
    detailed = each.renditions.get(Fidelity.DETAILED)
    return OwedSummary(
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
