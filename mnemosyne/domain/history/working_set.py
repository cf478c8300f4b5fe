"""The working set of a branch's window, for people: from the fold of a session's events, or from the read model of the
live working set and the few events that it refers to.
"""

from collections.abc import Iterable
from functools import reduce

import attrs

from mnemosyne.domain.objects import aggregate
from mnemosyne.domain.objects.events import ObjectCreated, ObjectEvent
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.protection import Resident
from mnemosyne.errors import LogFailed


@attrs.frozen(kw_only=True)
class WindowView:
    """How full a branch's window is at a turn. ``tokens`` is the estimate of the prompt, ``fixed`` the part of it that
    is system prompt and tools, ``usable`` the tokens that history may take, ``zone`` the pressure; ``counted`` is the
    provider's count of the prompt, None if it reported none.
    """

    branch: str
    turn: int
    tokens: int
    fixed: int
    usable: int
    zone: str
    counted: int | None

    @property
    def history(self) -> int:
        """The estimated tokens of the history, from which pressure is computed."""
        return self.tokens - self.fixed


@attrs.frozen(kw_only=True)
class WorkingObject:
    """An object in a window as the read model stores it, without its text.

    ``versions`` are the versions of its own events that still affect it, its creation first. The other fields are
    counted over its events and those of the objects that refer to it.
    """

    kind: ObjectKind
    stale: bool
    fidelity: Fidelity
    versions: tuple[int, ...]
    accesses: int
    faults: int
    micro_faults: int
    last_use: int
    last_fault: int | None
    released: bool


def standing_of(known: WorkingObject, events: Iterable[ObjectEvent]) -> Resident:
    """The object with its text, from the events of its ``versions`` in order. Raises LogFailed if they make none."""
    made, *others = events
    if not isinstance(made, ObjectCreated):
        raise LogFailed(f"the log has no event that made an object where there should be one, at {known.versions[0]}")
    each = reduce(aggregate.evolve, others, aggregate.make_object(made))
    each = attrs.evolve(
        each,
        accesses=known.accesses,
        faults=known.faults,
        micro_faults=known.micro_faults,
        last_use=known.last_use,
        last_fault=known.last_fault,
        released=known.released,
    )
    return Resident(each, known.fidelity)
