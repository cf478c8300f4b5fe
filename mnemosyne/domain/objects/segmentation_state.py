"""The segmentation state of a branch: a fold of the objects that were made from it."""

from collections.abc import Iterable

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import BlockPlace, LinkRelation
from mnemosyne.domain.objects.index import ObjectPaths


@attrs.frozen(kw_only=True)
class SegmentationState:
    """The state from which segmentation continues, folded from the objects of a branch in order of creation.

    ``open`` is the first message with a block outside any object; ``owned`` are the places from there on that objects
    own.
    """

    open: int = 0
    owned: frozenset[BlockPlace] = frozenset()
    index: ObjectPaths = attrs.field(factory=ObjectPaths)

    def after_all(self, made: Iterable[MemoryObject]) -> "SegmentationState":
        """The state after several objects were created, in this order."""
        index, owned = self.index, set[BlockPlace]()
        for each in made:
            owned.update(place for place in each.places if place.message >= self.open)
            parts = [link.target for link in each.links if link.relation is LinkRelation.PARENT_OF]
            index = index.after(each.id, each, parts)
        return attrs.evolve(self, owned=self.owned | owned, index=index)

    def supersede(self, object_id: str) -> "SegmentationState":
        """The state after an object was superseded."""
        return attrs.evolve(self, index=self.index.supersede(object_id))

    def settle_before(self, message: int) -> "SegmentationState":
        """The state after every message before this one belongs entirely to objects."""
        return attrs.evolve(
            self, open=message, owned=frozenset(place for place in self.owned if place.message >= message)
        )
