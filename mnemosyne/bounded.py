"""Memory with a bound."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Lru(Generic[Key, Value]):
    """At most so many values by key. The one that was put or had longest ago goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value, if it is held."""
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: Key, value: Value) -> Value:
        """Hold a value, and return it."""
        self._held[key] = value
        self._held.move_to_end(key)
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return value

    def pop(self, key: Key) -> Value | None:
        """The value, if it is held, and no longer."""
        return self._held.pop(key, None)

    def values(self) -> list[Value]:
        """All that is held."""
        return list(self._held.values())

    def copy(self) -> "Lru[Key, Value]":
        """Another one that holds the same."""
        other: Lru[Key, Value] = Lru(self._most)
        other._held.update(self._held)
        return other

    def clear(self) -> None:
        """Hold nothing."""
        self._held.clear()
