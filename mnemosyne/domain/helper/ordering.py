"""Which background work a session orders for its objects, and when: pure functions of its memory."""

from collections.abc import Iterable, Iterator, Sequence

from mnemosyne.domain.helper.background import HelperOrder
from mnemosyne.domain.helper.caption import order_caption
from mnemosyne.domain.helper.summarize import COMPRESS, SUMMARIZE, order_form
from mnemosyne.domain.helper.utility import BATCH, order_utility
from mnemosyne.domain.objects.aggregate import MemoryObject, is_searched, may_be_extracted, missing_rendition
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.work import missing_of
from mnemosyne.domain.summaries import extractive

MOST_AHEAD = 8
"""Maximum number of short forms that one turn orders ahead of need."""


MOST_SCORED = 5 * BATCH
"""Maximum number of objects whose utility is ordered at once."""


def order_leaving(leaving: Iterable[tuple[MemoryObject, Fidelity]], memory: Memory) -> Iterator[HelperOrder]:
    """The L1 of each object that lacks it and will soon be shown at L1, or consists of images and will be evicted."""
    for each, fidelity in leaving:
        if missing_rendition(each) is Fidelity.DETAILED:
            deferred = missing_of(each, memory)
            assert deferred is not None
            if fidelity is Fidelity.EVICTED and each.is_pictured:
                yield order_caption(each, deferred)
            elif fidelity is Fidelity.DETAILED and may_be_extracted(each):
                yield order_form(deferred, SUMMARIZE)


def order_scores(objects: Sequence[MemoryObject]) -> Iterator[HelperOrder]:
    """The utility of the last of these objects that are in the index and have none."""
    new = [each for each in objects if each.utility is None and each.places and is_searched(each)][-MOST_SCORED:]
    yield from (order_utility(new[first : first + BATCH]) for first in range(0, len(new), BATCH))


def order_shorter(memory: Memory, branch: str) -> Iterator[HelperOrder]:
    """The L2 of each object that the branch shows at L1, and that a helper wrote."""
    for each, fidelity in memory.standings(branch):
        is_shown = fidelity is Fidelity.DETAILED and (KINDS[each.kind].is_conversation or not _is_extracted(each))
        deferred = missing_of(each, memory) if is_shown else None
        if deferred is not None and deferred.fidelity is Fidelity.COMPACT:
            yield order_form(deferred, COMPRESS)


def _is_extracted(obj: MemoryObject) -> bool:
    detailed = obj.renditions.get(Fidelity.DETAILED)
    return detailed is None or detailed.helper == extractive.NAME
