"""A branch's memory at a turn, read from the events up to it.

The state at a turn is the fold of the events up to and including its assessment. This module makes no decisions.
"""

from collections.abc import Iterable, Sequence

import attrs

from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.cost.tokens import MeasuredPrompt
from mnemosyne.domain.history import loading
from mnemosyne.domain.history.working_set import WindowView
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import (
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectRestored,
    TurnAssessed,
)
from mnemosyne.domain.objects.followed_plan import find_followed_plan
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.protection import Now, Resident, is_kept
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session import counted_sizes
from mnemosyne.domain.session.counted_sizes import Scales
from mnemosyne.domain.session.events import BranchOpened, Event, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.input_events import HelperAsked
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, KnowledgeTold, Mode
from mnemosyne.domain.session.state import Session, evolve
from mnemosyne.errors import NotFound

Moved = ObjectDegraded | ObjectRestored


@attrs.frozen(kw_only=True)
class MemorySnapshot:
    """A branch's memory at one turn.

    ``session`` is the state after the turn's assessment (for the last turn: the current state), ``before`` the memory
    before the turn, ``happened`` the object events of its request, ``moved`` the changes of fidelity in this turn,
    ``faults`` its page faults, ``epoch`` the rewrite that it began with, ``told`` the cross-session knowledge inserted
    into the branch, ``helped`` the questions to a helper model, ``account`` the cost of its last attempt. ``anchor`` is
    the measured prompt that the estimate starts from, ``counted`` the provider's count of this prompt; both may be
    None. ``since_rewritten`` is true if the history was rewritten after the anchor. ``scales`` are those of the whole
    session.
    """

    branch: str
    turn: int
    began: TurnBegan
    assessed: TurnAssessed
    before: Memory
    session: Session
    happened: Sequence[ObjectEvent]
    moved: Sequence[Moved]
    faults: Sequence[ObjectFaulted]
    epoch: EpochBegan | None
    told: KnowledgeTold | None
    helped: Sequence[HelperAsked]
    account: TurnAccounted | None
    anchor: MeasuredPrompt | None
    since_rewritten: bool
    counted: int | None
    last_tokens: int | None
    scales: Scales

    @property
    def memory(self) -> Memory:
        """The session's memory at that turn."""
        return self.session.memory

    @property
    def window(self) -> WindowView:
        """How full the branch's window was."""
        return WindowView(
            branch=self.branch,
            turn=self.turn,
            tokens=self.assessed.tokens,
            fixed=self.assessed.fixed,
            usable=self.assessed.usable,
            zone=self.assessed.zone,
            counted=self.counted,
        )

    @property
    def client_tokens(self) -> int | None:
        """The estimated tokens of the client's own request; None if that is what goes upstream."""
        branch = self.session.branches[self.branch]
        shown = self.memory.view_of(self.branch)
        return None if branch.mode is Mode.OBSERVE else shown.estimator(self.began.model).tokens(shown.measure.held)

    @property
    def now(self) -> Now:
        """The position of the conversation, for protection rules."""
        shown = self.memory.view_of(self.branch)
        typed = self.assessed.typed
        return Now(
            turn=self.turn,
            message_count=shown.measure.messages,
            exchange_first_message=typed[-1] if typed else 0,
            last_user_messages=typed,
            plan=find_followed_plan(each.object for each in self.standings()),
        )

    def standings(self) -> Sequence[Resident]:
        """The branch's objects, each with its fidelity."""
        return [Resident(each, fidelity) for each, fidelity in self.memory.standings(self.branch)]

    def object(self, object_id: str) -> MemoryObject:
        """An object of the session with the sizes that people see."""
        return counted_sizes.size_object(self.memory.objects[object_id], self.scales)

    def list_kept(self) -> Sequence[tuple[MemoryObject, str]]:
        """The protected objects in the window, each with the reason."""
        reasons = [(each.object, is_kept(each, self.now)) for each in self.standings() if each.object.places]
        return [(kept, why) for kept, why in reasons if why is not None]


def snapshot(events: Sequence[Recorded[Event]], branch: str, turn: int | None = None) -> MemorySnapshot:
    """A branch's memory at a turn, or now. Raises NotFound if there is none."""
    owner = branch if turn is None else _owner(events, branch, turn)
    index = _find_assessment(events, branch, owner, turn)
    assessed = events[index].envelope.event
    assert isinstance(assessed, TurnAssessed)
    start = _first_of(events, index)
    before = _fold(Session(), events[:start])
    state = _fold(before, events[start : index + 1] if turn is not None else events[start:])
    shown = before.memory.view_of(owner)
    return MemorySnapshot(
        branch=owner,
        turn=assessed.turn,
        began=_find_turn(events, assessed),
        assessed=assessed,
        before=before.memory,
        session=state,
        happened=_object_events(events[start:index]),
        moved=_list_moves(events[: index + 1] if turn is not None else events, assessed),
        faults=_list_faults(events[: index + 1] if turn is not None else events, assessed),
        epoch=_epoch(events, assessed),
        told=state.branches[owner].told,
        helped=_list_helped(events, assessed),
        account=_account(events, assessed),
        anchor=shown.measure.anchor,
        since_rewritten=not shown.measure.exact,
        counted=_find_count(events[index:], assessed),
        last_tokens=_last_tokens(events[:start], owner),
        scales=counted_sizes.scales_in(events),
    )


def _owner(events: Iterable[Recorded[Event]], branch: str, turn: int) -> str:
    """The branch that owns a turn: an inherited turn belongs to the parent."""
    opened = {
        each.envelope.event.branch: each.envelope.event
        for each in events
        if isinstance(each.envelope.event, BranchOpened)
    }
    while (event := opened.get(branch)) is not None and event.inherits and event.parent and turn <= event.forked_at:
        branch = event.parent
    return branch


