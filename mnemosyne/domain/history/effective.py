"""Effective tokens: how many of the object tokens sent were used later, computed from the log."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from mnemosyne.domain.history import loading
from mnemosyne.domain.objects.events import LinkRelation, ObjectCreated, ObjectFaulted, TurnAssessed
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import BranchOpened, Event
from mnemosyne.domain.session.state import Session, evolve


@attrs.frozen
class EffectiveTokens:
    """Tokens of objects in requests (``sent``), and those of objects that were ``used`` after the request. Both are
    estimates, summed over all requests.
    """

    sent: int = 0
    used: int = 0

    def __add__(self, other: "EffectiveTokens") -> "EffectiveTokens":
        return EffectiveTokens(self.sent + other.sent, self.used + other.used)

    @property
    def share(self) -> float | None:
        """``used`` divided by ``sent``; None if nothing was sent."""
        return self.used / self.sent if self.sent else None


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


def measure_session(events: Sequence[Recorded[Event]]) -> EffectiveTokens:
    """The effective tokens of all assessed turns of a session. Branches whose opening the log lacks are skipped."""
    last_uses = find_last_uses(events)
    opened = {each.envelope.event.branch for each in events if isinstance(each.envelope.event, BranchOpened)}
    session, total = Session(), EffectiveTokens()
    for each in events:
        event = each.envelope.event
        if getattr(event, "branch", None) not in (None, *opened):
            continue
        session = evolve(session, loading.without_body(event))
        if isinstance(event, TurnAssessed):
            total += _measure_turn(session, event, each.version, last_uses)
    return total


def _measure_turn(
    session: Session, assessed: TurnAssessed, version: int, last_uses: Mapping[str, int]
) -> EffectiveTokens:
    standings = [
        (each.tokens_at(level) or 0, last_uses.get(each.id, 0) > version)
        for each, level in session.memory.standings(assessed.branch)
        if each.places and not each.forgotten
    ]
    return EffectiveTokens(
        sum(tokens for tokens, _ in standings), sum(tokens for tokens, is_used in standings if is_used)
    )
