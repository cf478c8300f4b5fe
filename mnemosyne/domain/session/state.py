"""The state of a session for later decisions, and the fold of each event into it."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import partial, reduce
from itertools import groupby, takewhile
from typing import assert_never, get_args

import attrs

from mnemosyne.domain.cost.prices import Tokens, reports_cache, tokens_of, window_of
from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import ObjectCreated, ObjectEvent, ObjectFaulted, ObjectRestored, TurnAssessed
from mnemosyne.domain.objects.faults import EvictionTurns, RecallBudget
from mnemosyne.domain.objects.fidelity import Cause
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.protection import Sizing
from mnemosyne.domain.session import ledger, round_events
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.counted_sizes import ESTIMATED, CountedTurns, Scales, size_object
from mnemosyne.domain.session.events import (
    BranchKind,
    BranchOpened,
    CheckpointNamed,
    Event,
    EventLost,
    GapRecorded,
    SessionForgotten,
    SessionImported,
    SessionStarted,
    ToolsDeclared,
    ToolUse,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.domain.session.helper_results import (
    GOAL,
    SUMMARY,
    Goal,
    SessionSummary,
    apply_work,
    goal_after,
    summary_after,
)
from mnemosyne.domain.session.input_events import GroundsNoted, HelperAsked, HelperWorked, SettingsTaken
from mnemosyne.domain.session.ledger import Ledger
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.retired import BroughtJudged, GoalChanged, MemoryBrought
from mnemosyne.domain.session.tool_uses import MOST_USES
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.dialects import header_conversation
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.recipe import Recipe


@attrs.frozen(kw_only=True)
class Wire:
    """The body that a managed branch sent last: its recipe, the version of the event that recorded it, the time ``at``
    which it was sent, and ``ends`` as in RoundBegan.

    The client's first ``rewritten`` messages were rendered in this ``epoch``, 0 if none. The epoch began at the turn
    ``since`` (None for the first). With ``hour``, system prompt and tools are cached for an hour.
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
class Rounds:
    """The rounds of the last ``turn`` of a branch that had any, by attempt: the number of the last round that began,
    the finished rounds, and the objects that their answers restored. ``last`` is the attempt whose round finished last.
    """

    turn: int = 0
    began: Mapping[int, int] = attrs.field(factory=dict)
    finished: Mapping[int, tuple[round_events.RoundFinished, ...]] = attrs.field(factory=dict)
    restored: Mapping[int, tuple[ObjectRestored, ...]] = attrs.field(factory=dict)
    last: int = 0

    def after(self, event: round_events.RoundBegan | round_events.RoundFinished) -> "Rounds":
        """The rounds after one more began or finished. Rounds of a repeated earlier turn are ignored."""
        if event.turn < self.turn:
            return self
        known = self if event.turn == self.turn else Rounds(turn=event.turn)
        if isinstance(event, round_events.RoundBegan):
            return attrs.evolve(known, began={**known.began, event.attempt: event.round})
        finished = (*known.finished.get(event.attempt, ()), event)
        return attrs.evolve(known, finished={**known.finished, event.attempt: finished}, last=event.attempt)

    def restore(self, event: ObjectRestored) -> "Rounds":
        """The rounds after an object was restored; a restore by a page fault belongs to the last finished round."""
        if event.cause is not Cause.FAULT or event.turn != self.turn:
            return self
        restored = (*self.restored.get(self.last, ()), event)
        return attrs.evolve(self, restored={**self.restored, self.last: restored})

    def open_of(self, turn: int, attempt: int) -> int | None:
        """The last round that began in an attempt, if it has not finished."""
        began = self.began.get(attempt, 0) if turn == self.turn else 0
        return began if began == len(self.finished.get(attempt, ())) + 1 else None

    def was_refused(self, attempt: int) -> bool:
        """Whether the provider refused the last finished round of an attempt."""
        return any(_is_refused(each) for each in self.finished.get(attempt, ())[-1:])

    def count_refused(self, attempt: int) -> int:
        """The number of rounds of an attempt that the provider refused before it accepted one."""
        return len(list(takewhile(_is_refused, self.finished.get(attempt, ()))))

    def find_budget(self, turn: int, attempt: int) -> RecallBudget:
        """The recall budget as the rounds of an attempt have used it so far, with the default limits."""
        last = self.finished.get(attempt, ())[-1:] if turn == self.turn else ()
        return RecallBudget(last[0].faults, last[0].tokens) if last else RecallBudget()


