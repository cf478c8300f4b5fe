"""The five fidelities of an object in a context window, and the legal steps between them.

``is_legal`` defines the rule; the tables in `docs/objects.md` are generated from it.
"""

from enum import Enum, IntEnum


class Fidelity(IntEnum):
    """How much of an object is in the window. A larger number shows less."""

    FULL = 0
    """The original content."""
    DETAILED = 1
    """A summary of about 30 %."""
    COMPACT = 2
    """A summary of about 5 %."""
    STUB = 3
    """One line that describes it."""
    EVICTED = 4
    """Not in the window; it can be queried and restored."""

    @property
    def label(self) -> str:
        """``L0`` to ``L4``."""
        return f"L{self.value}"


class FidelityMode(Enum):
    """How far a rewrite takes an object that is due."""

    THRIFTY = "thrifty"
    """At once to the fidelity that costs least. Sessions that recorded no mode were planned in this way."""
    GRADED = "graded"
    """One rung further down at each rewrite."""


class Cause(Enum):
    """Why an object's fidelity changes in a branch."""

    PRESSURE = "pressure"
    """The window is filling up."""
    ECONOMY = "economy"
    """A rewrite of the context that saves money."""
    RELEASE = "release"
    """The model said that it no longer needs it."""
    GOAL = "goal"
    """A helper model expects that the user's goal needs it. In older logs also: the user turned to a different task."""
    FAULT = "fault"
    """The model asked for it."""
    PREFETCH = "prefetch"
    """A person asked to see it again. In older logs also: prefetched for the user's message."""
    ATTEMPT = "attempt"
    """The client retried the turn, or the provider refused the request as too long and the proxy repeated it: content
    that was restored for one attempt is missing from another.
    """


DOWN = frozenset({Cause.PRESSURE, Cause.ECONOMY, Cause.RELEASE, Cause.GOAL, Cause.ATTEMPT})
UP = frozenset({Cause.FAULT, Cause.PREFETCH, Cause.GOAL, Cause.ATTEMPT})


def is_legal(before: Fidelity, after: Fidelity, cause: Cause) -> bool:
    """Whether an object's fidelity may change in this way for this cause. An unchanged fidelity is no step.

    A step may skip rungs: passing through L1 and L2 keeps more visible but saves no money. Nothing is restored to a
    one-line description. A change of goal took nothing below L2, because the detected goal could be wrong.
    """
    if after > before:
        return cause in DOWN and (cause is not Cause.GOAL or after <= Fidelity.COMPACT)
    return after < before and cause in UP and after <= Fidelity.COMPACT
