"""A branch's memory at a turn, read from the events up to it.

The state at a turn is the fold of the events up to and including its assessment. This module makes no decisions.
"""

from collections.abc import Iterable, Sequence

import attrs

from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.cost.tokens import MeasuredPrompt
from mnemosyne.domain.history import loading
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
from mnemosyne.domain.session.helper_results import find_goal
from mnemosyne.domain.session.input_events import GroundsNoted, HelperAsked
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, KnowledgeTold, Mode, WindowFilled
from mnemosyne.domain.session.state import Session
from mnemosyne.errors import NotFound

Moved = ObjectDegraded | ObjectRestored


@attrs.frozen(kw_only=True)
class MemorySnapshot:
    """A branch's memory at one turn.

    ``session`` is the state after the turn's assessment (for the last turn: the current state), ``before`` the memory
    before the turn, ``happened`` the object events of its request, ``moved`` the changes of fidelity in this turn,
    ``faults`` its page faults, ``epoch`` the rewrite that it began with, ``failed`` the failure of its policy,
    ``filled`` the event of a full window, ``told`` the cross-session knowledge inserted into the branch, ``goal`` the
    user's goal and ``helped`` the questions, both by a helper model, ``account`` the cost of its last attempt.
    ``anchor`` is the measured prompt that the estimate starts from, ``counted`` the provider's count of this prompt;
    both may be None. ``since_rewritten`` is true if the history was rewritten after the anchor. ``scales`` are those of
    the whole session.
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
    failed: GroundsNoted | None
    filled: WindowFilled | None
    told: KnowledgeTold | None
    goal: str | None
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
    def client_tokens(self) -> int | None:
        """The estimated tokens of the client's own request; None if the proxy forwards it unchanged."""
        branch = self.session.branches[self.branch]
        shown = self.memory.view_of(self.branch)
        return None if branch.mode is Mode.OBSERVE else shown.estimator(self.began.model).tokens(shown.measure.held)

    @property
    def now(self) -> Now:
        """The position of the conversation, for protection rules."""
        shown = self.memory.view_of(self.branch)
        return Now(
            turn=self.turn,
            message_count=shown.measure.messages,
            last_user_messages=self.assessed.typed,
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
    """A branch's memory at a turn, or now. Raises NotFound without one."""
    owner = branch if turn is None else _owner(events, branch, turn)
    first, index, assessed = _find_assessment(events, branch, owner, turn)
    start, last = _first_of(events, first), max(first, _first_of(events, index))
    made = [each.envelope.event for part in (events[start:first], events[last:index]) for each in part]
    before = loading.fold(events[:start])
    state = loading.fold(events[start : index + 1] if turn is not None else events[start:], before)
    shown = before.memory.view_of(owner)
    own = [
        (number, event)
        for number, each in enumerate(events)
        if _turn_of(event := each.envelope.event) == (owner, assessed.turn)
    ]
    began = next((event for _, event in own if isinstance(event, TurnBegan)), None)
    if began is None:
        raise NotFound(f"The request of turn {assessed.turn} of branch {owner!r} is not on record.")
    until = [event for number, event in own if turn is None or number <= index]
    accounts = [event for _, event in own if isinstance(event, TurnAccounted)]
    prompts = [_prompt_of(event) for number, event in own if number > first]
    earlier = [each.envelope.event for each in events[:start]]
    estimates = [event.tokens for event in earlier if isinstance(event, TurnAssessed) and event.branch == owner]
    return MemorySnapshot(
        branch=owner,
        turn=assessed.turn,
        began=began,
        assessed=assessed,
        before=before.memory,
        session=state,
        happened=[event for event in made if isinstance(event, ObjectEvent)],
        moved=[event for event in until if isinstance(event, Moved)],
        faults=[event for event in until if isinstance(event, ObjectFaulted)],
        epoch=next((event for _, event in own if isinstance(event, EpochBegan)), None),
        filled=next((event for _, event in own if isinstance(event, WindowFilled)), None),
        failed=next((event for _, event in own if isinstance(event, GroundsNoted) and event.policy is not None), None),
        told=state.branches[owner].told,
        goal=find_goal((each.envelope.event for each in events), owner, assessed.turn),
        helped=[event for _, event in own if isinstance(event, HelperAsked)],
        account=accounts[-1] if accounts else None,
        anchor=shown.measure.anchor,
        since_rewritten=not shown.measure.exact,
        counted=next(filter(None, reversed(prompts)), None),
        last_tokens=estimates[-1] if estimates else None,
        scales=counted_sizes.scales_in(events),
    )


def _turn_of(event: Event) -> tuple[str | None, int | None]:
    return getattr(event, "branch", None), getattr(event, "turn", None)


def _prompt_of(event: Event) -> int | None:
    """The provider's count of the prompt that a reply answered; None for another event, or without a count."""
    used = window_of(event.usage) if isinstance(event, TurnFinished | TurnInterrupted) else None
    return used.prompt if used is not None else None


def _owner(events: Iterable[Recorded[Event]], branch: str, turn: int) -> str:
    """The branch that owns a turn: an inherited turn belongs to the parent."""
    recorded = (each.envelope.event for each in events)
    opened = {event.branch: event for event in recorded if isinstance(event, BranchOpened)}
    while (event := opened.get(branch)) is not None and event.inherits and event.parent and turn <= event.forked_at:
        branch = event.parent
    return branch


def _find_assessment(
    events: Sequence[Recorded[Event]], asked: str, owner: str, turn: int | None
) -> tuple[int, int, TurnAssessed]:
    """The indexes of the assessment of a turn, or the branch's last one, and of its repetition after a pause (the same
    without one); and that event. Raises NotFound.
    """
    assessments: dict[tuple[str, int], tuple[int, int, TurnAssessed]] = {}
    for index, each in enumerate(events):
        if isinstance(event := each.envelope.event, TurnAssessed):
            first = assessments.get((event.branch, event.turn), (index,))[0]
            assessments[event.branch, event.turn] = first, index, event
    if not assessments:
        raise NotFound("This session has no memory: it is empty, or was recorded by a version that made no objects.")
    turns = [number for branch, number in assessments if branch == owner]
    if not turns:
        names = ", ".join(sorted({branch for branch, _ in assessments}))
        raise NotFound(f"Branch {asked!r} has no memory; branches with memory: {names}.")
    wanted = turns[-1] if turn is None else turn
    if (owner, wanted) not in assessments:
        raise NotFound(
            f"Turn {wanted} of branch {asked!r} has no memory; the branch has memory of turns "
            f"{turns[0]} to {turns[-1]}."
        )
    return assessments[owner, wanted]


def _first_of(events: Sequence[Recorded[Event]], index: int) -> int:
    """The index of the first event of the decision that the event at ``index`` ends."""
    start = index
    while start and events[start - 1].envelope.causation_id == events[index].envelope.causation_id:
        if not isinstance(events[start - 1].envelope.event, ObjectEvent):
            break
        start -= 1
    return start


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
    zones: dict[str | None, str] = {}
    changes: list[ObjectChange] = []
    for each in events:
        event = each.envelope.event
        if isinstance(event, TurnAssessed):
            zones[event.branch] = event.zone
        elif isinstance(event, ObjectEvent) and event.object == object_id:
            made = event if isinstance(event, ObjectCreated) else made
            sized = event if made is None else counted_sizes.size_event(event, made, scales)
            branch, turn = _turn_of(event)
            changes.append(
                ObjectChange(version=each.version, event=sized, branch=branch, turn=turn, zone=zones.get(branch))
            )
    return changes
