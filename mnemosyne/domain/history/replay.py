"""Replay: what today's code would decide on the commands that a log tells of, beside what was decided then.

How a body is stored is no decision: the same bytes may be cut in many ways. Which bytes they are is one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.objects.events import TurnAssessed
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.segmentation.ingest import Remember
from mnemosyne.domain.session.events import BranchOpened, Event, GapRecorded, SessionStarted, TurnBegan
from mnemosyne.domain.wire.identity import (
    AGENT_HEADER,
    AGENTS,
    PARENT_AGENT_HEADER,
    PARENT_SESSION_HEADER,
    SESSION_HEADER,
    ClientHeaders,
)

NO_DECISIONS = frozenset({"base", "body", "stored_sha256"})
"""Fields of TurnBegan that say how a body is stored. ``sha256`` is compared, and covers what is withheld."""


@attrs.frozen
class DecisionDifference:
    """One field of one event that today's code would decide otherwise. ``field`` is None where one of both is absent.

    ``version`` is that of the recorded event, or of the one that it would stand before.
    """

    version: int
    event: str
    field: str | None
    recorded: str
    today: str


@attrs.frozen
class ReplayedDecision:
    """The events that one command led to."""

    events: Sequence[Recorded[Event]]

    @property
    def version(self) -> int:
        return self.events[0].version

    @property
    def last(self) -> object:
        return self.events[-1].envelope.event


def decisions(recorded: Sequence[Recorded[Event]]) -> Iterator[ReplayedDecision]:
    """The events by command. A request leads to all events up to the one that says that it began; what is remembered of
    it, to all up to the one that assesses the turn.
    """
    waiting: list[Recorded[Event]] = []
    for each in recorded:
        waiting.append(each)
        if not _is_followed(each):
            yield ReplayedDecision(tuple(waiting))
            waiting = []
    if waiting:
        yield ReplayedDecision(tuple(waiting))


def _is_followed(recorded: Recorded[Event]) -> bool:
    """Whether the command that led to an event led to the next one, too."""
    event = recorded.envelope.event
    if recorded.envelope.causation_id == Remember.__name__:
        return not isinstance(event, TurnAssessed)
    return isinstance(event, SessionStarted | GapRecorded | BranchOpened)


def speakers(recorded: Sequence[Recorded[Event]]) -> Mapping[int, ClientHeaders | None]:
    """Who spoke in each request, by the version of its event; None where the log does not say."""
    last: dict[str, ClientHeaders] = {}
    found: dict[int, ClientHeaders | None] = {}
    for each in recorded:
        event = each.envelope.event
        if isinstance(event, TurnBegan):
            if event.speaker is not None:
                last[event.branch] = event.speaker
            found[each.version] = last.get(event.branch)
    return found


def headers_of(speaker: ClientHeaders) -> tuple[tuple[str, str], ...]:
    """Headers that say what a speaker's did: ``identity.speaker`` hears the same in them."""
    opening = next((agent.opening for agent in AGENTS if agent.client == speaker.client), "client/")
    named = {
        "user-agent": opening + (speaker.version or ""),
        SESSION_HEADER: speaker.external_id,
        PARENT_SESSION_HEADER: speaker.parent_external_id,
        AGENT_HEADER: speaker.agent_id,
        PARENT_AGENT_HEADER: speaker.parent_agent_id,
    }
    return tuple((name, value) for name, value in named.items() if value)


def differences(
    decision: ReplayedDecision, today: Sequence[Event], proof: bytes | None = None
) -> list[DecisionDifference]:
    """What is otherwise today. ``proof`` is the SHA-256 of the bytes that were fed to today's code, where a credential
    in them was withheld: they are not the bytes that were sent.
    """
    found: list[DecisionDifference] = []
    left = list(today)
    for each in decision.events:
        event = each.envelope.event
        match = next((other for other in left if _told_of(other) == _told_of(event)), None)
        name = type(event).__name__
        if match is None:
            found.append(DecisionDifference(each.version, name, None, "decided", "not decided"))
            continue
        left.remove(match)
        found += _fields(each.version, event, match, proof)
    last = decision.events[-1].version
    return found + [DecisionDifference(last, type(other).__name__, None, "not decided", "decided") for other in left]


def _told_of(event: object) -> tuple[type, object]:
    """What an event is, and of which object: events that are alike in both are compared."""
    return type(event), getattr(event, "object", None)


def _fields(version: int, recorded: Any, today: Any, proof: bytes | None) -> Iterator[DecisionDifference]:
    for field in attrs.fields(type(recorded)):
        if isinstance(recorded, TurnBegan) and field.name in NO_DECISIONS:
            continue
        was, now = getattr(recorded, field.name), getattr(today, field.name)
        if field.name == "sha256" and proof is not None:
            was = proof
        if was != now:
            yield DecisionDifference(version, type(recorded).__name__, field.name, shown(was), shown(now))


def shown(value: object) -> str:
    """A value of an event for people."""
    match value:
        case bytes():
            return value.hex()
        case tuple() if value and all(isinstance(each, bytes) for each in value):
            return f"{len(value)} hashes, the last {value[-1].hex()}"
        case _:
            return str(getattr(value, "value", value))
