"""What must be known of a session before it is loaded: which of its lanes send something of ours upstream, to which
session an agent belongs, and which one a client goes on with under another name.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import UUID, uuid5

import attrs

from mnemosyne.domain.session.events import BranchOpened, SessionImported
from mnemosyne.domain.session.round_events import BranchModeSet, ManagingSwitched, Mode
from mnemosyne.domain.wire.dialects import header_lane

if TYPE_CHECKING:  # those who ask for a directory need no session whole
    from mnemosyne.domain.session.state import Session

Decision = TypeVar("Decision")


class _HasMode(Protocol):
    @property
    def mode(self) -> Mode: ...


Shown = TypeVar("Shown", bound=_HasMode)

NAMESPACE = UUID("6f0d2b5e-3c57-5b0b-9a55-0d4f6a1d9c10")
"""Streams are UUIDs of this namespace: every process that sees a client's session finds the same stream."""


REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

UNNAMED = "chain:"
"""How the names begin that we give to sessions whose clients give none."""


def stream_of(tenant: str, external_id: str) -> UUID:
    """The stream of a client's session. Sessions of different tenants never meet; and no name that a client makes up is
    that of a stream of ours, which has NUL in it.
    """
    return uuid5(NAMESPACE, f"{tenant}\0{external_id.replace(chr(0), REPLACEMENT)}")


def operator_stream(tenant: str) -> UUID:
    """The stream of what the operator of a tenant decides for all its sessions. No client's session has it."""
    return uuid5(NAMESPACE, f"{tenant}\0\0operator")


@attrs.frozen
class Alias:
    """Another name for a branch than its session has: the client's for a fork of it, or for an agent."""

    stream: UUID
    external_id: str
    branch: str


class Directory(Protocol):
    """The sessions of the log, found without reading them whole. Every call raises LogFailed."""

    async def modes_of(self, stream: UUID) -> Mapping[str, Mode]:
        """What each lane of a session sends upstream, as far as that was decided."""
        ...

    async def root_of(self, tenant: str, agent_id: str) -> str | None:
        """What the client calls the session in which this agent was called, or which it went on with under this name;
        None if there is none.
        """
        ...

    async def aliases(self, name: str) -> Sequence[Alias]:
        """The branches, of any tenant, that a client called so while their sessions have another name; the last that
        it began to call so comes last.
        """
        ...

    async def find_managed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        """What clients call the sessions in which something of ours was sent for a request that held as much as one of
        these chains stands for: those that went farthest first, and not very many.
        """
        ...

    async def find_unnamed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        """Our names for the sessions without a name of their clients' in which a request held as much as one of these
        chains stands for: those that went farthest first, of equals the newest, and not very many.
        """
        ...

    async def off_since(self, tenant: str) -> int | None:
        """Since when the operator wants nothing to be managed, in µs of UTC; None if that is not so."""
        ...


def lane_modes(session: "Session") -> dict[str, Mode]:
    """What each lane of a session sends upstream, as far as that was decided, by the name that headers give it."""
    decided = ((branch.header_lane, branch.mode) for branch in session.branches.values())
    return _by_lane(decided)


def modes_by_branch(events: Iterable[object]) -> dict[str, Mode]:
    """The same of a session's BranchOpened and BranchModeSet events alone."""
    held = list(events)
    decisions = last_decisions(_mode_steps(held))
    opened = [event for event in held if isinstance(event, BranchOpened)]
    return _by_lane(
        (
            header_lane(each.lane, each.agent_id),
            decisions[each.branch].mode if each.branch in decisions else Mode.OBSERVE,
        )
        for each in opened
    )


def mode_decisions(events: Iterable[object]) -> dict[str, BranchModeSet]:
    """The last decision about what each branch sends upstream, as people see it (``display_steps``); none for one that
    nobody wanted to be managed. A branch that goes on with another begins with the other's.
    """
    return last_decisions(display_steps(_mode_steps(events)))


def _mode_steps(events: Iterable[object]) -> Iterator[tuple[str, str | BranchModeSet]]:
    for event in events:
        match event:
            case BranchOpened(inherits=True, parent=str(parent)):
                yield event.branch, parent
            case BranchModeSet():
                yield event.branch, event
            case _:
                pass


def display_steps(steps: Iterable[tuple[str, str | Shown]]) -> Iterator[tuple[str, str | Shown]]:
    """The steps as people see them: what was never managed is observed, not "managed no longer", also where a request
    had to leave without its thinking.
    """
    managed: set[str] = set()
    for branch, step in steps:
        if isinstance(step, str):
            managed.update({branch} if step in managed else ())
        elif step.mode is Mode.MANAGE:
            managed.add(branch)
        elif step.mode is Mode.BYPASS and branch not in managed:
            step = attrs.evolve(cast("Any", step), mode=Mode.OBSERVE)
        yield branch, step


def last_decisions(steps: Iterable[tuple[str, str | Decision]]) -> dict[str, Decision]:
    """The last decision about each branch. Each step names a branch and what was decided about it, or the parent whose
    decision it begins with.
    """
    found: dict[str, Decision] = {}
    for branch, step in steps:
        if not isinstance(step, str):
            found[branch] = step
        elif step in found:
            found[branch] = found[step]
    return found


def _by_lane(modes: Iterable[tuple[str, Mode]]) -> dict[str, Mode]:
    """Of several branches of one lane that counts which is managed, else one that was: beside a managed conversation
    the client sends requests that are not, for a title say.
    """
    found: dict[str, Mode] = {}
    for lane, mode in modes:
        if _WEIGHT[mode] >= _WEIGHT[found.get(lane, Mode.OBSERVE)]:
            found[lane] = mode
    return found


def strongest(modes: Iterable[Mode]) -> Mode:
    """The mode that counts of several."""
    return max(modes, key=_WEIGHT.__getitem__, default=Mode.OBSERVE)


_WEIGHT = {Mode.OBSERVE: 0, Mode.BYPASS: 1, Mode.MANAGE: 2}


def find_import_time(events: Iterable[object], session: UUID) -> int | None:
    """When a session was brought in from a file, as an operator's stream tells; None if it was not."""
    found = (event.at for event in events if isinstance(event, SessionImported) and event.session == session)
    return next(found, None)


def off_since(events: Iterable[object]) -> int | None:
    """Since when the events of an operator's stream leave managing off, in µs of UTC; None if they do not."""
    switched = [event for event in events if isinstance(event, ManagingSwitched)]
    return switched[-1].at if switched and not switched[-1].on else None
