"""A cache of bounded size."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Lru(Generic[Key, Value]):
    """A cache with a maximum total ``weight`` (default: number) of values, which always holds the newest. It evicts the
    least recently used value.
    """

    def __init__(self, most: int, weight: Callable[[Value], int] = lambda _: 1) -> None:
        self._most, self._weigh = most, weight
        self._weight = 0
        self._held: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value, if it is held."""
        value = self._held.get(key)
        if value is not None:
            self._held.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> Value:
        """Add a value, and return it."""
        self.pop(key)
        self._held[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._most and len(self._held) > 1:
            self.pop(next(iter(self._held)))
        return value

    def pop(self, key: Key) -> Value | None:
        """Remove and return the value, if it is held."""
        if key not in self._held:
            return None
        value = self._held.pop(key)
        self._weight -= self._weigh(value)
        return value

    def values(self) -> list[Value]:
        """All values."""
        return list(self._held.values())

    def copy(self) -> "Lru[Key, Value]":
        """An independent copy."""
        other: Lru[Key, Value] = Lru(self._most, self._weigh)
        other._held.update(self._held)
        other._weight = self._weight
        return other

    def clear(self) -> None:
        """Remove all values."""
        self._held.clear()
        self._weight = 0
