"""Feeds the commands of a stored session to today's code, and says where it would decide otherwise.

Each command meets the state that the recorded events led to, so one difference does not bring forth the next.
"""

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

import attrs

from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import ArrivedRequest, Identity
from mnemosyne.domain.history import replay
from mnemosyne.domain.history.replay import DecisionDifference, ReplayedDecision
from mnemosyne.domain.history.time_travel import Attempt, History, history_of
from mnemosyne.domain.objects.events import ObjectEvent, TurnAssessed
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.segmentation.ingest import Remember, head_of, remember, remember_of
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import FinishTurn, ForgetSession, Gap, InterruptTurn, decide
from mnemosyne.domain.session.events import (
    Event,
    GapRecorded,
    SessionForgotten,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import RoundEvent
from mnemosyne.domain.window.planning import WINDOW
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ContentForgotten, LogFailed
from mnemosyne.services import contexts
from mnemosyne.services.sessions import Archive, events_of


@attrs.frozen
class SkippedDecision:
    """A decision that could not be taken again."""

    version: int
    why: str

    @property
    def sentence(self) -> str:
        return f"Event {self.version} is skipped: {self.why}"


@attrs.frozen
class Review:
    """What came of a session: how many commands were decided again or skipped, and what is otherwise today."""

    session: UUID
    decisions: int
    differences: Sequence[DecisionDifference]
    skipped: Sequence[SkippedDecision]


async def review(archive: Archive, wanted: str, progress: Callable[[int, int], None] | None = None) -> Review:
    """Decide a session again; ``progress`` hears how many of how many events are done. Raises NotFound."""
    stream, events = await events_of(archive, wanted)
    judge = _Judge(archive, stream, events)
    for decision in replay.decisions(events):
        await judge.judge(decision)
        if progress is not None:
            progress(decision.events[-1].version, len(events))
    return Review(stream, judge.decisions, judge.differences, judge.skipped)


class _Judge:
    """One session: the memory that its actor would have, and what was found so far."""

    def __init__(self, archive: Archive, stream: UUID, events: Sequence[Recorded[Event]]) -> None:
        started = events[0].envelope.event
        if not isinstance(started, SessionStarted):
            raise LogFailed(f"session {stream} does not begin with its start")
        self._archive = archive
        self._stream = stream
        self._history: History = history_of(str(stream), events)
        self._speakers = replay.speakers(events)
        identity = Identity(stream=stream, tenant=started.tenant, external_id=started.external_id)
        self._memory = Loaded(identity, archive.contents, archive.events, lambda: started.salt)
        self._begun: tuple[TurnBegan, Transcript] | None = None
        self.decisions = 0
        self.differences: list[DecisionDifference] = []
        self.skipped: list[SkippedDecision] = []

    async def judge(self, decision: ReplayedDecision) -> None:
        """Decide once more, then let what was recorded count. What somebody else answered about an object, a helper or
        a person, is no decision of ours, and neither is a turn's account. What went upstream in the rounds of a
        managed turn is not decided again.
        """
        last = decision.last
        self.decisions += not isinstance(last, ObjectEvent | TurnAccounted | RoundEvent)
        match last:
            case TurnBegan():
                await self._judge_request(decision, last)
            case TurnFinished() | TurnInterrupted() | SessionForgotten():
                self._compare(decision, decide(_ending(last), self._memory.state))
                self._note(decision)
            case TurnAssessed():
                self._judge_memory(decision, last)
                self._note(decision)
            case _ if isinstance(last, ObjectEvent | TurnAccounted | RoundEvent):
                self._note(decision)
            case _:
                self.skipped.append(
                    SkippedDecision(decision.version, "the request that it belongs to is not in the log.")
                )
                self._note(decision)

    async def _judge_request(self, decision: ReplayedDecision, began: TurnBegan) -> None:
        version = decision.events[-1].version
        try:
            command, reading = await self._memory.read_turn(await self._request(version, began), _gap(decision))
        except (ContentForgotten, LogFailed) as error:
            self.skipped.append(SkippedDecision(version, str(error)))
            self._note(decision)
            return
        self._compare(decision, decide(command, self._memory.state), began.stored_sha256)
        self._note(decision)
        if began.stored_sha256 is None:  # what was withheld reads otherwise than what was sent
            self._memory.hold(began, reading.transcript)
        self._begun = began, reading.transcript

    def _judge_memory(self, decision: ReplayedDecision, assessed: TurnAssessed) -> None:
        if self._begun is None or _turn(self._begun[0]) != _turn(assessed):
            self.skipped.append(
                SkippedDecision(decision.version, "the request that it tells of was not decided again.")
            )
            return
        if decision.version < self._history.forgotten:
            self.skipped.append(SkippedDecision(decision.version, "the words of its objects were forgotten."))
            return
        command = self._remember(*self._begun)
        self._compare(decision, () if command is None else remember(command, self._memory.state))

    def _remember(self, began: TurnBegan, read: Transcript) -> Remember | None:
        branch = self._memory.state.branches[began.branch]
        shown = self._memory.state.memory.shown(branch.name)
        return remember_of(began, read, branch, shown, head_of(read, branch.tool_budget), WINDOW)

    async def _request(self, version: int, began: TurnBegan) -> ArrivedRequest:
        """The request as it came. Raises LogFailed, ContentForgotten."""
        rebuilt = await contexts.rebuild(self._archive, self._stream, self._history, Attempt(version, began))
        if not rebuilt.proven:
            raise LogFailed(f"its body {rebuilt.difference}.")
        headers = replay.headers_of(self._speaker(version))
        return ArrivedRequest(at=began.at, headers=headers, raw=rebuilt.body, correlation_id="")

    def _speaker(self, version: int) -> ClientHeaders:
        speaker = self._speakers[version]
        if speaker is None:
            raise LogFailed("the log does not say who spoke: it is from before that was recorded.")
        return speaker

    def _compare(self, decision: ReplayedDecision, today: Sequence[Event], proof: bytes | None = None) -> None:
        self.differences += replay.differences(decision, today, proof)

    def _note(self, decision: ReplayedDecision) -> None:
        for event in _events(decision):
            self._memory.note(event)


def _gap(decision: ReplayedDecision) -> Gap | None:
    for event in _events(decision):
        if isinstance(event, GapRecorded):
            return Gap(since=event.since, turns=event.turns, reason=event.reason)
    return None


def _events(decision: ReplayedDecision) -> Iterator[Event]:
    for each in decision.events:
        yield each.envelope.event


def _turn(event: TurnBegan | TurnAssessed) -> tuple[str, int]:
    return event.branch, event.turn


def _ending(event: TurnFinished | TurnInterrupted | SessionForgotten) -> FinishTurn | InterruptTurn | ForgetSession:
    """The command that an event came from; all that it says came with the command."""
    if isinstance(event, SessionForgotten):
        return ForgetSession(at=event.at)
    fields = attrs.asdict(event, recurse=False)
    address = Address(*(fields.pop(part) for part in ("branch", "turn", "attempt")))
    command = FinishTurn if isinstance(event, TurnFinished) else InterruptTurn
    return command(address=address, **fields)
