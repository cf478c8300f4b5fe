"""Objects that only earlier versions made. Their events stay readable; nothing makes them today."""

from collections.abc import Iterable

from mnemosyne.domain.objects.events import ObjectCreated, ObjectSuperseded
from mnemosyne.domain.objects.kinds import Role


def find_retired(events: Iterable[object]) -> frozenset[str]:
    """The ids of created claims: sentences that rules extracted from prompts and replies."""
    created = (event for event in events if isinstance(event, ObjectCreated))
    return frozenset(event.object for event in created if event.role is Role.CLAIM and not event.places)


def is_retired(event: object, retired: frozenset[str]) -> bool:
    """Whether an event creates a ``retired`` object, or records that one supersedes another object."""
    if isinstance(event, ObjectSuperseded):
        return event.by in retired
    return isinstance(event, ObjectCreated) and event.object in retired
