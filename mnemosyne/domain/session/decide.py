"""AGGREGATE: one client session, its branches and their turns.

A **branch** is one context window: the main agent, a sub-agent, a side call, a rewind. A **turn** is one client
request and its reply; the same request sent again is another **attempt** at the turn. Turns of a branch count from 1;
a fork continues the count of its parent.

A request belongs to the branch of its conversation whose history is its longest prefix. It continues the last turn,
repeats a turn, or forks: where its history diverges, or where the client continues under another name or as another
agent. Histories are compared as chains: a chain hash identifies a message and all messages before it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypedDict, assert_never

import attrs

from mnemosyne.domain.objects.decide import Degrade, Restore, decide_all
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.fidelity import Cause
from mnemosyne.domain.session import round_events
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
    SubmittedBlock,
    ToolsDeclared,
    ToolUse,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
    TurnRelation,
)
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.wire.dialects import is_side
from mnemosyne.domain.wire.identity import ClientHeaders, RequestKind, RequestOrigin
from mnemosyne.domain.wire.normal_form import Echo

CHAIN_BYTES = 16
"""Length of a truncated chain hash: long enough that two histories of one session never collide."""

# Commands


class RecordedCommand:
    """A command that is recorded unchanged. Its first base class is its event, whose fields it inherits."""

    __slots__ = ()


@attrs.frozen(kw_only=True)
class Gap:
    """Turns that passed unrecorded since a time, and the reason."""

    since: int
    turns: int
    reason: str


@attrs.frozen(kw_only=True)
class BeginTurn:
    """A request arrived. ``chains`` are the chain hashes of its messages; ``body`` is a change on the last body of the
    branch ``base``; ``gap`` describes earlier turns that were not recorded. ``known`` are the branches whose history
    the client has proven to know, None for all of them.
    """

    at: int
    tenant: str
    external_id: str
    salt: bytes
    client_headers: ClientHeaders
    origin: RequestOrigin
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
    submitted: SubmittedBlock | None = None
    uses: tuple[ToolUse, ...] = ()


@attrs.frozen(kw_only=True)
class FinishTurn(TurnFinished, RecordedCommand):
    """The reply is complete."""


@attrs.frozen(kw_only=True)
class InterruptTurn(TurnInterrupted, RecordedCommand):
    """The reply will not be completed."""


@attrs.frozen(kw_only=True)
class ForgetSession:
    """Erase the session's content."""

    at: int


@attrs.frozen(kw_only=True)
class SwitchManaging(round_events.ManagingSwitched, RecordedCommand):
    """Stop managing the session; or, with ``on``, undo that: branches that open from now on may be managed."""


@attrs.frozen(kw_only=True)
class StartManaging:
    """Manage the session from its next rewrite on that pays."""

    at: int
    why: str


@attrs.frozen(kw_only=True)
class NoteImport(SessionImported, RecordedCommand):
    """A session is imported from a file. The event goes to the operator's stream."""


@attrs.frozen(kw_only=True)
class NameCheckpoint(CheckpointNamed, RecordedCommand):
    """A person gives a recorded turn a name that no other turn has."""


@attrs.frozen(kw_only=True)
class TrashSession(round_events.SessionTrashed, RecordedCommand):
    """Put the session into the trash, or take it out."""


@attrs.frozen(kw_only=True)
class EditSession(round_events.SessionEdited, RecordedCommand):
    """Name the session, close or open it, or choose its grounding."""


@attrs.frozen(kw_only=True)
class EndSession(round_events.SessionEdited, RecordedCommand):
    """Close a session that its client has ended, if it has turns."""


@attrs.frozen(kw_only=True)
class SetMode(round_events.BranchModeSet, RecordedCommand):
    """Set the mode of a branch from now on."""


@attrs.frozen(kw_only=True)
class RecordKnowledge(round_events.KnowledgeTold, RecordedCommand):
    """Cross-session knowledge is inserted into a new branch."""


@attrs.frozen(kw_only=True)
class BeginEpoch(round_events.EpochBegan, RecordedCommand):
    """The branch's wire history is rewritten with this request."""


@attrs.frozen(kw_only=True)
class NoteFilled(round_events.WindowFilled, RecordedCommand):
    """The proxy sends a request that fills its window."""


@attrs.frozen(kw_only=True)
class NoteStated(round_events.WindowStated, RecordedCommand):
    """The provider refused a prompt and stated the window of its model."""


