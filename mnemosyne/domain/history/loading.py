"""The state of a session from all its events at once: what folding them one by one gives, at a cost that hardly grows.

Folding makes every body's recipe from the one before, and only the last of each branch is looked at again. Here the
bodies are left out on the way, and those last ones are then put together from the events that still show in them.
"""

from collections.abc import Iterable, Sequence

import attrs

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import History
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event, TurnBegan
from mnemosyne.domain.session.round_events import FallbackSent, RoundBegan
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.wire import recipe

_NOTHING = recipe.encode(recipe.change_of(0, (), 0))


def without_body(event: Event) -> Event:
    """The event, with a body of no bytes."""
    return attrs.evolve(event, body=_NOTHING) if isinstance(event, TurnBegan | RoundBegan | FallbackSent) else event


def with_bodies(session: Session, stream: str, recorded: Sequence[Recorded[Event]]) -> Session:
    """The state that the events lead to, from the one that they lead to without their bodies. Raises LogFailed."""
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
