"""The shape of everything that decides: commands ask, events tell, state is a fold of events."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import attrs

Command = TypeVar("Command")
Event = TypeVar("Event")
State = TypeVar("State")


@attrs.frozen
class Decider(Generic[Command, Event, State]):
    """``decide`` may refuse by raising a MnemosyneError; ``evolve`` cannot fail on events that ``decide`` made."""

    initial: State
    decide: Callable[[Command, State], Sequence[Event]]
    evolve: Callable[[State, Event], State]

    def fold(self, events: Iterable[Event], start: State | None = None) -> State:
        """The state after ``events``, from ``start`` or from the beginning."""
        state = self.initial if start is None else start
        for event in events:
            state = self.evolve(state, event)
        return state