def _is_refused(finished: round_events.RoundFinished) -> bool:
    return not finished.usage and not finished.stop_reason


@attrs.frozen(kw_only=True)
class SentRequest:
    """A request that the proxy sent at ``at``; the event of this ``version`` recorded its body. ``usage`` is the usage
    of its reply, None until it is known; ``reports_cache`` is true if that includes cache reads or writes.
    """

    at: int
    version: int
    usage: Tokens | None = None
    reports_cache: bool = True


@attrs.frozen(kw_only=True)
class OpenAttempt:
    """An attempt at a turn that is not accounted yet: the client's ``request``, the ``rounds`` that the proxy sent
    instead, if any, and the event with which it ``ended``. ``before`` are the versions of the events that recorded the
    previous body of the client and the one sent last, 0 if there is none.
    """

    model: str | None
    request: SentRequest
    rounds: tuple[SentRequest, ...] = ()
    ended: TurnFinished | TurnInterrupted | None = None
    before: tuple[int, int] = (0, 0)


@attrs.frozen(kw_only=True)
class Branch:
    """One context window.

    ``chains`` are the chain hashes of the last turn's history; ``counts[t]`` is the number of messages in the request
    of turn t + 1, and ``attempts[t]`` the number of attempts at it (for an inherited turn, the number when this branch
    was opened: its owner continues to count). ``body`` is the recipe of the client's last body, recorded by the event
    of version ``body_version``, 0 if there is none; that of ``sent_version`` recorded the last body sent upstream.
    ``client_headers`` holds the headers of its last client. ``mode``,
    ``tool_budget``, ``late`` and ``behind`` are as in BranchModeSet; ``decided``: there was one. ``began`` is the
    event with which its last turn began, without body and chains; ``replies`` are the stored replies to this turn, by
    attempt. ``exchanges`` are the attempts at its last turns that are running, or not accounted yet. ``told`` is the
    cross-session knowledge that was inserted into it, ``goal`` what its user wants, by a helper model. ``taken`` are
    the settings of its last turn for which the proxy composed a request.
    """

    name: str
    kind: BranchKind
    conversation: str
    parent: str | None
    forked_at: int
    inherits: bool
    agent_id: str | None
    chains: tuple[bytes, ...] = ()
    counts: tuple[int, ...] = ()
    attempts: tuple[int, ...] = ()
    body: Recipe = attrs.field(factory=Recipe)
    body_version: int = 0
    sent_version: int = 0
    client_headers: ClientHeaders | None = None
    mode: round_events.Mode = round_events.Mode.OBSERVE
    decided: bool = False
    tool_budget: int | None = None
    late: bool = False
    behind: bool = False
    wire: Wire | None = None
    rounds: Rounds = attrs.field(factory=Rounds)
    began: TurnBegan | None = None
    replies: Mapping[int, bytes] = attrs.field(factory=dict)
    exchanges: Mapping[Address, OpenAttempt] = attrs.field(factory=dict)
    told: round_events.KnowledgeTold | None = None
    goal: Goal | None = None
    taken: SettingsTaken | None = None

    @property
    def is_interactive(self) -> bool:
        """Whether the user's conversation may continue in it; never true of a sub-agent's branch."""
        return self.kind.is_interactive and self.agent_id is None

    @property
    def turns(self) -> int:
        """The number of its last turn."""
        return len(self.counts)

    @property
    def header_conversation(self) -> str:
        """The conversation that the headers of its requests name."""
        return header_conversation(self.conversation, self.agent_id)

    def count_shared(self, chains: tuple[bytes, ...]) -> int:
        """The number of messages in the common prefix: equal chain hashes mean equal histories, so bisection works."""
        limit = min(len(self.chains), len(chains))
        return bisect_left(range(limit), True, key=lambda index: self.chains[index] != chains[index])


