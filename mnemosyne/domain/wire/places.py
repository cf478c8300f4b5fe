"""Find which call, block or item a piece of a streamed reply belongs to, whatever index its server gives it.

Gateways were seen to give all parallel calls the index 0, floats, or no index, and ids that arrive late or differ
between events. Nothing here changes an event: the reader of a reply and the rewriter of its stream pass the same events
and get the same answers.
"""

from collections.abc import Sequence

import attrs


def index_of(value: object) -> int | None:
    """Read an index that may be a float or a text of digits; None for any other value."""
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
    """Return the numbers of the blocks in the order of the reply: by index if all indices differ, else as they
    began.
    """
    places = range(len(indices))
    known = [index for index in indices if index is not None]
    return sorted(places, key=known.__getitem__) if len(set(known)) == len(indices) else list(places)


@attrs.define
class BlockPlaces:
    """The blocks or items of a reply, each numbered from 0 as it begins."""

    indices: list[int | None] = attrs.field(factory=list)
    """The index with which each began."""
    _by_id: dict[tuple[int | None, str], int] = attrs.field(factory=dict)
    _last_at: dict[int, int] = attrs.field(factory=dict)
    _last: int | None = None
    _last_query: tuple[int | None, tuple[object, ...]] | None = None
    """The query that found the last one: the next event nearly always belongs to the same."""
    _ended: set[int] = attrs.field(factory=set)

    def begin(self, index: int | None, *ids: object) -> int:
        """Add a new one and return its number."""
        place = len(self.indices)
        self.indices.append(index)
        self._touch(place, index, ids)
        return place

    def find(self, index: int | None, *ids: object) -> int | None:
        """Return the number of the one that an event with this index and these ids belongs to; None if it has not
        begun.

        An id decides between several with one index. If the id is unknown, the index decides, because some servers give
        an item a different id in each event.
        """
        if self._last_query == (index, ids):
            return self._last
        texts = [id_ for id_ in ids if isinstance(id_, str)]
        place = self._by_name(index, texts)
        if place is None:
            place = self._last if index is None else self._last_at.get(index, self._by_name(None, texts))
        if place is not None:
            self._touch(place, index, ids)
        return place

    def end(self, index: int | None, *ids: object) -> int:
        """Return the number of the one that an event ends. The event may be its first."""
        named = any(isinstance(id_, str) and (None, id_) in self._by_id for id_ in ids)
        place = self.find(index, *ids)
        if place is None or (place in self._ended and not named):
            place = self.begin(index, *ids)
        self._ended.add(place)
        return place

    def _by_name(self, index: int | None, ids: Sequence[str]) -> int | None:
        return next((self._by_id[index, id_] for id_ in ids if (index, id_) in self._by_id), None)

    def _touch(self, place: int, index: int | None, ids: Sequence[object]) -> None:
        self._last, self._last_query = place, (index, tuple(ids))
        if index is not None:
            self._last_at[index] = place
        for id_ in ids:
            if isinstance(id_, str):
                self._by_id[index, id_] = self._by_id[None, id_] = place
