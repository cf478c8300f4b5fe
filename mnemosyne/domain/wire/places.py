"""Which call, block or item a piece of a streamed reply belongs to, whatever index its server gives it.

Gateways were seen to give all parallel calls the index 0, floats, or none, and ids that come late or differ from event
to event. Nothing here changes an event: the reader of a reply and the rewriter of its stream ask with the same events
and get the same answers.
"""

from collections.abc import Sequence

import attrs


def index_of(value: object) -> int | None:
    """An index as its server wrote it, be it a float or a text of digits; None for what is none."""
    if type(value) is int:
        return value
    match value:
        case float() if value.is_integer():
            return int(value)
        case str() if len(value) < 10 and value.isascii() and value.isdigit():
            return int(value)
        case _:
            return None


def in_order(indices: Sequence[int | None]) -> list[int]:
    """The places of a reply in their order: by index where each has its own, else as they began."""
    places = range(len(indices))
    known = [index for index in indices if index is not None]
    return sorted(places, key=known.__getitem__) if len(set(known)) == len(indices) else list(places)


@attrs.define
class BlockPlaces:
    """The blocks or items of a reply, each numbered from 0 as it begins."""

    indices: list[int | None] = attrs.field(factory=list)
    """The index that each began with."""
    _by_id: dict[tuple[int | None, str], int] = attrs.field(factory=dict)
    _last_at: dict[int, int] = attrs.field(factory=dict)
    _last: int | None = None
    _asked: tuple[int | None, tuple[object, ...]] | None = None
    """By what the last one was found: nearly always the next event is of the same."""
    _ended: set[int] = attrs.field(factory=set)

    def begin(self, index: int | None, *ids: object) -> int:
        """A new one."""
        place = len(self.indices)
        self.indices.append(index)
        self._touch(place, index, ids)
        return place

    def find(self, index: int | None, *ids: object) -> int | None:
        """The one that an event with this index and these ids belongs to; None if it has not begun.

        An id decides among several of one index. Where it is unknown the index does, because some servers give an item
        another id in each event.
        """
        if self._asked == (index, ids):
            return self._last
        texts = [each for each in ids if isinstance(each, str)]
        place = self._by_name(index, texts)
        if place is None:
            place = self._last if index is None else self._last_at.get(index, self._by_name(None, texts))
        if place is not None:
            self._touch(place, index, ids)
        return place

    def end(self, index: int | None, *ids: object) -> int:
        """The one that an event ends, which may be the first event of it."""
        named = any(isinstance(each, str) and (None, each) in self._by_id for each in ids)
        place = self.find(index, *ids)
        if place is None or (place in self._ended and not named):
            place = self.begin(index, *ids)
        self._ended.add(place)
        return place

    def _by_name(self, index: int | None, ids: Sequence[str]) -> int | None:
        return next((self._by_id[index, each] for each in ids if (index, each) in self._by_id), None)

    def _touch(self, place: int, index: int | None, ids: Sequence[object]) -> None:
        self._last, self._asked = place, (index, tuple(ids))
        if index is not None:
            self._last_at[index] = place
        for each in ids:
            if isinstance(each, str):
                self._by_id[index, each] = self._by_id[None, each] = place
