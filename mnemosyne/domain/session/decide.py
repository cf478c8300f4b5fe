"""AGGREGATE: one client session, its branches and their turns.

A **branch** is one context window: the main agent, a sub-agent, a side call, a rewind. A **turn** is one client
request and its reply; the same request sent again is another **attempt** at the turn. Turns of a branch count from 1;
a fork continues the count of the branch that it left.

A request belongs to the branch of its lane whose history is its longest prefix: it goes on from the last turn,
repeats a turn, or forks where it diverges, or where it goes on under another name or as another agent. Histories are
compared as chains: a chain hash stands for a message and all before it.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, assert_never
from uuid import UUID

import attrs

from mnemosyne.domain.objects.decide import Degrade, Restore, decide_all
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.faults import Spent
from mnemosyne.domain.objects.fidelity import Cause
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import (
    BranchKind,
    BranchOpened,
    CheckpointNamed,
    Event,
    GapRecorded,
    SessionForgotten,
    SessionImported,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
    TurnRelation,
)
from mnemosyne.domain.session.round_events import (
    Answered,
    BranchModeSet,
    EpochBegan,
    FallbackSent,
    KnowledgeTold,
    ManagingSwitched,
    Mode,
    RoundBegan,
    RoundFinished,
    WindowFilled,
    WindowStated,
)
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.wire.dialects import is_side
from mnemosyne.domain.wire.identity import Caller, ClientHeaders, RequestKind
from mnemosyne.domain.wire.normal_form import Echo

CHAIN_BYTES = 16
"""How much of a chain hash is kept: enough that two histories of one session never meet by chance."""

# Commands


@attrs.frozen(kw_only=True)
class Gap:
    """Turns that went through unrecorded since a time, and why."""

    since: int
    turns: int
    reason: str


@attrs.frozen(kw_only=True)
class BeginTurn:
    """A request arrived. ``chains`` are those of its messages; ``body`` is the change on the last body of the branch
    ``base``; ``gap`` tells of turns before it that were not recorded; ``speaker`` is what the headers alone say.
    ``known`` are the branches whose history the caller has shown to know, None for all of them.
    """

    at: int
    tenant: str
    external_id: str
    salt: bytes
    speaker: ClientHeaders
    caller: Caller
    chains: tuple[bytes, ...]
    base: str | None
    body: bytes
    size: int
    sha256: bytes
    stored_sha256: bytes | None
    model: str | None
    stream: bool
    echo: Echo | None
    echoed_attempt: int | None
    opaque: str | None
    gap: Gap | None = None
    known: frozenset[str] | None = None


@attrs.frozen(kw_only=True)
class FinishTurn:
    """The reply is whole."""

    at: int
    address: Address
    status: int
    reply: bytes
    message_id: str | None
    model: str | None
    stop_reason: str | None
    error_type: str | None
    usage: Mapping[str, Any]
    limits: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class InterruptTurn:
    """There will be no whole reply."""

    at: int
    address: Address
    status: int | None
    reply: bytes | None
    reason: str
    usage: Mapping[str, Any]
    limits: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ForgetSession:
    """Erase the content."""

    at: int


@attrs.frozen(kw_only=True)
class SwitchManaging:
    """Nothing of the session is to be managed any longer; or, ``on``, what begins from now on may be."""

    at: int
    on: bool
    why: str


@attrs.frozen(kw_only=True)
class NoteImport:
    """A session is brought in from a file. Noted in the operator's stream."""

    at: int
    session: UUID


@attrs.frozen(kw_only=True)
class NameCheckpoint:
    """A person gives a turn that was taken a name which no other turn has."""

    at: int
    name: str
    branch: str
    turn: int


@attrs.frozen(kw_only=True)
class SetMode:
    """From here on a branch sends this upstream. ``tool_budget`` and ``late`` as in BranchModeSet."""

    at: int
    branch: str
    mode: Mode
    why: str
    tool_budget: int | None = None
    late: bool = False


@attrs.frozen(kw_only=True)
class RecordKnowledge:
    """What is known beyond sessions is told as a branch begins. The fields are those of KnowledgeTold."""

    at: int
    branch: str
    turn: int
    message: int
    text: str
    entries: tuple[str, ...]
    tokens: int