@attrs.frozen(kw_only=True)
class Session:
    """The state for later decisions. ``version`` counts the events so far; ``switched`` is whether managing was
    switched on or off, None if neither. ``taken`` are the settings with which its last managed request was decided;
    None if the log does not say. ``checkpoints`` are branch and turn by the name that a person gave them.
    ``stated_windows`` holds, by model, the last event that states its window. ``summary`` is the last one by a helper
    model. ``tool_uses`` are the latest declared uses of tools by call. ``title`` is a person's name for it, empty if
    it has none.
    """

    version: int = 0
    salt: bytes | None = None
    branches: Mapping[str, Branch] = attrs.field(factory=dict)
    running: frozenset[Address] = frozenset()
    switched: bool | None = None
    trashed: bool = False
    title: str = ""
    closed: bool = False
    grounding: str = ""
    memory: Memory = attrs.field(factory=Memory)
    eviction_turns: EvictionTurns = attrs.field(factory=EvictionTurns)
    ledger: Ledger = attrs.field(factory=Ledger)
    checkpoints: Mapping[str, tuple[str, int]] = attrs.field(factory=dict)
    taken: SettingsTaken | None = None
    counted_turns: CountedTurns = attrs.field(factory=CountedTurns)
    stated_windows: Mapping[str | None, round_events.WindowStated] = attrs.field(factory=dict)
    summary: SessionSummary | None = None
    tool_uses: Mapping[str, ToolUse] = attrs.field(factory=dict)

    @property
    def off(self) -> bool:
        """Whether managing was switched off."""
        return self.switched is False

    @property
    def size(self) -> Sizing:
        """Returns an object with the sizes that people see, scaled to the provider's counts."""
        return partial(size_object, scales=self.counted_turns.find_scales())

    @property
    def stated_scales(self) -> Scales:
        """The scales of the sizes in memory tool results: those that people see, unless the settings are older."""
        counted = self.taken is not None and self.taken.counted
        return self.counted_turns.find_scales() if counted else ESTIMATED

    def find_taken(self, branch: str) -> SettingsTaken | None:
        """The settings for the later decisions of a branch's last turn: those that it began with, whatever requests of
        other branches choose meanwhile. None if the log does not say.
        """
        known = self.branches.get(branch)
        return self.taken if known is None else known.taken or self.taken

    def find_stated_window(self, model: str | None) -> int | None:
        """The window of a model in tokens, as the provider stated it; None if it did not."""
        stated = self.stated_windows.get(model)
        return None if stated is None else stated.window


def evolve_all(session: Session, events: Iterable[Event]) -> Session:
    """The session after several events, in order."""
    for are_new, group in groupby(events, lambda event: isinstance(event, ObjectCreated)):
        session = _add_objects(session, group) if are_new else reduce(evolve, group, session)  # noqa: B031
    return session


def _add_objects(session: Session, events: Iterable[Event]) -> Session:
    """The session after several objects were created. If objects are evicted, each new one may be a refetch."""
    created = [event for event in events if isinstance(event, ObjectCreated)]
    if any(session.memory.view_of(event.branch).fidelity for event in created):
        return reduce(evolve, created, session)
    now = attrs.evolve(session, version=session.version + len(created), memory=memory.add_all(session.memory, created))
    return reduce(_judge_goal, created, now)


REMEMBERED: tuple[type[Event], ...] = (*get_args(ObjectEvent), BranchOpened, SessionForgotten)
"""The events that change the set of objects, and the set of each branch."""


def evolve_objects(held: Memory, event: Event) -> Memory:
    """The memory after one of the events in ``REMEMBERED``. These are enough to know the objects of the
    session and of each branch; fidelities and prompt sizes need all events.
    """
    match event:
        case BranchOpened():
            return _inherit(held, event)
        case SessionForgotten():
            return memory.forget(held)
        case _:
            assert isinstance(event, ObjectEvent)
            return memory.evolve(held, event)


