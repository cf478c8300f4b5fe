"""What later decisions of a session need to know, and how each event changes it."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import assert_never

import attrs

from mnemosyne.domain.cost.prices import tokens_of
from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import ObjectEvent, TurnAssessed
from mnemosyne.domain.objects.faults import Departures
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.session import ledger
from mnemosyne.domain.session.events import (
    BranchOpened,
    Event,
    GapRecorded,
    Kind,
    SessionForgotten,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.domain.session.goal_events import BroughtJudged, GoalChanged, MemoryBrought
from mnemosyne.domain.session.ledger import Ledger
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.prefetches import Bringing
from mnemosyne.domain.session.round_events import BranchModeSet, EpochBegan, Mode, RoundBegan, RoundFinished
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.identity import Speaker
from mnemosyne.domain.wire.recipe import Recipe


@attrs.frozen(order=True)
class Address:
    """Which attempt at which turn of which branch."""

    branch: str
    turn: int
    attempt: int


@attrs.frozen(kw_only=True)
class Wire:
    """What a managed branch sent last: the recipe of that body, the version of the event that recorded it, and how many
    of its messages stand for each of the client's first messages. ``at`` is when that was.

    The client's first ``rewritten`` messages were rendered from its own, 0 if none in this ``epoch``, which began at
    the turn ``since`` (None for the first). ``hour`` says that system prompt and tools are held for an hour.
    """

    epoch: int
    ends: tuple[int, ...]
    body: Recipe
    body_version: int
    at: int = 0
    rewritten: int = 0
    since: int | None = None
    hour: bool = False


@attrs.frozen(kw_only=True)
class Branch:
    """One context window.

    ``chains`` are the chain hashes of the last turn's history; ``counts[t]`` is how many messages the request of turn
    t + 1 had, and ``attempts[t]`` how often it was sent (of an inherited turn, how often when this branch was opened:
    its owner goes on counting). ``body`` is the recipe of the last body sent, recorded by the event of version
    ``body_version``; 0 where there is none to build on. ``speaker`` is whoever spoke on it last. ``mode`` and
    ``tool_budget`` are as in BranchModeSet, ``decided`` says whether there was one.
    """

    name: str
    kind: Kind
    lane: str
    parent: str | None
    forked_at: int
    inherits: bool
    agent_id: str | None
    chains: tuple[bytes, ...] = ()
    counts: tuple[int, ...] = ()
    attempts: tuple[int, ...] = ()
    body: Recipe = attrs.field(factory=Recipe)
    body_version: int = 0
    speaker: Speaker | None = None
    mode: Mode = Mode.OBSERVE
    decided: bool = False
    tool_budget: int | None = None
    wire: Wire | None = None

    @property
    def turns(self) -> int:
        """The number of its last turn."""
        return len(self.counts)

    def shared(self, chains: tuple[bytes, ...]) -> int:
        """How many messages both histories begin with: equal chain hashes mean equal histories, so bisection finds
        it.
        """
        limit = min(len(self.chains), len(chains))
        return bisect_left(range(limit), True, key=lambda index: self.chains[index] != chains[index])


@attrs.frozen(kw_only=True)
class Session:
    """What later decisions need to know. ``version`` counts the events so far."""

    version: int = 0
    salt: bytes | None = None
    branches: Mapping[str, Branch] = attrs.field(factory=dict)
    running: frozenset[Address] = frozenset()
    memory: Memory = attrs.field(factory=Memory)
    departures: Departures = attrs.field(factory=Departures)
    ledger: Ledger = attrs.field(factory=Ledger)
    bringing: Bringing = attrs.field(factory=Bringing)


def evolve(session: Session, event: Event) -> Session:
    """The session after an event."""
    session = attrs.evolve(session, version=session.version + 1)
    if isinstance(event, ObjectEvent):
        departures = session.departures.after(event)
        return attrs.evolve(session, memory=memory.evolve(session.memory, event), departures=departures)
    match event:
        case SessionStarted():
            return attrs.evolve(session, salt=event.salt)
        case BranchOpened():
            opened = _with_branch(session, _opened(session, event))
            return attrs.evolve(
                opened,
                memory=_inherited(session, event),
                departures=_departed(session, event),
                ledger=_forked(session, event),
            )
        case TurnBegan():
            branch = _after_turn(session, session.branches[event.branch], event)
            running = session.running | {Address(event.branch, event.turn, event.attempt)}
            return attrs.evolve(_with_branch(session, branch), running=running)
        case TurnFinished() | TurnInterrupted():
            running = session.running - {Address(event.branch, event.turn, event.attempt)}
            return attrs.evolve(session, running=running, memory=_accounted(session, event))
        case TurnAssessed():
            messages = session.branches[event.branch].counts[event.turn - 1]
            return attrs.evolve(session, memory=memory.assessed(session.memory, event, messages))
        case TurnAccounted():
            return attrs.evolve(session, ledger=ledger.after(session.ledger, event))
        case GoalChanged() | MemoryBrought() | BroughtJudged():
            return attrs.evolve(session, bringing=session.bringing.after(event))
        case GapRecorded() | RoundFinished():
            return session
        case BranchModeSet():
            branch = attrs.evolve(session.branches[event.branch], mode=event.mode, tool_budget=event.tool_budget)
            return _with_branch(session, attrs.evolve(branch, decided=True))
        case EpochBegan():
            begun = _with_branch(session, _in_epoch(session.branches[event.branch], event))
            return attrs.evolve(begun, memory=memory.rewritten(session.memory, event.branch, event.freed))
        case RoundBegan():
            return _after_round(session, session.branches[event.branch], event)
        case SessionForgotten():
            bare = {name: _bare(branch) for name, branch in session.branches.items()}
            remembered = memory.forgotten(session.memory, event.at)
            return attrs.evolve(session, branches=bare, memory=remembered, bringing=Bringing())
        case _:
            assert_never(event)


def _opened(session: Session, event: BranchOpened) -> Branch:
    branch = Branch(
        name=event.branch,
        kind=event.kind,
        lane=event.lane,
        parent=event.parent,
        forked_at=event.forked_at,
        inherits=event.inherits,
        agent_id=event.agent_id,
    )
    parent = session.branches.get(event.parent or "")
    if parent is None or not event.inherits:
        return branch
    return attrs.evolve(
        branch,
        chains=parent.chains[: event.kept],
        counts=parent.counts[: event.forked_at],
        attempts=parent.attempts[: event.forked_at],
        mode=parent.mode,
        tool_budget=parent.tool_budget,
        wire=attrs.evolve(parent.wire, ends=parent.wire.ends[: event.kept]) if parent.wire else None,
    )


def _forked(session: Session, event: BranchOpened) -> Ledger:
    if event.parent is None or not event.inherits:
        return session.ledger
    return ledger.forked(session.ledger, event.branch, event.parent, event.kept)


def _inherited(session: Session, event: BranchOpened) -> Memory:
    if event.parent is not None and event.kind is Kind.SUCCESSOR:
        return memory.succeeded(session.memory, event.branch, event.parent)
    if event.parent is None or not event.inherits:
        return session.memory
    return memory.forked(session.memory, event.branch, event.parent, event.kept, event.forked_at)


def _departed(session: Session, event: BranchOpened) -> Departures:
    if event.parent is None or not event.inherits:
        return session.departures
    return session.departures.forked(event.branch, event.parent)


def _accounted(session: Session, event: TurnFinished | TurnInterrupted) -> Memory:
    used = tokens_of(event.usage)
    if used is None or not used.prompt:
        return session.memory
    wire = session.branches[event.branch].wire
    rewritten = wire is not None and wire.rewritten > 0
    return memory.accounted(session.memory, event.branch, event.turn, used.prompt, rewritten=rewritten)


def _after_turn(session: Session, branch: Branch, event: TurnBegan) -> Branch:
    before, after = branch.attempts[: event.turn - 1], branch.attempts[event.turn :]
    attempts = (*before, event.attempt, *after)
    branch = attrs.evolve(branch, attempts=attempts, speaker=event.speaker or branch.speaker)
    if event.turn < branch.turns:  # an earlier turn once more: the branch's own history stays as it is
        return branch
    return attrs.evolve(
        branch,
        chains=branch.chains[: event.kept] + event.chains,
        counts=(*branch.counts[: event.turn - 1], event.kept + len(event.chains)),
        body=recipe.apply(_body_of(session, event.base), recipe.decode(event.body)),
        body_version=session.version,
    )


def _after_round(session: Session, branch: Branch, event: RoundBegan) -> Session:
    if event.turn < branch.turns:  # an earlier turn once more: what goes on goes on from the last one
        return session
    before = branch.wire.ends[: event.kept] if branch.wire else ()
    body = recipe.apply(_body_of(session, event.base), recipe.decode(event.body))
    wire = branch.wire or Wire(epoch=event.epoch, ends=(), body=body, body_version=0)
    # An epoch that EpochBegan does not tell of: the turn began with all that its client says, or, in a later round, the
    # thinking left that the provider had refused.
    is_new = event.epoch > wire.epoch
    in_full = is_new and event.round == 1
    wire = attrs.evolve(
        wire,
        epoch=event.epoch,
        ends=before + event.ends,
        body=body,
        body_version=session.version,
        at=event.at,
        rewritten=0 if in_full else wire.rewritten,
        since=event.turn if is_new else wire.since,
    )
    session = _with_branch(session, attrs.evolve(branch, wire=wire))
    if not in_full:
        return session
    return attrs.evolve(
        session,
        memory=memory.sent_in_full(session.memory, branch.name),
        departures=session.departures.sent_in_full(branch.name),
    )


def _in_epoch(branch: Branch, event: EpochBegan) -> Branch:
    if branch.wire is None:
        return branch
    wire = attrs.evolve(branch.wire, epoch=event.epoch, rewritten=event.messages, since=event.turn, hour=event.hour)
    return attrs.evolve(branch, wire=wire)


def _body_of(session: Session, version: int) -> Recipe:
    for branch in session.branches.values():
        if version and branch.body_version == version:
            return branch.body
        if version and branch.wire is not None and branch.wire.body_version == version:
            return branch.wire.body
    return Recipe()


def _bare(branch: Branch) -> Branch:
    """The branch without a body: what was forgotten is not built on."""
    return attrs.evolve(branch, body=Recipe(), body_version=0, wire=None)


def _with_branch(session: Session, branch: Branch) -> Session:
    return attrs.evolve(session, branches={**session.branches, branch.name: branch})