@attrs.frozen(kw_only=True)
class BeginEpoch:
    """What a branch sends is rewritten with this request. The fields are those of EpochBegan."""

    at: int
    branch: str
    turn: int
    epoch: int
    messages: int
    reason: str
    freed: int
    price: int
    payback: int | None
    hour: bool


@attrs.frozen(kw_only=True)
class NoteFilled:
    """A request leaves that fills its window. The fields are those of WindowFilled."""

    at: int
    branch: str
    turn: int
    window: int
    tokens: int
    fixed: int
    new: int
    why: str


@attrs.frozen(kw_only=True)
class NoteStated:
    """The provider refused a prompt and stated the window of its model. The fields are those of WindowStated."""

    at: int
    address: Address
    model: str | None
    window: int
    tokens: int | None


@attrs.frozen(kw_only=True)
class BeginRound:
    """A request leaves for the provider that is not the client's own. ``body`` is the change on the last body of the
    branch that left so, or else on the client's last one; ``ends`` are all of its history's.
    """

    at: int
    address: Address
    round: int
    epoch: int
    body: bytes
    size: int
    sha256: bytes
    stored_sha256: bytes | None
    ends: tuple[int, ...]


@attrs.frozen(kw_only=True)
class FinishRound:
    """The reply to a round is whole. ``spent`` is what the model has had back in this turn, its answers included."""

    at: int
    address: Address
    round: int
    reply: bytes
    model: str | None
    stop_reason: str | None
    usage: Mapping[str, Any]
    answers: tuple[Answered, ...]
    spent: Spent


@attrs.frozen(kw_only=True)
class SendFallback:
    """A request left that is neither the client's own nor what its branch goes on from. ``body`` is the change on the
    client's own, which the event of version ``base`` recorded.
    """

    at: int
    address: Address
    base: int
    body: bytes
    size: int
    sha256: bytes
    stored_sha256: bytes | None
    why: str


Command = (
    BeginTurn
    | FinishTurn
    | InterruptTurn
    | ForgetSession
    | SwitchManaging
    | NoteImport
    | NameCheckpoint
    | SetMode
    | RecordKnowledge
    | BeginEpoch
    | NoteFilled
    | NoteStated
    | BeginRound
    | FinishRound
    | SendFallback
)

# Decisions


def decide(command: Command, session: Session) -> tuple[Event, ...]:
    """What happens on a command."""
    match command:
        case BeginTurn():
            return _begin(command, session)
        case FinishTurn() | InterruptTurn() if command.address not in session.running:
            return ()  # it has ended already, and the first account stands; or it never began
        case FinishTurn():
            return (TurnFinished(**_fields_of(command)),)
        case InterruptTurn():
            return (TurnInterrupted(**_fields_of(command)),)
        case ForgetSession():
            return (SessionForgotten(at=command.at),) if session.version else ()
        case SwitchManaging():
            return (ManagingSwitched(**_fields(command)),) if session.off is command.on else ()
        case NoteImport():
            return (SessionImported(**_fields(command)),)
        case NameCheckpoint():
            is_so = session.checkpoints.get(command.name) == (command.branch, command.turn)
            return () if is_so else (CheckpointNamed(**_fields(command)),)
        case SetMode():
            return (BranchModeSet(**_fields(command)),)
        case RecordKnowledge():
            return (KnowledgeTold(**_fields(command)),)
        case BeginEpoch():
            return (EpochBegan(**_fields(command)),)
        case NoteFilled():
            return (WindowFilled(**_fields(command)),)
        case NoteStated():
            return (WindowStated(**_fields_of(command)),)
        case BeginRound():
            return (_begin_round(command, session),)
        case FinishRound():
            return _finish_round(command, session)
        case SendFallback():
            return (FallbackSent(**_fields_of(command)),)
        case _:
            assert_never(command)


def _fields(
    command: SwitchManaging | NoteImport | NameCheckpoint | SetMode | RecordKnowledge | BeginEpoch | NoteFilled,
) -> dict[str, Any]:
    return attrs.asdict(command, recurse=False)