def evolve(session: Session, event: Event) -> Session:
    """The session after an event."""
    session = attrs.evolve(session, version=session.version + 1)
    if isinstance(event, ObjectEvent):
        eviction_turns = session.eviction_turns.after(event, session.memory)
        evolved = attrs.evolve(session, memory=evolve_objects(session.memory, event), eviction_turns=eviction_turns)
        evolved = _judge_goal(evolved, event) if isinstance(event, _JUDGING) else evolved
        return _add_restored(evolved, event) if isinstance(event, ObjectRestored) else evolved
    match event:
        case SessionStarted():
            return attrs.evolve(session, salt=event.salt)
        case BranchOpened():
            opened = _with_branch(session, _open_branch(session, event))
            return attrs.evolve(
                opened,
                memory=evolve_objects(session.memory, event),
                eviction_turns=_fork_evictions(session, event),
                ledger=_fork_ledger(session, event),
            )
        case TurnBegan():
            branch = _after_turn(session, session.branches[event.branch], event)
            address = event.address
            begun = _with_branch(session, attrs.evolve(branch, exchanges=_begin_exchange(session, branch, event)))
            return attrs.evolve(begun, running=session.running | {address}, trashed=False, closed=False)
        case TurnFinished() | TurnInterrupted():
            address = event.address
            ended = attrs.evolve(
                session,
                running=session.running - {address},
                closed=False,
                memory=_account(session, event),
                counted_turns=session.counted_turns.after(event),
            )
            return _end_exchange(ended, address, event)
        case TurnAssessed():
            messages = session.branches[event.branch].counts[event.turn - 1]
            assessed = memory.assess(session.memory, event, messages)
            return attrs.evolve(session, memory=assessed, counted_turns=session.counted_turns.after(event))
        case TurnAccounted():
            accounted = _with_exchange(session, event.address, None)
            return attrs.evolve(accounted, ledger=ledger.after(session.ledger, event))
        case ToolsDeclared():
            uses = {**session.tool_uses, **{use.call: use for use in event.uses}}
            return attrs.evolve(session, tool_uses=dict([*uses.items()][-MOST_USES:]))
        case GapRecorded() | round_events.WindowFilled() | SessionImported() | EventLost():
            return session
        case GoalChanged() | MemoryBrought() | BroughtJudged() | GroundsNoted() | HelperAsked():
            return session
        case CheckpointNamed():
            named = {**session.checkpoints, event.name: (event.branch, event.turn)}
            return attrs.evolve(session, checkpoints=named)
        case HelperWorked():
            return _use_help(session, event)
        case SettingsTaken():
            return attrs.evolve(session, taken=event)
        case round_events.ManagingSwitched():
            # Switched on after off, it is as if neither had happened.
            return attrs.evolve(session, switched=None if event.on and session.off else event.on)
        case round_events.SessionTrashed():
            return attrs.evolve(session, trashed=event.trashed)
        case round_events.SessionEdited():
            changes = {name: getattr(event, name) for name in ("title", "closed", "grounding")}
            return attrs.evolve(session, **{name: each for name, each in changes.items() if each is not None})
        case round_events.WindowStated():
            return attrs.evolve(session, stated_windows={**session.stated_windows, event.model: event})
        case round_events.FallbackSent():
            return _send_round(session, event)
        case round_events.RoundFinished():
            branch = session.branches[event.branch]
            known = _with_branch(session, attrs.evolve(branch, rounds=branch.rounds.after(event)))
            return _use_round(known, event)
        case round_events.BranchModeSet():
            return _with_branch(session, _set_mode(session.branches[event.branch], event))
        case round_events.KnowledgeTold():
            return _with_branch(session, attrs.evolve(session.branches[event.branch], told=event))
        case round_events.EpochBegan():
            begun = _with_branch(session, _in_epoch(session.branches[event.branch], event))
            return attrs.evolve(begun, memory=memory.rewrite(session.memory, event.branch, event.freed))
        case round_events.RoundBegan():
            branch = session.branches[event.branch]
            branch = attrs.evolve(branch, rounds=branch.rounds.after(event))
            sent = _send_round(_with_branch(session, branch), event)
            return _after_round(sent, sent.branches[event.branch], event)
        case SessionForgotten():
            bare = {name: _bare(branch) for name, branch in session.branches.items()}
            remembered = evolve_objects(session.memory, event)
            emptied = attrs.evolve(session, branches=bare, memory=remembered, trashed=False, title="")
            return attrs.evolve(emptied, checkpoints={}, summary=None, tool_uses={})
        case _:
            assert_never(event)


def _open_branch(session: Session, event: BranchOpened) -> Branch:
    branch = Branch(
        name=event.branch,
        kind=event.kind,
        conversation=event.lane,
        parent=event.parent,
        forked_at=event.forked_at,
        inherits=event.inherits,
        agent_id=event.agent_id,
    )
    parent = session.branches.get(event.parent or "")
    if parent is None or not event.inherits:
        return branch
    # A fork at the end of its parent's wire history continues from the replies of the parent's rounds, too.
    shows_reply = parent.wire is not None and event.kept >= len(parent.wire.ends)
    return attrs.evolve(
        branch,
        chains=parent.chains[: event.kept],
        counts=parent.counts[: event.forked_at],
        attempts=parent.attempts[: event.forked_at],
        mode=parent.mode,
        tool_budget=parent.tool_budget,
        late=parent.late,
        behind=parent.behind,
        wire=attrs.evolve(parent.wire, ends=parent.wire.ends[: event.kept]) if parent.wire else None,
        rounds=parent.rounds if shows_reply else Rounds(),
        told=parent.told if parent.told is not None and parent.told.message < event.kept else None,
        goal=None if parent.goal is None else attrs.evolve(parent.goal, needed=(), placed={}),
    )


