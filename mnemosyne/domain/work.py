"""The summaries that a session's memory owes, derived from its state: nothing else remembers them.

Whoever does the work (``actors/curator.py``) comes back with the command ``Summarized``. A crash loses nothing: after
replay the same work is due again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from mnemosyne.domain.assembly import is_its_own_detail
from mnemosyne.domain.fidelity import Fidelity
from mnemosyne.domain.losses import Declared, Measured
from mnemosyne.domain.memory import Memory
from mnemosyne.domain.memory_object import Losses, MemoryObject, ObjectSummarized
from mnemosyne.domain.tokens import Estimator

WORTH_SUMMARIZING = 1_500
"""Characters, about 500 tokens: below, a stub saves nearly as much, and the whole costs little."""

SHARE: Mapping[Fidelity, float] = {Fidelity.DETAILED: 0.30, Fidelity.COMPACT: 0.05}
"""The size of a rendition as a share of the whole."""

SHORTEST_COMPACT = 240
"""Characters of an L2 at least, whatever its share is: in less, little more stands than in a stub."""

Target = tuple[str, Fidelity]
"""One rendition of one object, by the object's id."""


@attrs.frozen(kw_only=True)
class Summarize:
    """One rendition that is owed. ``content`` is the object's (``ObjectCreated.content``); ``detailed`` the digest of
    its L1, from which an L2 is made, None where the L1 itself is owed. ``estimator`` counts the branch's tokens.
    """

    object: str
    fidelity: Fidelity
    kind: str
    source_tool: str | None
    source_key: str | None
    content: bytes
    detailed: bytes | None
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


def due(memory: Memory, limit: int, given_up: Collection[Target] = ()) -> Sequence[Summarize]:
    """At most ``limit`` summaries that are owed, the most useful first: of what the window wants to lower, and of what
    is large and was not used for long.

    Owed are an L1 of each object that is in a history, was admitted and is worth it, and then an L2 from that L1. An
    object that a later one replaced is owed nothing: it goes from full to its stub, and the later one is shown. Nor is
    anything that was ``given_up``.
    """
    wished = {each for shown in memory.branches.values() for each in shown.wished}
    owed = [each for each in _owed(memory) if each.target not in given_up]

    def use(each: Summarize) -> tuple[bool, int, str]:
        whole = memory.objects[each.object]
        idle = max(0, memory.shown(whole.branch).measure.turn - whole.last_use)
        return each.object not in wished, -whole.tokens * (1 + idle), each.object

    return sorted(owed, key=use)[:limit]


def _owed(memory: Memory) -> Iterator[Summarize]:
    for each in memory.objects.values():
        if each.size < WORTH_SUMMARIZING or not _is_worth_it(each):
            continue
        missing = next((fidelity for fidelity in SHARE if fidelity not in each.renditions), None)
        if missing is not None:
            detailed = each.renditions.get(Fidelity.DETAILED)
            yield Summarize(
                object=each.id,
                fidelity=missing,
                kind=each.kind.value,
                source_tool=each.source_tool,
                source_key=each.source_key,
                content=each.content,
                detailed=None if detailed is None else detailed.text,
                size=each.size,
                estimator=memory.shown(each.branch).measure.estimator or Estimator.of(None),
            )


def _is_worth_it(each: MemoryObject) -> bool:
    worth = bool(each.places) and each.admission.admitted and not is_its_own_detail(each.tags)
    return worth and each.superseded_by is None and not each.forgotten


@attrs.frozen(kw_only=True)
class Summarized:
    """A rendition was made. The fields are those of ``ObjectSummarized``."""

    at: int
    object: str
    fidelity: Fidelity
    text: bytes
    size: int
    tokens: int
    helper: str
    losses: Losses
    nanodollars: int


def summarized(command: Summarized, memory: Memory) -> tuple[ObjectSummarized, ...]:
    """The event; none where the object is unknown, was forgotten or has this rendition already, or where an L2 comes
    without the L1 that it was made from.
    """
    each = memory.objects.get(command.object)
    if each is None or each.forgotten or command.fidelity not in SHARE or command.fidelity in each.renditions:
        return ()
    if command.fidelity is Fidelity.COMPACT and Fidelity.DETAILED not in each.renditions:
        return ()
    return (ObjectSummarized(**attrs.asdict(command, recurse=False)),)


def losses_of(declared: Declared, measured: Measured) -> Losses:
    """What the writer says and what was measured, as the log holds them; of the samples, one of each kind in turn."""
    samples = [loss.sample for loss in measured.losses if loss.lost]
    return Losses(
        dropped=declared.dropped,
        can_answer=declared.can_answer,
        fault_when=declared.fault_when,
        key_entities=declared.key_entities,
        lost={loss.kind.value: loss.lost for loss in measured.losses if loss.lost},
        sample=tuple(text for number in range(_SAMPLES) for texts in samples for text in texts[number : number + 1])[
            :_SAMPLES
        ],
    )


_SAMPLES = 5
