"""The five fidelities at which an object can stand in a context window, and the legal steps between them.

The table ``LADDER`` is the rule; the diagram in `docs/objects.md` is printed from it.
"""

from enum import Enum, IntEnum

import attrs


class Fidelity(IntEnum):
    """How much of an object is in the window. A larger number shows less."""

    FULL = 0
    """The content as it came."""
    DETAILED = 1
    """A summary of about 30 %."""
    COMPACT = 2
    """A summary of about 5 %."""
    STUB = 3
    """One line that says what it was."""
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
    """The context was rewritten because that pays."""
    RELEASE = "release"
    """The model said that it no longer needs it."""
    GOAL = "goal"
    """The user turned to something else. Only older logs hold it."""
    FAULT = "fault"
    """The model asked for it."""
    PREFETCH = "prefetch"
    """A person asked to see it again. In older logs also: it was prefetched for the user's message."""
    ATTEMPT = "attempt"
    """The turn was tried again: what came back in one attempt is not there in another."""


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
    # Down, one rung or several: passing through L1 and L2 buys sight, and not money.
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
    # Up: to what can be read. Nothing is ever restored to a line that says what it was.
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
"""Every legal step. A change of goal takes nothing below L2, because the guess at a goal may be wrong."""

_CAUSES = {(step.before, step.after): step.causes for step in LADDER}


def is_legal(before: Fidelity, after: Fidelity, cause: Cause) -> bool:
    """Whether the ladder knows this step for this cause. Staying where it is is no step."""
    return cause in _CAUSES.get((before, after), frozenset())
