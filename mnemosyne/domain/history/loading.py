"""Load a session's state from all its events at once: the result of folding them one by one, at a much lower cost.

Folding computes every body's recipe from the previous one, though only the last recipe of each branch is used. Loading
folds the events without bodies, then assembles these last recipes from the events that contribute to them.
"""

from collections.abc import Iterable, Sequence

import attrs

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import History
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.address import BodyEvent
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.state import Branch, Session, evolve_all
from mnemosyne.domain.wire import recipe

_NOTHING = recipe.encode(recipe.change_of(0, (), 0))


def without_body(event: Event) -> Event:
    return attrs.evolve(event, body=_NOTHING) if isinstance(event, BodyEvent) else event


def fold(events: Iterable[Recorded[Event]], session: Session | None = None) -> Session:
    """The state after events, without the bodies of its branches."""
    return evolve_all(session or Session(), (without_body(each.envelope.event) for each in events))


def with_bodies(session: Session, stream: str, recorded: Sequence[Recorded[Event]]) -> Session:
    """Add the recipes of bodies to a state that was folded from ``recorded`` without bodies. Raises LogFailed."""
    history = time_travel.history_of(stream, recorded)
    return attrs.evolve(session, branches=dict(_whole(history, session.branches.values())))


def _whole(history: History, branches: Iterable[Branch]) -> Iterable[tuple[str, Branch]]:
    for branch in branches:
        if branch.body_version:
            branch = attrs.evolve(branch, body=time_travel.body_of(history, branch.body_version))
        if branch.wire is not None:
            body = time_travel.body_of(history, branch.wire.body_version)
            branch = attrs.evolve(branch, wire=attrs.evolve(branch.wire, body=body))
        yield branch.name, branch