@attrs.frozen(kw_only=True)
class BeginRound:
    """The proxy sends a request of its own. ``body`` is a change on the last body that the proxy sent for the branch,
    or else on the client's last one; ``ends`` covers its whole history.
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
class FinishRound(round_events.RoundFinished, RecordedCommand):
    """The reply to a round is complete. ``faults`` and ``tokens`` count what was restored in this turn, including
    these answers.
    """


@attrs.frozen(kw_only=True)
class SendFallback(round_events.FallbackSent, RecordedCommand):
    """The proxy sent a request that is neither the client's own nor part of the branch's wire history."""


Command = RecordedCommand | BeginTurn | ForgetSession | BeginRound | StartManaging

# Decisions


def decide(command: Command | None, session: Session) -> tuple[Event, ...]:
    """The events that a command causes; none without a command."""
    match command:
        case None:
            return ()
        case BeginTurn():
            return _begin(command, session)
        case FinishTurn() | InterruptTurn() if command.address not in session.running:
            return ()  # it never began, or it has ended already: the first end counts
        case FinishRound() if not _is_open(command, session):
            return ()  # likewise
        case ForgetSession():
            return (SessionForgotten(at=command.at),) if session.version else ()
        case SwitchManaging():
            return _record(command) if session.off is command.on else ()
        case TrashSession():
            return _record(command) if session.trashed is not command.trashed else ()
        case EditSession():
            now = (session.title, session.closed, session.grounding)
            wanted = (command.title, command.closed, command.grounding)
            is_new = any(new not in (None, old) for new, old in zip(wanted, now, strict=True))
            return _record(command) if is_new else ()
        case EndSession():
            return _record(command) if session.branches and not session.closed else ()
        case StartManaging():
            switch = round_events.ManagingSwitched(at=command.at, on=True, why=command.why)
            return () if session.switched else (switch, switch) if session.off else (switch,)
        case NameCheckpoint():
            is_so = session.checkpoints.get(command.name) == (command.branch, command.turn)
            return () if is_so else _record(command)
        case BeginRound():
            return (_begin_round(command, session),)
        case _:
            return _record(command)


def _record(command: RecordedCommand) -> tuple[Event]:
    """The event whose fields a command inherits."""
    event: Any = type(command).__base__
    return (event(**_fields(command)),)


def _fields(command: Any) -> dict[str, Any]:
    return attrs.asdict(command, recurse=False)


def _begin_round(command: BeginRound, session: Session) -> round_events.RoundBegan:
    branch = session.branches[command.address.branch]
    before = branch.wire.ends if branch.wire is not None else ()
    kept = common_prefix(before, command.ends)
    base = branch.wire.body_version if branch.wire is not None else branch.body_version
    fields = _fields(command) | {"base": base, "kept": kept, "ends": command.ends[kept:]}
    return round_events.RoundBegan(**attrs.asdict(fields.pop("address")), **fields)


def _is_open(command: FinishRound, session: Session) -> bool:
    """Whether a round may finish. Rounds of a repeated earlier turn are not counted."""
    rounds = session.branches[command.branch].rounds
    return rounds.turn != command.turn or rounds.open_of(command.turn, command.attempt) == command.round


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common prefix of two sequences."""
    length = min(len(one), len(other))
    return next((index for index in range(length) if one[index] != other[index]), length)


@attrs.frozen
class _Place:
    """Where a request belongs; ``opened`` is set if a new branch has to be opened for it."""

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
    if command.uses:
        events.append(ToolsDeclared(at=command.at, uses=command.uses))
    if place.opened is not None:
        events.append(place.opened)
    else:
        events.extend(_settle_attempts(command, place, session))
    return (*events, _begin_turn(command, place, session))


def _settle_attempts(command: BeginTurn, place: _Place, session: Session) -> tuple[ObjectEvent, ...]:
    """Degrade and restore objects when the last turn is attempted again, or when the client continues after several
    attempts: objects that the answers of one attempt restored are not visible in another.
    """
    branch = session.branches[place.address.branch]
    continues = place.relation is TurnRelation.CONTINUES
    rounds = branch.rounds
    is_earlier = not continues and place.address.turn < branch.turns
    if is_earlier or rounds.turn != branch.turns or (continues and branch.attempts[-1] == 1):
        return ()
    kept = rounds.restored.get(command.echoed_attempt or 0, ()) if continues else ()
    dropped = [event for restored in rounds.restored.values() for event in restored if event not in kept]
    shown = {event.object for event in session.memory.view_of(branch.name).restored}
    fields = _CommonFields(at=command.at, branch=branch.name, turn=place.address.turn, cause=Cause.ATTEMPT)
    degrades = [
        Degrade(object=event.object, after=event.before, **fields)
        for event in reversed(dropped)
        if event.object in shown
    ]
    restores = [
        Restore(object=event.object, after=event.after, **fields) for event in kept if event.object not in shown
    ]
    events, _ = decide_all([*degrades, *restores], session.memory)
    return events