def _fork_ledger(session: Session, event: BranchOpened) -> Ledger:
    if event.parent is not None and event.kind is BranchKind.SUCCESSOR:
        return ledger.compact(session.ledger, event.parent)
    if event.parent is None or not event.inherits:
        return session.ledger
    return ledger.fork(session.ledger, event.branch, event.parent, event.kept)


def _inherit(held: Memory, event: BranchOpened) -> Memory:
    if event.parent is not None and event.kind is BranchKind.SUCCESSOR:
        return memory.succeed(held, event.branch, event.parent)
    if event.parent is None or not event.inherits:
        return held
    return memory.fork(held, event.branch, event.parent, event.kept, event.forked_at)


def _fork_evictions(session: Session, event: BranchOpened) -> EvictionTurns:
    if event.parent is None or not event.inherits:
        return session.eviction_turns
    return session.eviction_turns.fork(event.branch, event.parent)


def _account(session: Session, event: TurnFinished | TurnInterrupted) -> Memory:
    used = window_of(event.usage)
    if used is None or not used.prompt:
        return session.memory
    wire = session.branches[event.branch].wire
    rewritten = wire is not None and wire.rewritten > 0
    return memory.account(session.memory, event.branch, event.turn, used.prompt, rewritten=rewritten)


def _after_turn(session: Session, branch: Branch, event: TurnBegan) -> Branch:
    before, after = branch.attempts[: event.turn - 1], branch.attempts[event.turn :]
    attempts = (*before, event.attempt, *after)
    branch = attrs.evolve(branch, attempts=attempts, client_headers=event.speaker or branch.client_headers)
    if event.turn < branch.turns:  # a repeated earlier turn does not change the branch's history
        return branch
    return attrs.evolve(
        branch,
        began=attrs.evolve(event, body=b"", chains=()),
        replies=branch.replies if event.turn == branch.turns else {},
        chains=branch.chains[: event.kept] + event.chains,
        counts=(*branch.counts[: event.turn - 1], event.kept + len(event.chains)),
        body=recipe.apply(_body_of(session, event.base), recipe.decode(event.body)),
        body_version=session.version,
        sent_version=session.version,
    )


OVERLAPPING = 8
"""Number of turns after which an attempt that has not ended never will: its server was killed."""


def _begin_exchange(session: Session, branch: Branch, event: TurnBegan) -> Mapping[Address, OpenAttempt]:
    """The exchanges after a turn began. An earlier attempt that ended and is not accounted yet never will be."""
    known = {
        address: exchange
        for address, exchange in branch.exchanges.items()
        if address.turn == event.turn or (exchange.ended is None and address.turn > event.turn - OVERLAPPING)
    }
    if not branch.kind.is_agent_context:
        return known
    request = SentRequest(at=event.at, version=session.version)
    last = session.branches[branch.name]
    last = last if last.body_version else session.branches.get(branch.parent or "", last)
    before = last.body_version, last.sent_version
    return {**known, event.address: OpenAttempt(model=event.model, request=request, before=before)}


def _send_round(session: Session, event: round_events.RoundBegan | round_events.FallbackSent) -> Session:
    address = event.address
    branch = session.branches[address.branch]
    exchange = branch.exchanges.get(address)
    if exchange is None:
        return session
    if address.turn == branch.turns:
        session = _with_branch(session, attrs.evolve(branch, sent_version=session.version))
    was_refused = branch.rounds.turn == address.turn and branch.rounds.was_refused(address.attempt)
    billed = exchange.rounds[:-1] if was_refused else exchange.rounds
    rounds = (*billed, SentRequest(at=event.at, version=session.version))
    return _with_exchange(session, address, attrs.evolve(exchange, rounds=rounds))


def _add_restored(session: Session, event: ObjectRestored) -> Session:
    branch = session.branches[event.branch]
    return _with_branch(session, attrs.evolve(branch, rounds=branch.rounds.restore(event)))


_JUDGING = ObjectCreated | ObjectRestored | ObjectFaulted


