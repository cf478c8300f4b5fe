"""Objects restored behind the last message of their branch's next request: those that a person asked to see again, and
those that the user's goal will need, as predicted by a helper model (``helper.goal.GOAL``).
"""

from collections.abc import Iterator, Sequence

import attrs

from mnemosyne.domain.cost.tokens import Features, features_of_block
from mnemosyne.domain.objects.decide import Restore, decide_all
from mnemosyne.domain.objects.events import ObjectEvent
from mnemosyne.domain.objects.faults import LIMITS, FaultLimits, RecallBudget
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.recall import memory_results
from mnemosyne.domain.recall.memory_calls import GrantedRestore, restore
from mnemosyne.domain.segmentation.authors import find_prompt
from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.summaries.forms import RecordedForm
from mnemosyne.domain.tools.memory_tools import MemoryRestore
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire.blocks import Block, has_results
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.transcript import Transcript


@attrs.frozen(kw_only=True)
class PendingRestore:
    """A granted restore, with the text and the attachments of its object, and its new L1, if one was made."""

    granted: GrantedRestore
    text: str
    attached: Sequence[Block] = ()
    form: RecordedForm | None = None


@attrs.frozen(kw_only=True)
class ShownAgain:
    """The history with restored objects, and the ``events`` with the ``contents`` that these name."""

    history: UpstreamHistory
    events: tuple[ObjectEvent, ...] = ()
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)


def find_requested(state: Session, branch: str) -> tuple[GrantedRestore, ...]:
    """The objects that a person asked to see again, within the limits of one turn."""
    granted, budget = list[GrantedRestore](), RecallBudget()
    for key, after in state.memory.view_of(branch).requested.items():
        call = MemoryRestore(key, after, "")
        answer = restore(state.memory, branch, call, budget, scales=state.stated_scales)
        if isinstance(answer, GrantedRestore):
            granted.append(answer)
            budget = budget.after(answer.tokens)
    return tuple(granted)


MOST_LATER = 3
"""Number of turns within which a prediction must arrive to be used."""


def awaits_prediction(state: Session, began: TurnBegan, read: Transcript) -> bool:
    """Whether a goal's prediction is unused, and this request still belongs to the exchange of that goal."""
    branch = state.branches[began.branch]
    goal = branch.goal
    if goal is None or not goal.needed or goal.placed or goal.is_paused:
        return False
    if not goal.turn < began.turn <= goal.turn + MOST_LATER:
        return False
    prompt = find_prompt(read)
    return prompt is not None and prompt[0] < branch.counts[goal.turn - 1]


def find_predicted(state: Session, branch: str, room: int) -> tuple[GrantedRestore, ...]:
    """The objects that the goal of a branch needs, each in full or else at L1, in at most ``room`` tokens together."""
    goal = state.branches[branch].goal
    granted, budget = list[GrantedRestore](), RecallBudget(limits=FaultLimits(LIMITS.faults, room))
    for key in () if goal is None else goal.needed:
        for target in (Fidelity.FULL, Fidelity.DETAILED):
            call = MemoryRestore(key, target, "")
            answer = restore(state.memory, branch, call, budget, scales=state.stated_scales)
            if isinstance(answer, GrantedRestore):
                granted.append(answer)
                budget = budget.after(answer.tokens)
                break
    return tuple(granted)


def find_place(read: Transcript, history: UpstreamHistory, kept: int) -> int | None:
    """The number of the history element behind which restored objects can be added: its last message, if the request
    adds that message and its role is user. None if there is no such element, or if it is a tool result in a dialect
    whose results cannot hold text of the proxy. System messages behind it are ignored.
    """
    last = next((number for number in _backwards(read.messages) if read.messages[number].role != "system"), -1)
    messages = [history.dialect.history.message(element) for element in history.messages]
    place = next((number for number in _backwards(messages) if messages[number].get("role") != "system"), None)
    if place is None or last < kept or messages[place].get("role") != "user":
        return None
    return place if history.dialect is MESSAGES or not has_results(messages[place]["content"]) else None


def _backwards(items: Sequence[object]) -> Iterator[int]:
    return reversed(range(len(items)))


def show_again(
    history: UpstreamHistory,
    place: int,
    restores: Sequence[PendingRestore],
    session: Session,
    began: TurnBegan,
    *,
    cause: Cause,
    strict: bool,
) -> ShownAgain:
    """The history with the objects added to the element ``place``, and their restores, for this ``cause``. ``strict``
    instructs the model to keep to the records.
    """
    names = (memory_results.record_name(restored.granted.object, restored.granted.after) for restored in restores)
    block = memory_results.render_shown_again(list(zip(names, (restored.text for restored in restores), strict=True)))
    block = memory_results.strictly(block) if strict else block
    element = history.messages[place]
    written = history.dialect.history.with_text(element, block, _list_attached(history, restores, session, began))
    forms = [restored.form for restored in restores if restored.form is not None]
    shown = (
        Restore(
            at=began.at,
            object=restored.granted.object.id,
            branch=began.branch,
            turn=began.turn,
            after=restored.granted.after,
            cause=cause,
        )
        for restored in restores
    )
    messages = (*history.messages[:place], written, *history.messages[place + 1 :])
    return ShownAgain(
        history=attrs.evolve(history, messages=messages),
        events=decide_all((*(form.command for form in forms), *shown), session.memory)[0],
        contents=tuple(form.content for form in forms),
    )


def _list_attached(
    history: UpstreamHistory, restores: Sequence[PendingRestore], session: Session, began: TurnBegan
) -> list[Block]:
    """The images and documents of the objects; empty if the dialect has no attachments or they exceed a turn's
    limit.
    """
    if not history.dialect.attaches:
        return []
    attached = [block for each in restores for block in each.attached]
    estimator = session.memory.view_of(began.branch).estimator(began.model)
    tokens = estimator.tokens(sum(map(features_of_block, attached), Features()))
    return attached if tokens <= LIMITS.tokens else []
