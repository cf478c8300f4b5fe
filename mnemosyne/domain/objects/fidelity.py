"""The five fidelities of an object in a context window, and the legal steps between them.

The table ``LADDER`` defines the rule; the tables in `docs/objects.md` are generated from it.
"""

from enum import Enum, IntEnum

import attrs


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


class Cause(Enum):
    """Why an object's fidelity changes in a branch."""

    PRESSURE = "pressure"
    """The window is filling up."""
    ECONOMY = "economy"
    """A rewrite of the context that saves money."""
    RELEASE = "release"
    """The model said that it no longer needs it."""
    GOAL = "goal"
    """The user turned to a different task. Occurs only in older logs."""
    FAULT = "fault"
    """The model asked for it."""
    PREFETCH = "prefetch"
    """A person asked to see it again. In older logs also: prefetched for the user's message."""
    ATTEMPT = "attempt"
    """The turn was retried: content restored in one attempt is missing from another."""


DOWN = frozenset({Cause.PRESSURE, Cause.ECONOMY, Cause.RELEASE, Cause.GOAL, Cause.ATTEMPT})
UP = frozenset({Cause.FAULT, Cause.PREFETCH, Cause.GOAL, Cause.ATTEMPT})


@attrs.frozen
class FidelityStep:
    """One legal change of an object's fidelity in a branch, and what may cause it."""

    before: Fidelity
    after: Fidelity
    causes: frozenset[Cause]


_F = Fidelity
_DEEP = DOWN - {Cause.GOAL}

LADDER: tuple[FidelityStep, ...] = (
    # Down, one rung or several: passing through L1 and L2 keeps more visible but saves no money.
    FidelityStep(_F.FULL, _F.DETAILED, DOWN),
    FidelityStep(_F.FULL, _F.COMPACT, DOWN),
    FidelityStep(_F.FULL, _F.STUB, _DEEP),
    FidelityStep(_F.FULL, _F.EVICTED, _DEEP),
    FidelityStep(_F.DETAILED, _F.COMPACT, DOWN),
    FidelityStep(_F.DETAILED, _F.STUB, _DEEP),
    FidelityStep(_F.DETAILED, _F.EVICTED, _DEEP),
    FidelityStep(_F.COMPACT, _F.STUB, _DEEP),
    FidelityStep(_F.COMPACT, _F.EVICTED, _DEEP),
    FidelityStep(_F.STUB, _F.EVICTED, _DEEP),
    # Up: only to readable text. Nothing is ever restored to a one-line description.
    FidelityStep(_F.DETAILED, _F.FULL, UP),
    FidelityStep(_F.COMPACT, _F.FULL, UP),
    FidelityStep(_F.COMPACT, _F.DETAILED, UP),
    FidelityStep(_F.STUB, _F.FULL, UP),
    FidelityStep(_F.STUB, _F.DETAILED, UP),
    FidelityStep(_F.STUB, _F.COMPACT, UP),
    FidelityStep(_F.EVICTED, _F.FULL, UP),
    FidelityStep(_F.EVICTED, _F.DETAILED, UP),
    FidelityStep(_F.EVICTED, _F.COMPACT, UP),
)
"""Every legal step. A change of goal takes nothing below L2, because the detected goal may be wrong."""

_CAUSES = {(step.before, step.after): step.causes for step in LADDER}


def is_legal(before: Fidelity, after: Fidelity, cause: Cause) -> bool:
    """Whether the ladder allows this step for this cause. An unchanged fidelity is not a step."""
    return cause in _CAUSES.get((before, after), frozenset())
