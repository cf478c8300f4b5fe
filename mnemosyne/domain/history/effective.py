"""Effective tokens: of what was sent of objects, how much was of use later. A function of what the log holds."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from mnemosyne.domain.history import loading
from mnemosyne.domain.objects.events import LinkRelation, ObjectCreated, ObjectFaulted, TurnAssessed
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import BranchOpened, Event
from mnemosyne.domain.session.state import Session, evolve


@attrs.frozen
class EffectiveTokens:
    """How many tokens of objects requests held (``sent``), and of these, how many of objects that were ``used`` after
    the request that held them. Both are estimates, and each request counts what it held.
    """

    sent: int = 0
    used: int = 0

    def __add__(self, other: "EffectiveTokens") -> "EffectiveTokens":
        return EffectiveTokens(self.sent + other.sent, self.used + other.used)

    @property
    def share(self) -> float | None:
        """``used`` of ``sent``; None where nothing was sent."""
        return self.used / self.sent if self.sent else None


def find_last_uses(events: Iterable[Recorded[Event]]) -> Mapping[str, int]:
    """The version of the last event that shows that an object was of use, by object.

    A later object of the conversation refers to it (what takes its place does not count), the model restored it or
    asked about it, or the agent fetched it again.
    """
    found: dict[str, int] = {}
    for each in events:
        found.update(dict.fromkeys(_list_used(each.envelope.event), each.version))
    return found


def _list_used(event: Event) -> Sequence[str]:
    match event:
        case ObjectCreated() if event.places:
            return [link.target for link in event.links if link.relation is not LinkRelation.SUPERSEDES]
        case ObjectFaulted():
            return [event.object]
        case _:
            return ()


def measure_session(events: Sequence[Recorded[Event]]) -> EffectiveTokens:
    """What the turns of a session held of objects, once each was assessed, and how much of that was used later.
    Branches of which the log does not tell how they began are left out.
    """
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
