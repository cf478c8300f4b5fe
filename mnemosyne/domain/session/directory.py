"""What must be known of a session before it is loaded: the mode of each conversation, the session that an agent belongs
to, and the session that a client continues under another name.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import UUID, uuid5

import attrs

from mnemosyne.domain.session.events import BranchOpened, SessionImported
from mnemosyne.domain.session.round_events import WAITING, BranchModeSet, ManagingSwitched, Mode
from mnemosyne.domain.wire.dialects import header_conversation

if TYPE_CHECKING:  # a directory must not import the whole session
    from mnemosyne.domain.session.state import Session

Decision = TypeVar("Decision")


class _HasMode(Protocol):
    @property
    def mode(self) -> Mode: ...
    @property
    def why(self) -> str: ...


Shown = TypeVar("Shown", bound=_HasMode)

NAMESPACE = UUID("6f0d2b5e-3c57-5b0b-9a55-0d4f6a1d9c10")
"""The UUID namespace of streams: every process that sees a client's session computes the same stream."""


REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

UNNAMED = "chain:"
"""The prefix of the names that the proxy gives to sessions for which the client sends none."""


def stream_of(tenant: str, external_id: str) -> UUID:
    """The stream of a client's session. Sessions of different tenants never share a stream, and a client cannot choose
    a name that yields one of the proxy's own streams, whose names contain NUL.
    """
    return uuid5(NAMESPACE, f"{tenant}\0{external_id.replace(chr(0), REPLACEMENT)}")


def operator_stream(tenant: str) -> UUID:
    """The stream of a tenant's operator, whose decisions hold for all its sessions. It is no client's stream."""
    return uuid5(NAMESPACE, f"{tenant}\0\0operator")


@attrs.frozen
class Alias:
    """A client's name for a branch that differs from its session's name: that of a fork, or of an agent."""

    stream: UUID
    external_id: str
    branch: str


class Directory(Protocol):
    """The sessions of the log, found without reading them whole. Every method raises LogFailed."""

    async def modes_of(self, stream: UUID) -> Mapping[str, Mode]:
        """The mode of each conversation of a session for which one was decided."""

    async def is_switched_on(self, stream: UUID) -> bool | None:
        """Whether managing was switched on for a session, or off; None if neither."""

    async def root_of(self, tenant: str, agent_id: str) -> str | None:
        """The client's name of the session that called this agent, or that the client continued under this name; None
        if there is none.
        """

    async def aliases(self, name: str) -> Sequence[Alias]:
        """The branches, of any tenant, to which a client gave this name while their sessions have another; in the order
        in which the client began to use it.
        """

    async def has_managed(self, tenant: str) -> bool:
        """Whether the proxy sent a request of its own in any session; if not, ``find_managed`` finds nothing."""

    async def find_managed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        """The client's names of sessions in which the proxy sent a request of its own for a history that includes one
        of these chain hashes: longest shared history first, limited in number.
        """

    async def find_unnamed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        """The proxy's names of sessions without a client's name in which a request's history includes one of these
        chain hashes: longest shared history first, then newest, limited in number.
        """

    async def off_since(self, tenant: str) -> int | None:
        """Since when the operator has switched managing off, in µs of UTC; None if it is on."""


def modes_by_conversation(session: "Session") -> dict[str, Mode]:
    """The mode of each conversation of a session, by the conversation's name in headers."""
    decided = ((branch.header_conversation, branch.mode) for branch in session.branches.values())
    return _by_conversation(decided)


def modes_by_branch(events: Iterable[object]) -> dict[str, Mode]:
    """The same as ``modes_by_conversation``, from a session's BranchOpened and BranchModeSet events alone."""
    held = list(events)
    decisions = last_decisions(_mode_steps(held))
    opened = [event for event in held if isinstance(event, BranchOpened)]
    return _by_conversation(
        (
            header_conversation(each.lane, each.agent_id),
            decisions[each.branch].mode if each.branch in decisions else Mode.OBSERVE,
        )
        for each in opened
    )


def mode_decisions(events: Iterable[object]) -> dict[str, BranchModeSet]:
    """The last mode decision about each branch, as people see it (``display_steps``); none for a branch without one. A
    fork begins with its parent's decision.
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
    """The steps as people see them: a branch that waits for its memory tools is shown as managed; one that was never
    managed as observed, not as "managed no longer", even if a request had to be sent without its thinking.
    """
    managed: set[str] = set()
    for branch, step in steps:
        if isinstance(step, str):
            managed.update({branch} if step in managed else ())
        elif step.mode is Mode.MANAGE or step.why in WAITING:
            managed.add(branch)
            step = attrs.evolve(cast("Any", step), mode=Mode.MANAGE)
        elif step.mode is Mode.BYPASS and branch not in managed:
            step = attrs.evolve(cast("Any", step), mode=Mode.OBSERVE)
        yield branch, step


def last_decisions(steps: Iterable[tuple[str, str | Decision]]) -> dict[str, Decision]:
    """The last decision about each branch. Each step is a branch with its decision, or with the parent whose decision
    it inherits.
    """
    decisions: dict[str, Decision] = {}
    for branch, step in steps:
        if not isinstance(step, str):
            decisions[branch] = step
        elif step in decisions:
            decisions[branch] = decisions[step]
    return decisions


def _by_conversation(modes: Iterable[tuple[str, Mode]]) -> dict[str, Mode]:
    """The strongest mode of each conversation: a client also sends unmanaged requests, such as those for a title, in
    a managed conversation.
    """
    by_conversation: dict[str, Mode] = {}
    for conversation, mode in modes:
        if _WEIGHT[mode] >= _WEIGHT[by_conversation.get(conversation, Mode.OBSERVE)]:
            by_conversation[conversation] = mode
    return by_conversation


def strongest(modes: Iterable[Mode]) -> Mode:
    """The strongest of several modes: managed, then bypass, then observe."""
    return max(modes, key=_WEIGHT.__getitem__, default=Mode.OBSERVE)


_WEIGHT = {Mode.OBSERVE: 0, Mode.BYPASS: 1, Mode.MANAGE: 2}


def find_import_time(events: Iterable[object], session: UUID) -> int | None:
    """When a session was imported from a file, according to an operator's stream; None if it was not."""
    times = (event.at for event in events if isinstance(event, SessionImported) and event.session == session)
    return next(times, None)


def is_switched_on(events: Iterable[object]) -> bool | None:
    """Whether managing was switched on for a session, or off, according to its stream; None if neither. Switched on
    after off, it only is no longer off.
    """
    switched: bool | None = None
    for event in events:
        if isinstance(event, ManagingSwitched):
            switched = None if event.on and switched is False else event.on
    return switched


def off_since(events: Iterable[object]) -> int | None:
    """Since when managing is off according to an operator's stream, in µs of UTC; None if it is on."""
    switched = [event for event in events if isinstance(event, ManagingSwitched)]
    return switched[-1].at if switched and not switched[-1].on else None