def _judge_goal(session: Session, event: ObjectCreated | ObjectRestored | ObjectFaulted) -> Session:
    branch = session.branches.get(event.branch)
    if branch is None or branch.goal is None or (goal := branch.goal.after(event)) is branch.goal:
        return session
    return _with_branch(session, attrs.evolve(branch, goal=goal))


def _use_help(session: Session, event: HelperWorked) -> Session:
    branch = session.branches.get(event.branch or "")
    if event.task == GOAL and branch is not None:
        return _with_branch(session, attrs.evolve(branch, goal=goal_after(branch.goal, event)))
    if event.task == SUMMARY:
        return attrs.evolve(session, summary=summary_after(session.summary, event))
    return attrs.evolve(session, memory=apply_work(session.memory, event))


def _use_round(session: Session, event: round_events.RoundFinished) -> Session:
    address = event.address
    exchange = session.branches[address.branch].exchanges.get(address)
    if exchange is None or not exchange.rounds:
        return session
    *before, last = exchange.rounds
    used = attrs.evolve(last, usage=tokens_of(event.usage), reports_cache=reports_cache(event.usage))
    return _with_exchange(session, address, attrs.evolve(exchange, rounds=(*before, used)))


def _end_exchange(session: Session, address: Address, event: TurnFinished | TurnInterrupted) -> Session:
    branch = session.branches[address.branch]
    if event.reply is not None and event.turn == branch.turns:
        branch = attrs.evolve(branch, replies={**branch.replies, event.attempt: event.reply})
        session = _with_branch(session, branch)
    exchange = session.branches[address.branch].exchanges.get(address)
    if exchange is None:
        return session
    billed = tokens_of(event.usage) is not None or any(each.usage is not None for each in exchange.rounds)
    if is_failed(event) and not billed:
        return _with_exchange(session, address, None)
    return _with_exchange(session, address, attrs.evolve(exchange, ended=event))


def is_failed(event: TurnFinished | TurnInterrupted) -> bool:
    """Whether an attempt got no whole reply: only the part that the provider counted is billed."""
    return isinstance(event, TurnInterrupted) or event.status != 200 or event.error_type is not None


def _with_exchange(session: Session, address: Address, exchange: OpenAttempt | None) -> Session:
    """The session with an exchange replaced, or removed for None."""
    branch = session.branches[address.branch]
    others = {key: other for key, other in branch.exchanges.items() if key != address}
    exchanges = others if exchange is None else {**others, address: exchange}
    return _with_branch(session, attrs.evolve(branch, exchanges=exchanges))


def _after_round(session: Session, branch: Branch, event: round_events.RoundBegan) -> Session:
    if event.turn < branch.turns:  # a repeated earlier turn: the branch continues from its last one
        return session
    before = branch.wire.ends[: event.kept] if branch.wire else ()
    body = recipe.apply(_body_of(session, event.base), recipe.decode(event.body))
    wire = branch.wire or Wire(epoch=event.epoch, ends=(), body=body, body_version=0)
    # An epoch without EpochBegan: the turn began with the client's whole history, or, in a later round, the proxy
    # removed thinking that the provider had refused.
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
    taken = session.taken if event.round == 1 else branch.taken
    session = _with_branch(session, attrs.evolve(branch, wire=wire, taken=taken))
    if not in_full:
        return session
    return attrs.evolve(
        session,
        memory=memory.show_in_full(session.memory, branch.name),
        eviction_turns=session.eviction_turns.clear(branch.name),
    )


def _set_mode(branch: Branch, event: round_events.BranchModeSet) -> Branch:
    """The branch in a new mode. A branch that waited for its memory tools continues from its client's own request."""
    begins = event.late and event.mode is round_events.Mode.MANAGE is not branch.mode
    return attrs.evolve(
        branch,
        mode=event.mode,
        tool_budget=event.tool_budget,
        late=event.late,
        behind=event.behind,
        decided=True,
        wire=Wire(epoch=0, ends=(), body=branch.body, body_version=branch.body_version) if begins else branch.wire,
    )


def _in_epoch(branch: Branch, event: round_events.EpochBegan) -> Branch:
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
    """The branch without bodies: later changes cannot refer to forgotten content."""
    return attrs.evolve(
        branch,
        body=Recipe(),
        body_version=0,
        sent_version=0,
        wire=None,
        rounds=Rounds(),
        replies={},
        exchanges={},
        told=None,
        goal=None,
    )


def _with_branch(session: Session, branch: Branch) -> Session:
    return attrs.evolve(session, branches={**session.branches, branch.name: branch})
