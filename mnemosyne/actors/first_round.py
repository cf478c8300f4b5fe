"""What goes upstream first for a request of a managed branch: decided alike for a turn and for whoever counts one.

Most requests go on with what was sent before. The others begin an epoch: the planner wants one, the client went back to
before the last one, or the branch is managed no longer; then its thinking was signed against another history.
"""

from collections.abc import Sequence

import attrs

from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.managed_mode import begins_branch, mode_of
from mnemosyne.actors.messages import Begin
from mnemosyne.actors.patience import Patience
from mnemosyne.actors.rewriting import Rewriting
from mnemosyne.actors.wires import Wire, Wires
from mnemosyne.domain.session.events import BranchOpened, Event, Kind, TurnBegan
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import epochs, upstream_history
from mnemosyne.domain.window.epochs import Rewritten
from mnemosyne.domain.window.situation import Asked
from mnemosyne.domain.window.upstream_history import WireHistory
from mnemosyne.domain.wire.transcript import Transcript


@attrs.frozen(kw_only=True)
class Request:
    """A request whose turn has begun, or would begin. ``session`` is as of then."""

    message: Begin
    opened: BranchOpened | None
    began: TurnBegan
    read: Transcript = attrs.field(repr=False)
    session: Session = attrs.field(repr=False)

    @property
    def branch(self) -> Branch:
        """Its branch."""
        return self.session.branches[self.began.branch]

    @property
    def begins_branch(self) -> bool:
        """Whether its branch's mode is decided with it."""
        return begins_branch(self.branch, self.began)

    @property
    def is_last(self) -> bool:
        """Whether its branch goes on from it; an earlier turn once more leaves the branch as it is."""
        return self.began.turn == self.branch.turns

    @property
    def went_back(self) -> bool:
        """Whether what the client still shares with its branch was rendered again, so that it cannot be cut there."""
        wire = self.branch.wire
        return wire is not None and self.began.kept < wire.rewritten

    def client(self) -> list[bytes]:
        """The client's messages."""
        return [self.read.message_bytes(number) for number in range(len(self.read.messages))]


def request_of(message: Begin, events: Sequence[Event], read: Transcript, session: Session) -> Request:
    """The request that led to these events, the last of which is TurnBegan, and to this ``session``."""
    began = events[-1]
    assert isinstance(began, TurnBegan)
    opened = next((event for event in events if isinstance(event, BranchOpened)), None)
    return Request(message=message, opened=opened, began=began, read=read, session=session)


@attrs.frozen(kw_only=True)
class First:
    """What goes upstream first, and what is to be recorded before it. ``wire`` is None where the client's own bytes go.
    ``hour`` and ``tool_budget`` are as in ``wire_history.body``.
    """

    mode: Mode
    events: tuple[Event, ...]
    wire: Wire | None = None
    hour: bool = False
    tool_budget: int | None = None


@attrs.frozen
class _History:
    messages: WireHistory
    hour: bool
    events: tuple[Event, ...] = ()


class FirstRounds:
    """Those of one session."""

    def __init__(self, wires: Wires, bodies: Bodies, window: int, tool_budget: int | None, patience: Patience) -> None:
        self._wires = wires
        self._rewriting = Rewriting(bodies, patience)
        self._window = window
        self._tool_budget = tool_budget

    async def of(self, request: Request) -> First:
        """What goes upstream first. Raises LogFailed and ContentForgotten."""
        branch = request.branch
        set_, mode = mode_of(request.message, request.began, request.read, request.session, self._tool_budget)
        mode_events: tuple[Event, ...] = (set_,) if set_ is not None else ()
        if mode is Mode.OBSERVE:
            return First(mode=mode, events=mode_events)
        prior = await self._wires.of(_goes_on_from(request))
        history = await self._history(request, prior, mode, switched=set_ is not None)
        sent = prior or Wire(WireHistory(), attrs.evolve(request.read, recipe=branch.body), branch.body_version)
        return First(
            mode=mode,
            events=(*mode_events, *history.events) if request.is_last else (),
            wire=attrs.evolve(sent, history=history.messages),
            hour=history.hour,
            tool_budget=set_.tool_budget if set_ is not None else branch.tool_budget,
        )

    async def _history(self, request: Request, prior: Wire | None, mode: Mode, *, switched: bool) -> _History:
        """The messages that go; ``switched`` says that the branch's mode is set with this request."""
        hour = mode is Mode.MANAGE and request.branch.wire is not None and request.branch.wire.hour
        if prior is None:
            return _History(upstream_history.first(request.client()), hour)
        if mode is Mode.MANAGE:
            rewritten = await self._rewritten(request, prior)
            if rewritten is not None:
                return _History(rewritten.history, rewritten.hour, rewritten.events)
        if switched or request.went_back:
            keep_thinking = not switched and not epochs.may_drop_thinking(request.read)
            epoch = prior.history.epoch + 1
            return _History(upstream_history.first(request.client(), epoch=epoch, keep_thinking=keep_thinking), hour)
        return _History(_continued(request, prior, mode), hour)

    async def _rewritten(self, request: Request, prior: Wire) -> Rewritten | None:
        """The epoch that a request of a managed branch begins with a rewrite, if it does."""
        asked = Asked(
            at=request.message.at,
            branch=request.began.branch,
            turn=request.began.turn,
            read=request.read,
            before=prior.history,
            history=prior.history if request.went_back else _continued(request, prior, Mode.MANAGE),
            window=self._window,
        )
        if request.went_back:
            may_drop = epochs.may_drop_thinking(request.read)
            return await self._rewriting.begin_again(asked, request.session) if may_drop else None
        if request.is_last and request.began.attempt == 1 and request.branch.kind is not Kind.COMPACTION:
            return await self._rewriting.begin_epoch(asked, request.session)
        return None


def too_late(request: Request, first: First) -> tuple[Event, ...]:
    """What is recorded where the request did not wait: a branch that begins with it is never managed; any other stays
    as it is, and what is to become of it is decided with its next request.
    """
    return tuple(
        attrs.evolve(event, mode=Mode.OBSERVE, why="its first request could not wait for us", tool_budget=None)
        for event in first.events
        if isinstance(event, BranchModeSet) and request.begins_branch
    )


def _goes_on_from(request: Request) -> str:
    """The branch whose wire history the request goes on from."""
    opened = request.opened
    if opened is not None and opened.inherits and opened.parent is not None:
        return opened.parent
    return request.began.branch


def _continued(request: Request, prior: Wire, mode: Mode) -> WireHistory:
    kept = min(request.began.kept, len(prior.history.ends))
    hidden = memory_tools.NAMES if mode is Mode.MANAGE else frozenset()  # elsewhere the client sees all
    return upstream_history.continued(prior.history, kept, request.client()[kept:], hidden)