def _fields_of(command: FinishTurn | InterruptTurn | NoteStated | SendFallback) -> dict[str, Any]:
    fields = attrs.asdict(command, recurse=False)
    return attrs.asdict(fields.pop("address")) | fields


def _begin_round(command: BeginRound, session: Session) -> RoundBegan:
    branch = session.branches[command.address.branch]
    before = branch.wire.ends if branch.wire is not None else ()
    kept = common_prefix(before, command.ends)
    return RoundBegan(
        at=command.at,
        **attrs.asdict(command.address),
        round=command.round,
        epoch=command.epoch,
        base=branch.wire.body_version if branch.wire is not None else branch.body_version,
        body=command.body,
        size=command.size,
        sha256=command.sha256,
        stored_sha256=command.stored_sha256,
        kept=kept,
        ends=command.ends[kept:],
    )


def _finish_round(command: FinishRound, session: Session) -> tuple[RoundFinished, ...]:
    address, rounds = command.address, session.branches[command.address.branch].rounds
    if rounds.turn == address.turn and rounds.open_of(address.turn, address.attempt) != command.round:
        return ()  # it has finished already, and the first account stands; or it never began
    return (
        RoundFinished(
            at=command.at,
            **attrs.asdict(address),
            round=command.round,
            reply=command.reply,
            model=command.model,
            stop_reason=command.stop_reason,
            usage=command.usage,
            answers=command.answers,
            faults=command.spent.faults,
            tokens=command.spent.tokens,
        ),
    )


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many numbers both begin with."""
    length = min(len(one), len(other))
    return next((index for index in range(length) if one[index] != other[index]), length)


@attrs.frozen
class _Place:
    """Where a request belongs; ``opened`` is the branch that has to be opened for it."""

    address: Address
    relation: TurnRelation
    kept: int = 0
    opened: BranchOpened | None = None


def _begin(command: BeginTurn, session: Session) -> tuple[Event, ...]:
    place = _place(command, session)
    events: list[Event] = []
    if session.salt is None:
        events.append(_start_session(command))
    if command.gap is not None:
        events.append(GapRecorded(at=command.at, **attrs.asdict(command.gap)))
    if place.opened is not None:
        events.append(place.opened)
    else:
        events.extend(_settle_attempts(command, place, session))
    return (*events, _begin_turn(command, place, session))


def _settle_attempts(command: BeginTurn, place: _Place, session: Session) -> tuple[ObjectEvent, ...]:
    """What a branch shows once its last turn is tried again, or is gone on from after several attempts: what the
    answers of one attempt brought back is nowhere in another.
    """
    branch = session.branches[place.address.branch]
    goes_on = place.relation is TurnRelation.CONTINUES
    rounds = branch.rounds
    is_earlier = not goes_on and place.address.turn < branch.turns
    if is_earlier or rounds.turn != branch.turns or (goes_on and branch.attempts[-1] == 1):
        return ()
    stands = rounds.restored.get(command.echoed_attempt or 0, ()) if goes_on else ()
    gone = [each for restored in rounds.restored.values() for each in restored if each not in stands]
    shown = {each.object for each in session.memory.view_of(branch.name).restored}
    where = _Where(at=command.at, branch=branch.name, turn=place.address.turn, cause=Cause.ATTEMPT)
    away = [Degrade(object=each.object, after=each.before, **where) for each in reversed(gone) if each.object in shown]
    back = [Restore(object=each.object, after=each.after, **where) for each in stands if each.object not in shown]
    events, _ = decide_all([*away, *back], session.memory)
    return events


class _Where(TypedDict):
    at: int
    branch: str
    turn: int
    cause: Cause


def _start_session(command: BeginTurn) -> SessionStarted:
    return SessionStarted(
        at=command.at,
        tenant=command.tenant,
        external_id=command.external_id,
        client=command.caller.client,
        client_version=command.caller.version,
        salt=command.salt,
    )


def _begin_turn(command: BeginTurn, place: _Place, session: Session) -> TurnBegan:
    return TurnBegan(
        at=command.at,
        branch=place.address.branch,
        turn=place.address.turn,
        attempt=place.address.attempt,
        relation=place.relation,
        model=command.model,
        stream=command.stream,
        base=session.branches[command.base].body_version if command.base else 0,
        body=command.body,
        size=command.size,
        sha256=command.sha256,
        stored_sha256=command.stored_sha256,
        kept=place.kept,
        chains=command.chains[place.kept :],
        echo=command.echo,
        echoed_attempt=command.echoed_attempt,
        opaque=command.opaque,
        speaker=_speaker(command, place, session),
    )


def _speaker(command: BeginTurn, place: _Place, session: Session) -> ClientHeaders | None:
    """Who speaks, if it is not whoever spoke on the branch before."""
    branch = session.branches.get(place.address.branch)
    return None if branch is not None and branch.speaker == command.speaker else command.speaker


def _place(command: BeginTurn, session: Session) -> _Place:
    if not command.chains:
        return _place_opaque(command, session)
    nearest = nearest_branch(session, command.caller.lane, command.chains, command.speaker)
    if nearest is None:
        return _open(command, session, _kind(command), parent=_caller_window(command, session))
    branch, kept = nearest
    turn = bisect_right(branch.counts, kept)  # the last turn whose whole history both share
    owner = _owner(branch, turn, session)
    if turn > 0 and branch.counts[turn - 1] == len(command.chains):
        return _Place(Address(owner.name, turn, owner.attempts[turn - 1] + 1), TurnRelation.REPEATS, kept)
    compacts = command.caller.kind is RequestKind.COMPACTION
    # A summary may stand behind words that the window before began with, too.
    succeeds = command.caller.kind is RequestKind.SUCCESSOR and not _is_successor(branch, session)
    if kept == len(branch.chains) and not compacts and not succeeds and not is_another(command.speaker, branch):
        return _Place(Address(branch.name, branch.turns + 1, 1), TurnRelation.CONTINUES, kept)
    # Two summaries may begin with the same words, two side calls with the same message; that makes no fork.
    if is_side(command.caller.lane) or succeeds or (turn == 0 and command.caller.kind is RequestKind.SUCCESSOR):
        return _open(command, session, _kind(command), parent=_caller_window(command, session))
    return _open(command, session, BranchKind.COMPACTION if compacts else BranchKind.FORK, parent=owner, forked_at=turn)


def _is_successor(branch: Branch, session: Session) -> bool:
    """Whether a branch begins with the summary of a window before, be it as the fork of one."""
    while branch.inherits and branch.parent:
        branch = session.branches[branch.parent]
    return branch.kind is BranchKind.SUCCESSOR


def is_another(speaker: ClientHeaders, branch: Branch) -> bool:
    """Whether a client goes on with a branch under another name, or as another agent, which is a fork of the one that
    spoke there: that one may go on, too.
    """
    known = branch.speaker
    return known is not None and (known.external_id, known.agent_id) != (speaker.external_id, speaker.agent_id)


def _place_opaque(command: BeginTurn, session: Session) -> _Place:
    """Requests without a history: those of a lane come one after the other on one branch."""
    for branch in session.branches.values():
        if branch.kind is BranchKind.OPAQUE and branch.lane == command.caller.lane:
            return _Place(Address(branch.name, branch.turns + 1, 1), TurnRelation.CONTINUES)
    return _open(command, session, BranchKind.OPAQUE, parent=_caller_window(command, session))


def _kind(command: BeginTurn) -> BranchKind:
    """What a new branch without a history of ours is."""
    match command.caller.kind:
        case RequestKind.TURN:
            return BranchKind.AGENT if command.caller.agent_id else BranchKind.MAIN
        case RequestKind.TITLE | RequestKind.SIDE:
            return BranchKind.SIDE
        case RequestKind.COMPACTION:
            return BranchKind.COMPACTION
        case RequestKind.SUCCESSOR:
            return BranchKind.SUCCESSOR
        case _:
            assert_never(command.caller.kind)


def _owner(branch: Branch, turn: int, session: Session) -> Branch:
    """The branch that a turn was taken on: a fork shares its earlier turns with the branch that it left."""
    while branch.inherits and branch.parent and turn <= branch.forked_at:
        branch = session.branches[branch.parent]
    return branch


def nearest_branch(
    session: Session, lane: str, chains: tuple[bytes, ...], speaker: ClientHeaders
) -> tuple[Branch, int] | None:
    """The branch of the lane that shares the longest history, and how many messages; the newest of equals. Where that
    is another's, the branch that the speaker goes on with itself, if there is one: both may have said the same.
    """
    best: tuple[Branch, int] | None = None
    own: tuple[Branch, int] | None = None
    for branch in session.branches.values():
        # Nothing goes on from a compaction: its summary begins a new history. It can only be asked for again.
        if branch.lane == lane and (branch.kind is not BranchKind.COMPACTION or branch.chains == chains):
            kept = branch.count_shared(chains)
            if kept and (best is None or kept >= best[1]):
                best = branch, kept
            if kept == len(branch.chains) and not is_another(speaker, branch) and (own is None or kept >= own[1]):
                own = branch, kept
    if best is not None and own is not None and is_another(speaker, best[0]):
        return own
    return best and _find_before_dispatch(*best, session)


def _find_before_dispatch(branch: Branch, kept: int, session: Session) -> tuple[Branch, int]:
    """Who left a branch at its end shares the reply to its last turn, which it has only in a later request: a history
    that shares no more than that goes on with the branch itself.
    """
    while branch.inherits and branch.parent:
        parent = session.branches[branch.parent]
        if not bisect_right(branch.counts, kept) == branch.forked_at == parent.turns:
            break
        branch, kept = parent, len(parent.chains)
    return branch, kept


def _caller_window(command: BeginTurn, session: Session) -> Branch | None:
    """The branch that a new context window hangs on: that of the agent that called, else the main agent's; the first
    request of a conversation hangs on nothing. What succeeds a window may have back what was in it, and anybody can
    write the words with which a summary begins: so that hangs on what its caller is known to know.
    """
    caller = command.caller
    among = command.known if caller.kind is RequestKind.SUCCESSOR else None
    if caller.kind is not RequestKind.TURN:
        agent = caller.agent_id  # an agent's side calls, its compaction and what follows are its own
    elif caller.agent_id is None:
        return None
    else:
        # opencode names the calling session, which is an agent's id where sub-agents nest.
        agent = caller.parent_agent_id or caller.parent_external_id
    return _last_window(session, agent, among) or _last_window(session, None, among)


def _last_window(session: Session, agent: str | None, among: frozenset[str] | None) -> Branch | None:
    """The window in which an agent last spoke, as far as it speaks there for itself; of these alone, None for all."""
    windows = [
        branch
        for branch in session.branches.values()
        if branch.agent_id == agent
        and not is_side(branch.lane)
        and branch.kind is not BranchKind.COMPACTION
        and (among is None or branch.name in among)
    ]
    return max(reversed(windows), key=lambda branch: branch.body_version, default=None)


def _open(
    command: BeginTurn, session: Session, kind: BranchKind, *, parent: Branch | None, forked_at: int | None = None
) -> _Place:
    """The first turn of a new branch. With ``forked_at`` it leaves its parent there, else it only hangs on it."""
    inherits = parent is not None and forked_at is not None
    kept = parent.count_shared(command.chains) if parent and inherits else 0
    opened = BranchOpened(
        at=command.at,
        branch=_name(kind, session),
        kind=kind,
        lane=command.caller.lane,
        parent=parent.name if parent else None,
        forked_at=forked_at if forked_at is not None else parent.turns if parent else 0,
        inherits=inherits,
        kept=kept,
        agent_id=command.caller.agent_id,
    )
    address = Address(opened.branch, opened.forked_at + 1 if inherits else 1, 1)
    return _Place(address, TurnRelation.FIRST, kept, opened)


def _name(kind: BranchKind, session: Session) -> str:
    """``main``, then ``main-2``; the others count from 1: ``agent-1``, ``side-1``."""
    nth = 1 + sum(branch.kind is kind for branch in session.branches.values())
    return kind.value if kind is BranchKind.MAIN and nth == 1 else f"{kind.value}-{nth}"