class _CommonFields(TypedDict):
    at: int
    branch: str
    turn: int
    cause: Cause


def _start_session(command: BeginTurn) -> SessionStarted:
    return SessionStarted(
        at=command.at,
        tenant=command.tenant,
        external_id=command.external_id,
        client=command.origin.client,
        client_version=command.origin.version,
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
        speaker=_find_new_headers(command, place, session),
        submitted=command.submitted,
    )


def _find_new_headers(command: BeginTurn, place: _Place, session: Session) -> ClientHeaders | None:
    """The client headers, if they differ from those of the branch's last request; else None."""
    branch = session.branches.get(place.address.branch)
    return None if branch is not None and branch.client_headers == command.client_headers else command.client_headers


def _place(command: BeginTurn, session: Session) -> _Place:
    if not command.chains:
        return _place_opaque(command, session)
    nearest = nearest_branch(session, command.origin.conversation, command.chains, command.client_headers)
    if nearest is None:
        return _open(command, session, _kind(command), parent=_caller_window(command, session))
    branch, kept = nearest
    turn = bisect_right(branch.counts, kept)  # the last turn whose whole history is shared
    owner = _owner(branch, turn, session)
    if turn > 0 and branch.counts[turn - 1] == len(command.chains):
        if not is_another(command.client_headers, owner):
            return _Place(Address(owner.name, turn, owner.attempts[turn - 1] + 1), TurnRelation.REPEATS, kept)
        turn -= 1  # another agent's request with the same history is a turn of its own
        owner = _owner(branch, turn, session)
    compacts = command.origin.kind is RequestKind.COMPACTION
    # A summary may also follow messages that began the previous window.
    succeeds = command.origin.kind is RequestKind.SUCCESSOR and not _is_successor(branch, session)
    if kept == len(branch.chains) and not compacts and not succeeds and not is_another(command.client_headers, branch):
        return _Place(Address(branch.name, branch.turns + 1, 1), TurnRelation.CONTINUES, kept)
    # Two summaries may begin with the same words, and two side calls with the same message: these are no forks.
    if is_side(command.origin.conversation) or succeeds or (turn == 0 and command.origin.kind is RequestKind.SUCCESSOR):
        return _open(command, session, _kind(command), parent=_caller_window(command, session))
    return _open(command, session, BranchKind.COMPACTION if compacts else BranchKind.FORK, parent=owner, forked_at=turn)


def _is_successor(branch: Branch, session: Session) -> bool:
    """Whether a branch, or the branch that it was forked from, begins with the summary of an earlier window."""
    while branch.inherits and branch.parent:
        branch = session.branches[branch.parent]
    return branch.kind is BranchKind.SUCCESSOR


def is_another(client: ClientHeaders, branch: Branch) -> bool:
    """Whether a client would continue the branch under another session name or as another agent. That is a fork,
    because the previous client may continue, too.
    """
    known = branch.client_headers
    return known is not None and (known.external_id, known.agent_id) != (client.external_id, client.agent_id)


def _place_opaque(command: BeginTurn, session: Session) -> _Place:
    """Place a request that has no history: all of a conversation go to one branch, one after the other."""
    for branch in session.branches.values():
        if branch.kind is BranchKind.OPAQUE and branch.conversation == command.origin.conversation:
            return _Place(Address(branch.name, branch.turns + 1, 1), TurnRelation.CONTINUES)
    return _open(command, session, BranchKind.OPAQUE, parent=_caller_window(command, session))


def _kind(command: BeginTurn) -> BranchKind:
    """The kind of a new branch that is not a fork."""
    match command.origin.kind:
        case RequestKind.TURN:
            return BranchKind.AGENT if command.origin.agent_id else BranchKind.MAIN
        case RequestKind.TITLE | RequestKind.SIDE:
            return BranchKind.SIDE
        case RequestKind.COMPACTION:
            return BranchKind.COMPACTION
        case RequestKind.SUCCESSOR:
            return BranchKind.SUCCESSOR
        case _:
            assert_never(command.origin.kind)


