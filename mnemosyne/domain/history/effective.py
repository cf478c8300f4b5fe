"""Effective tokens: how many of the object tokens sent were used later, computed from the log."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from mnemosyne.domain.objects.events import LinkRelation, ObjectCreated, ObjectFaulted
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event


@attrs.frozen
class EffectiveTokens:
    """Tokens of objects in a request (``sent``), and those of objects that were ``used`` after it: estimates."""

    sent: int = 0
    used: int = 0


def find_last_uses(events: Iterable[Recorded[Event]]) -> Mapping[str, int]:
    """The version of the last event that shows a use of an object, by object.

    A use is a reference from a later object (its successor's does not count), a restore, a question about it, or a
    fetch of the same content by the agent.
    """
    last_uses: dict[str, int] = {}
    for recorded in events:
        last_uses.update(dict.fromkeys(_list_used(recorded.envelope.event), recorded.version))
    return last_uses


def _list_used(event: Event) -> Sequence[str]:
    match event:
        case ObjectCreated() if event.places:
            return [link.target for link in event.links if link.relation is not LinkRelation.SUPERSEDES]
        case ObjectFaulted():
            return [event.object]
        case _:
            return ()
