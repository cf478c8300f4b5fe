"""A mapping of bounded size."""

from collections import OrderedDict
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """The ``size`` values (at least one) that were put or got last, by key."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value of a key; None if it has none, or none any more."""
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def put(self, key: K, value: V) -> None:
        """Hold a value; if that is one too many, the one that was put or got longest ago goes."""
        self._held[key] = value
        self._held.move_to_end(key)
        if len(self._held) > self._size:
            self._held.popitem(last=False)

    def values(self) -> Collection[V]:
        """What is held, the one that would go next first."""
        return self._held.values()

    def clear(self) -> None:
        """Hold nothing any more."""
        self._held.clear()
