"""What later decisions of a session need to know, and how each event changes it."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import assert_never

import attrs

from mnemosyne.domain import recipe
from mnemosyne.domain.identity import Speaker
from mnemosyne.domain.recipe import Recipe
from mnemosyne.domain.session_events import (
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


@attrs.frozen(order=True)
class Address:
    """Which attempt at which turn of which branch."""

    branch: str
    turn: int
    attempt: int


@attrs.frozen(kw_only=True)
class Branch:
    """One context window.

    ``chains`` are the chain hashes of the last turn's history; ``counts[t]`` is how many messages the request of turn
    t + 1 had, and ``attempts[t]`` how often it was sent (of an inherited turn, how often when this branch was opened:
    its owner goes on counting). ``body`` is the recipe of the last body sent, recorded by the event of version
    ``body_version``; 0 where there is none to build on. ``speaker`` is whoever spoke on it last.
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


def evolve(session: Session, event: Event) -> Session:
    """The session after an event."""
    session = attrs.evolve(session, version=session.version + 1)
    match event:
        case SessionStarted():
            return attrs.evolve(session, salt=event.salt)
        case BranchOpened():
            return _with_branch(session, _opened(session, event))
        case TurnBegan():
            branch = _after_turn(session, session.branches[event.branch], event)
            running = session.running | {Address(event.branch, event.turn, event.attempt)}
            return attrs.evolve(_with_branch(session, branch), running=running)
        case TurnFinished() | TurnInterrupted():
            return attrs.evolve(session, running=session.running - {Address(event.branch, event.turn, event.attempt)})
        case GapRecorded():
            return session
        case SessionForgotten():
            return attrs.evolve(session, branches={name: _bare(branch) for name, branch in session.branches.items()})
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
    )


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


def _body_of(session: Session, version: int) -> Recipe:
    for branch in session.branches.values():
        if version and branch.body_version == version:
            return branch.body
    return Recipe()


def _bare(branch: Branch) -> Branch:
    """The branch without a body: what was forgotten is not built on."""
    return attrs.evolve(branch, body=Recipe(), body_version=0)


def _with_branch(session: Session, branch: Branch) -> Session:
    return attrs.evolve(session, branches={**session.branches, branch.name: branch})