def _owner(branch: Branch, turn: int, session: Session) -> Branch:
    """The branch on which a turn was recorded: a fork shares the turns before it with its parent."""
    while branch.inherits and branch.parent and turn <= branch.forked_at:
        branch = session.branches[branch.parent]
    return branch


def nearest_branch(
    session: Session, conversation: str, chains: tuple[bytes, ...], client: ClientHeaders
) -> tuple[Branch, int] | None:
    """The branch of the conversation that shares the longest history, and the number of shared messages; of equals, the
    newest. If that branch belongs to another client and this one can continue a branch of its own or repeat its
    request, that one: the histories of both may be equal.
    """
    best: tuple[Branch, int] | None = None
    own: tuple[Branch, int] | None = None
    for branch in session.branches.values():
        # Nothing continues a compaction: its summary begins a new history. The client can only repeat the request.
        if branch.conversation == conversation and (
            branch.kind is not BranchKind.COMPACTION or branch.chains == chains
        ):
            kept = branch.count_shared(chains)
            if kept and (best is None or kept >= best[1]):
                best = branch, kept
            is_own = kept in (len(branch.chains), len(chains)) and not is_another(client, branch)
            if kept and is_own and (own is None or kept >= own[1]):
                own = branch, kept
    if best is not None and own is not None and is_another(client, best[0]):
        return own
    return best and _find_before_dispatch(*best, session)


def _find_before_dispatch(branch: Branch, kept: int, session: Session) -> tuple[Branch, int]:
    """Prefer the parent of a fork if the history shares no turn of the fork's own. A client that forks at the end of a
    branch shares the reply to the branch's last turn, which the branch itself holds only from its next request on.
    """
    while branch.inherits and branch.parent:
        parent = session.branches[branch.parent]
        if not bisect_right(branch.counts, kept) == branch.forked_at == parent.turns:
            break
        branch, kept = parent, len(parent.chains)
    return branch, kept


def _caller_window(command: BeginTurn, session: Session) -> Branch | None:
    """The parent of a new context window: the window of the calling agent, else the main agent's; None for the first
    request of a conversation. A successor may restore objects of its parent, and any client can write the words with
    which a summary begins; so its parent must be a branch that its client has proven to know.
    """
    origin = command.origin
    among = command.known if origin.kind is RequestKind.SUCCESSOR else None
    if origin.kind is not RequestKind.TURN:
        agent = origin.agent_id  # an agent's side calls, compactions and successors are its own
    elif origin.agent_id is None:
        return None
    else:
        # opencode names the calling session, which is an agent's id where sub-agents nest.
        agent = origin.parent_agent_id or origin.parent_external_id
    return _last_window(session, agent, among) or _last_window(session, None, among)


def _last_window(session: Session, agent: str | None, among: frozenset[str] | None) -> Branch | None:
    """The window with an agent's latest turn, side calls and compactions excluded; ``among`` limits the branches."""
    windows = [
        branch
        for branch in session.branches.values()
        if branch.agent_id == agent
        and not is_side(branch.conversation)
        and branch.kind is not BranchKind.COMPACTION
        and (among is None or branch.name in among)
    ]
    return max(reversed(windows), key=lambda branch: branch.body_version, default=None)


def _open(
    command: BeginTurn, session: Session, kind: BranchKind, *, parent: Branch | None, forked_at: int | None = None
) -> _Place:
    """The first turn of a new branch. With ``forked_at`` the branch inherits its parent's history up to that turn."""
    inherits = parent is not None and forked_at is not None
    kept = parent.count_shared(command.chains) if parent and inherits else 0
    opened = BranchOpened(
        at=command.at,
        branch=_name(kind, session),
        kind=kind,
        lane=command.origin.conversation,
        parent=parent.name if parent else None,
        forked_at=forked_at if forked_at is not None else parent.turns if parent else 0,
        inherits=inherits,
        kept=kept,
        agent_id=command.origin.agent_id,
    )
    address = Address(opened.branch, opened.forked_at + 1 if inherits else 1, 1)
    return _Place(address, TurnRelation.FIRST, kept, opened)


def _name(kind: BranchKind, session: Session) -> str:
    """``main``, then ``main-2``; the others count from 1: ``agent-1``, ``side-1``."""
    nth = 1 + sum(branch.kind is kind for branch in session.branches.values())
    return kind.value if kind is BranchKind.MAIN and nth == 1 else f"{kind.value}-{nth}"