def _find_assessment(events: Sequence[Recorded[Event]], asked: str, owner: str, turn: int | None) -> int:
    found = {}
    turns: dict[str, list[int]] = {}
    for index, each in enumerate(events):
        event = each.envelope.event
        if isinstance(event, TurnAssessed):
            found[event.branch, event.turn] = index
            turns.setdefault(event.branch, []).append(event.turn)
    if not turns:
        raise NotFound("This session has no memory: it is empty, or was recorded by a version that made no objects.")
    if owner not in turns:
        names = ", ".join(sorted(turns))
        raise NotFound(f"Branch {asked!r} has no memory; branches with memory: {names}.")
    wanted = turns[owner][-1] if turn is None else turn
    if (owner, wanted) not in found:
        raise NotFound(
            f"Turn {wanted} of branch {asked!r} has no memory; the branch has memory of turns "
            f"{turns[owner][0]} to {turns[owner][-1]}."
        )
    return found[owner, wanted]


def _first_of(events: Sequence[Recorded[Event]], index: int) -> int:
    """The index of the first event of the decision that the event at ``index`` ends."""
    start = index
    while start and events[start - 1].envelope.causation_id == events[index].envelope.causation_id:
        if not isinstance(events[start - 1].envelope.event, ObjectEvent):
            break
        start -= 1
    return start


def _fold(session: Session, events: Iterable[Recorded[Event]]) -> Session:
    for each in events:
        session = evolve(session, loading.without_body(each.envelope.event))
    return session


def _find_turn(events: Sequence[Recorded[Event]], assessed: TurnAssessed) -> TurnBegan:
    for each in events:
        event = each.envelope.event
        if isinstance(event, TurnBegan) and (event.branch, event.turn) == (assessed.branch, assessed.turn):
            return event
    raise NotFound(f"The request of turn {assessed.turn} of branch {assessed.branch!r} is not on record.")


def _object_events(events: Iterable[Recorded[Event]]) -> list[ObjectEvent]:
    return [each.envelope.event for each in events if isinstance(each.envelope.event, ObjectEvent)]


def _list_faults(events: Iterable[Recorded[Event]], assessed: TurnAssessed) -> list[ObjectFaulted]:
    found = [each for each in _object_events(events) if isinstance(each, ObjectFaulted)]
    return [each for each in found if (each.branch, each.turn) == (assessed.branch, assessed.turn)]


def _list_moves(events: Iterable[Recorded[Event]], assessed: TurnAssessed) -> list[Moved]:
    found = [each for each in _object_events(events) if isinstance(each, Moved)]
    return [each for each in found if (each.branch, each.turn) == (assessed.branch, assessed.turn)]


def _epoch(events: Iterable[Recorded[Event]], assessed: TurnAssessed) -> EpochBegan | None:
    for each in events:
        event = each.envelope.event
        if isinstance(event, EpochBegan) and (event.branch, event.turn) == (assessed.branch, assessed.turn):
            return event
    return None


def _list_helped(events: Iterable[Recorded[Event]], assessed: TurnAssessed) -> list[HelperAsked]:
    found = [each.envelope.event for each in events if isinstance(each.envelope.event, HelperAsked)]
    return [each for each in found if (each.branch, each.turn) == (assessed.branch, assessed.turn)]


def _account(events: Iterable[Recorded[Event]], assessed: TurnAssessed) -> TurnAccounted | None:
    found = None
    for each in events:
        event = each.envelope.event
        if isinstance(event, TurnAccounted) and (event.branch, event.turn) == (assessed.branch, assessed.turn):
            found = event
    return found


def _find_count(events: Iterable[Recorded[Event]], assessed: TurnAssessed) -> int | None:
    found = None
    for each in events:
        event = each.envelope.event
        if not isinstance(event, TurnFinished | TurnInterrupted):
            continue
        if (event.branch, event.turn) == (assessed.branch, assessed.turn):
            used = window_of(event.usage)
            if used is not None and used.prompt:
                found = used.prompt
    return found


def _last_tokens(events: Iterable[Recorded[Event]], branch: str) -> int | None:
    found = None
    for each in events:
        event = each.envelope.event
        if isinstance(event, TurnAssessed) and event.branch == branch:
            found = event.tokens
    return found


@attrs.frozen(kw_only=True)
class ObjectChange:
    """An event of an object. ``zone`` is the zone of the branch's last assessed turn before it; ``turn`` is None if the
    event belongs to no turn.
    """

    version: int
    event: ObjectEvent
    branch: str | None
    turn: int | None
    zone: str | None


def history_of(events: Sequence[Recorded[Event]], object_id: str) -> Sequence[ObjectChange]:
    """The events of an object, in order, with the sizes that people see."""
    scales = counted_sizes.scales_in(events)
    made: ObjectCreated | None = None
    zones: dict[str, str] = {}
    found: list[ObjectChange] = []
    for each in events:
        event = each.envelope.event
        if isinstance(event, TurnAssessed):
            zones[event.branch] = event.zone
        elif isinstance(event, ObjectEvent) and event.object == object_id:
            made = event if isinstance(event, ObjectCreated) else made
            branch = getattr(event, "branch", None)
            turn = getattr(event, "turn", None)
            found.append(
                ObjectChange(
                    version=each.version,
                    event=event if made is None else counted_sizes.size_event(event, made, scales),
                    branch=branch,
                    turn=turn,
                    zone=zones.get(branch) if branch else None,
                )
            )
    return found
