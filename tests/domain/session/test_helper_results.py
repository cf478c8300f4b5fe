"""Goals and summaries are folded from a helper's work; predictions that are not used end."""

import json

from mnemosyne.domain.objects.events import Link, LinkRelation, ObjectEvent, ObjectRestored
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.session.helper_results import GOAL, Goal, goal_after
from mnemosyne.domain.session.input_events import HelperWorked
from tests.actors.summaries import worked
from tests.domain.remembered import BRANCH, created, faulted


def found(turn: int, **members: object) -> HelperWorked:
    record = json.dumps({"goal": f"goal {turn}", "needed": ["abc2345"], "unneeded": []} | members)
    return worked(BRANCH, task=GOAL, branch=BRANCH, turn=turn, record=record)


def placed(turn: int, cause: Cause = Cause.GOAL) -> ObjectRestored:
    fidelity = {"before": Fidelity.EVICTED, "after": Fidelity.FULL}
    return ObjectRestored(at=1, object="abc2345", branch=BRANCH, turn=turn, cause=cause, **fidelity)


def told(*events: HelperWorked | ObjectEvent) -> Goal:
    goal: Goal | None = None
    for event in events:
        if isinstance(event, HelperWorked):
            goal = goal_after(goal, event)
        elif goal is not None:
            goal = goal.after(event)
    assert goal is not None
    return goal


def later(turn: int, *targets: str) -> ObjectEvent:
    links = tuple(Link(LinkRelation.DEPENDS_ON, each) for each in targets)
    return created("def2345", 2 * turn - 2, links=links, last_turn=turn)


def test_an_exchange_with_a_use_resets_the_count_of_misses() -> None:
    once = (found(1), placed(2))
    assert told(*once, found(3)).missed == 1
    assert told(*once, later(3, "abc2345"), found(4)).missed == 0
    assert told(*once, later(3, "zzz2345"), found(4)).missed == 1
    assert told(*once, faulted("abc2345", turn=2), found(4)).missed == 0
    assert told(*once, found(3), placed(4), found(5)).is_paused
    assert not told(*once, found(3), placed(4), later(5, "abc2345"), found(5)).is_paused


def test_event_before_an_object_was_placed_is_no_use_of_it() -> None:
    assert not told(found(1), later(1, "abc2345"), placed(2)).used
    assert not told(found(1), placed(2), later(2, "abc2345")).used, "its call was made in the turn before"
    assert not told(found(1), placed(2, Cause.PREFETCH), later(3, "abc2345")).used, "a person asked for it"


def test_rejected_work_ends_the_prediction_and_keeps_the_goal() -> None:
    assert told(found(1), found(2, goal="")).text == "goal 1"
    rejected = worked(BRANCH, task=GOAL, branch=BRANCH, turn=2, record="", rejected=("why",))
    goal = told(found(1), rejected)
    assert (goal.turn, goal.text, goal.needed) == (2, "goal 1", ())
