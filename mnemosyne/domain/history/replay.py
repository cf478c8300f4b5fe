"""Replay: compare the decisions of the current code with the recorded ones, for the commands in a log.

The bytes of a body are a decision. How they are stored is not: the same bytes can be encoded in many ways.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs

from mnemosyne.domain.objects.events import ObjectCreated, ObjectFaulted, ObjectSuperseded, TurnAssessed
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.segmentation.ingest import Remember
from mnemosyne.domain.session.decide import BeginTurn, FinishTurn
from mnemosyne.domain.session.events import BranchOpened, Event, GapRecorded, SessionStarted, TurnBegan
from mnemosyne.domain.session.input_events import SettingsTaken
from mnemosyne.domain.session.round_events import FallbackSent, RoundBegan, RoundFinished
from mnemosyne.domain.wire import identity

_STORED = frozenset({"base", "body", "stored_sha256"})
"""Fields about the storage of a body. ``sha256`` is compared, and covers withheld bytes."""

NO_DECISIONS: Mapping[type, frozenset[str]] = {
    TurnBegan: _STORED,
    RoundBegan: _STORED,
    FallbackSent: _STORED,
    ObjectFaulted: frozenset({"latency", "why"}),
}
"""Fields that are not decisions, such as storage and durations, and reasons that older logs lack."""


FEATURE_REMOVED = "feature removed"
"""The reason why the current code does not make an event of an earlier version."""


@attrs.frozen
class DecisionDifference:
    """One field of one event that the current code decides differently. ``field`` is None if either event is absent.

    ``version`` is the version of the recorded event, or of the decision's last one if that event is absent; ``turn`` is
    its turn (``main 7``), None if it belongs to none.
    """

    version: int
    turn: str | None
    event: str
    field: str | None
    recorded: str
    today: str


@attrs.frozen
class ReplayedDecision:
    """The events that one command caused."""

    events: Sequence[Recorded[Event]]

    @property
    def version(self) -> int:
        return self.events[0].version

    @property
    def last(self) -> object:
        return self.events[-1].envelope.event

    @property
    def turn(self) -> str | None:
        branch, turn = getattr(self.last, "branch", None), getattr(self.last, "turn", None)
        return f"{branch} {turn}" if branch is not None and turn is not None else None


def decisions(recorded: Sequence[Recorded[Event]]) -> Iterator[ReplayedDecision]:
    """Group the events by command. A request causes the events up to its TurnBegan and the events of the request
    sent for it; ingestion causes the events up to TurnAssessed; the end of a round causes the events of its answers; a
    later round causes the events of its rewrite and of the request sent.
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
"""Names of actor messages (``actors/messages.py``) as the log records them."""


def _is_followed(one: Recorded[Event], next_: Recorded[Event]) -> bool:
    """Whether the command that caused an event also caused the next one."""
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


def find_client_headers(recorded: Sequence[Recorded[Event]]) -> Mapping[int, identity.ClientHeaders | None]:
    """The client headers of each request, by the version of its event; None if the log does not say."""
    last: dict[str, identity.ClientHeaders] = {}
    by_version: dict[int, identity.ClientHeaders | None] = {}
    for each in recorded:
        event = each.envelope.event
        if isinstance(event, TurnBegan):
            if event.speaker is not None:
                last[event.branch] = event.speaker
            by_version[each.version] = last.get(event.branch)
    return by_version


def headers_of(client: identity.ClientHeaders) -> tuple[tuple[str, str], ...]:
    """Headers equivalent to those of a client: ``identity.read_client_headers`` reads the same from them."""
    opening = next((agent.opening for agent in identity.AGENTS if agent.client == client.client), "client/")
    named = {
        "user-agent": opening + (client.version or ""),
        identity.SESSION_HEADER: client.external_id,
        identity.PARENT_SESSION_HEADER: client.parent_external_id,
        identity.AGENT_HEADER: client.agent_id,
        identity.PARENT_AGENT_HEADER: client.parent_agent_id,
        identity.BETAS_HEADER: identity.UNRECORDED if client.betas is None else ",".join(client.betas),
    }
    return tuple((name, value) for name, value in named.items() if value) + _CREDENTIALS[client.credential]


