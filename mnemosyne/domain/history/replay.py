"""Replay: what today's code would decide on the commands that a log tells of, beside what was decided then.

How a body is stored is no decision: the same bytes may be cut in many ways. Which bytes they are is one.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs

from mnemosyne.domain.objects.events import ObjectFaulted, TurnAssessed
from mnemosyne.domain.objects.retired import find_retired, is_retired
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.segmentation.ingest import Remember
from mnemosyne.domain.session.decide import BeginTurn, FinishTurn
from mnemosyne.domain.session.events import BranchOpened, Event, GapRecorded, SessionStarted, TurnBegan
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import FallbackSent, RoundBegan, RoundFinished
from mnemosyne.domain.wire.identity import (
    AGENT_HEADER,
    AGENTS,
    OAUTH_BETA,
    PARENT_AGENT_HEADER,
    PARENT_SESSION_HEADER,
    SESSION_HEADER,
    ClientHeaders,
    Credential,
)

_STORED = frozenset({"base", "body", "stored_sha256"})
"""How a body is stored. ``sha256`` is compared, and covers what is withheld."""

NO_DECISIONS: Mapping[type, frozenset[str]] = {
    TurnBegan: _STORED,
    RoundBegan: _STORED,
    FallbackSent: _STORED,
    ObjectFaulted: frozenset({"latency"}),
}
"""Fields that say what was not decided: how something is stored, how long it took."""


FEATURE_REMOVED = "feature removed"
"""Why today's code makes no event that an earlier version made."""


@attrs.frozen
class DecisionDifference:
    """One field of one event that today's code would decide otherwise. ``field`` is None where one of both is absent.

    ``version`` is that of the recorded event, or of the one that it would stand before; ``turn`` the turn that it is
    about (``main 7``), None for what is about none.
    """

    version: int
    turn: str | None
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

    @property
    def turn(self) -> str | None:
        """The turn that it is about, as people name it."""
        branch, turn = getattr(self.last, "branch", None), getattr(self.last, "turn", None)
        return f"{branch} {turn}" if branch is not None and turn is not None else None


def decisions(recorded: Sequence[Recorded[Event]]) -> Iterator[ReplayedDecision]:
    """The events by command. A request leads to all up to the one that says that it began, and to what leaves for it;
    what is remembered of it, to all up to the one that assesses the turn; the end of a round to what its answers
    changed; a later round, to the rewrite that it begins with and to what leaves.
    """
    waiting: list[Recorded[Event]] = []
    for each, following in pairwise((*recorded, None)):
        assert each is not None
        waiting.append(each)
        if following is None or not _is_followed(each, following):
            yield ReplayedDecision(tuple(waiting))
            waiting = []


_LEAVES, _ENDS, _ROUND_ENDS = "Begin", "Finish", frozenset({"AnswerCalls", "Refused", "Finish"})
_ROUND_LEAVES = "NextRound"
"""What is said to an actor (``actors/messages.py``), as the log names it."""


def _is_followed(one: Recorded[Event], next_: Recorded[Event]) -> bool:
    """Whether the command that led to an event led to the next one, too."""
    event, cause, then = one.envelope.event, one.envelope.causation_id, next_.envelope.causation_id
    if cause == Remember.__name__:
        return not isinstance(event, TurnAssessed)
    if isinstance(event, SessionStarted | GapRecorded | BranchOpened):
        return True
    if one.envelope.correlation_id != next_.envelope.correlation_id:
        return False
    if then == _LEAVES:
        return cause in (BeginTurn.__name__, _LEAVES)
    if cause == then == _ROUND_LEAVES:
        return not isinstance(event, RoundBegan)
    if isinstance(next_.envelope.event, RoundFinished | RoundBegan):
        return False
    return (cause in _ROUND_ENDS and then == cause) or (cause == _ENDS and then == FinishTurn.__name__)


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
    return tuple((name, value) for name, value in named.items() if value) + _CREDENTIALS[speaker.credential]


_NO_TOKEN = "Bearer \x01"
_CREDENTIALS: Mapping[Credential | None, tuple[tuple[str, str], ...]] = {
    None: (),
    "key": (("x-api-key", "\x01"),),
    "bearer": (("authorization", _NO_TOKEN),),
    "oauth": (("authorization", _NO_TOKEN), ("anthropic-beta", OAUTH_BETA)),
}
"""What stands for a credential of each kind: nothing that a request could hold, or it would be withheld from it."""


def differences(decision: ReplayedDecision, today: Sequence[Event]) -> list[DecisionDifference]:
    """What is otherwise today. The settings are no part of it: they are given, not decided."""
    found: list[DecisionDifference] = []
    left = [event for event in today if not isinstance(event, SettingsTaken)]
    retired = find_retired(each.envelope.event for each in decision.events)
    for each in decision.events:
        event = each.envelope.event
        if isinstance(event, SettingsTaken):
            continue
        match = next((other for other in left if _key_of(other) == _key_of(event)), None)
        name = type(event).__name__
        if match is None:
            now = f"not decided: {FEATURE_REMOVED}" if is_retired(event, retired) else "not decided"
            found.append(DecisionDifference(each.version, decision.turn, name, None, f"decided{_why(event)}", now))
            continue
        left.remove(match)
        found += _fields(each.version, decision.turn, event, match)
    last = decision.events[-1].version
    return found + [
        DecisionDifference(last, decision.turn, type(other).__name__, None, "not decided", f"decided{_why(other)}")
        for other in left
    ]


def _why(event: object) -> str:
    said = getattr(event, "reason", None) or getattr(event, "why", None)
    return f": {render(said)}" if said else ""


def _key_of(event: object) -> tuple[type, object]:
    """What an event is, and of which object: events that are alike in both are compared."""
    return type(event), getattr(event, "object", None)


def _fields(version: int, turn: str | None, recorded: Any, today: Any) -> Iterator[DecisionDifference]:
    for field in attrs.fields(type(recorded)):
        if field.name in NO_DECISIONS.get(type(recorded), ()):
            continue
        was, now = getattr(recorded, field.name), getattr(today, field.name)
        if field.name == "sha256" and recorded.stored_sha256 is not None:
            # Of a credential that was withheld there are stars: those bytes were fed to today's code.
            was = recorded.stored_sha256
        if was != now:
            yield DecisionDifference(version, turn, type(recorded).__name__, field.name, render(was), render(now))


def render(value: object) -> str:
    """A value of an event for people."""
    match value:
        case bytes():
            return value.hex()
        case tuple() if value and all(isinstance(each, bytes) for each in value):
            return f"{len(value)} hashes, the last {value[-1].hex()}"
        case _:
            return str(getattr(value, "value", value))
