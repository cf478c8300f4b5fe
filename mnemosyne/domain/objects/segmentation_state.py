"""Where the segmentation of a branch goes on: a fold of the objects that were made of it."""

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import BlockPlace, LinkRelation
from mnemosyne.domain.objects.index import ObjectPaths


@attrs.frozen(kw_only=True)
class SegmentationState:
    """Where segmentation goes on, folded from the objects of a branch in the order in which they were made.

    ``open`` is the first message with a block that is in no object; ``owned`` are the places from there on that are.
    """

    open: int = 0
    owned: frozenset[BlockPlace] = frozenset()
    index: ObjectPaths = attrs.field(factory=ObjectPaths)

    def after(self, made: MemoryObject) -> "SegmentationState":
        """What is known once an object was made."""
        children = [link.target for link in made.links if link.relation is LinkRelation.PARENT_OF]
        owned = self.owned.union(place for place in made.places if place.message >= self.open)
        return attrs.evolve(self, owned=owned, index=self.index.after(made.id, made, children))

    def supersede(self, object_id: str) -> "SegmentationState":
        """What is known once an object was superseded."""
        return attrs.evolve(self, index=self.index.supersede(object_id))

    def settle_before(self, message: int) -> "SegmentationState":
        """What is known once every message before this one is wholly in objects."""
        return attrs.evolve(
            self, open=message, owned=frozenset(place for place in self.owned if place.message >= message)
        )