_CREDENTIALS: Mapping[identity.Credential | None, tuple[tuple[str, str], ...]] = {
    None: (),
    "key": (("x-api-key", identity.UNRECORDED),),
    "bearer": (("authorization", f"Bearer {identity.UNRECORDED}"),),
    "oauth": (("authorization", f"Bearer {identity.OAUTH_TOKEN}{identity.UNRECORDED}"),),
}
"""A placeholder for each kind of credential: text that no request can contain, because it would be withheld."""


def differences(decision: ReplayedDecision, today: Sequence[Event]) -> list[DecisionDifference]:
    """The differences between a recorded decision and the events of the current code. Settings are skipped: they are
    inputs, not decisions.
    """
    found: list[DecisionDifference] = []
    unmatched = [event for event in today if not isinstance(event, SettingsTaken)]
    retired = find_retired(each.envelope.event for each in decision.events)
    for each in decision.events:
        event = each.envelope.event
        if isinstance(event, SettingsTaken):
            continue
        match = next((other for other in unmatched if _key_of(other) == _key_of(event)), None)
        name = type(event).__name__
        if match is None:
            now = f"not decided: {FEATURE_REMOVED}" if is_retired(event, retired) else "not decided"
            found.append(DecisionDifference(each.version, decision.turn, name, None, f"decided{_why(event)}", now))
            continue
        unmatched.remove(match)
        found += _fields(each.version, decision.turn, event, match)
    last = decision.events[-1].version
    return found + [
        DecisionDifference(last, decision.turn, type(other).__name__, None, "not decided", f"decided{_why(other)}")
        for other in unmatched
    ]


def by_older_rule(found: Sequence[DecisionDifference]) -> list[DecisionDifference]:
    """The differences that changes of 2026-11-29 explain: links of decisions, and what a search finds and shows."""
    if (RoundFinished.__name__, "answers") in {(each.event, each.field) for each in found}:
        return [*found]  # its tokens and faults follow from it
    return [each for each in found if (each.event, each.field) == (ObjectCreated.__name__, "links")]


def _why(event: object) -> str:
    reason = getattr(event, "reason", None) or getattr(event, "why", None)
    return f": {render(reason)}" if reason else ""


def _key_of(event: object) -> tuple[type, object]:
    """An event's type and object: events with equal keys are compared."""
    return type(event), getattr(event, "object", None)


def _fields(version: int, turn: str | None, recorded: Any, today: Any) -> Iterator[DecisionDifference]:
    for field in attrs.fields(type(recorded)):
        if field.name in NO_DECISIONS.get(type(recorded), ()):
            continue
        was, now = getattr(recorded, field.name), getattr(today, field.name)
        if field.name == "sha256" and recorded.stored_sha256 is not None:
            # The current code was fed the rebuilt bytes, in which a withheld credential is replaced by stars.
            was = recorded.stored_sha256
        if was != now:
            yield DecisionDifference(version, turn, type(recorded).__name__, field.name, render(was), render(now))


# Claims: objects that only earlier versions made


def find_retired(events: Iterable[object]) -> frozenset[str]:
    """The ids of created claims: sentences that rules extracted from prompts and replies."""
    created = (event for event in events if isinstance(event, ObjectCreated))
    return frozenset(event.object for event in created if event.role is Role.CLAIM and not event.places)


def is_retired(event: object, retired: frozenset[str]) -> bool:
    """Whether an event creates a ``retired`` object, or records that one supersedes another object."""
    if isinstance(event, ObjectSuperseded):
        return event.by in retired
    return isinstance(event, ObjectCreated) and event.object in retired


def render(value: object) -> str:
    """Render a value of an event for people."""
    match value:
        case bytes():
            return value.hex()
        case tuple() if value and all(isinstance(each, bytes) for each in value):
            return f"{len(value)} hashes, the last {value[-1].hex()}"
        case _:
            return str(getattr(value, "value", value))
