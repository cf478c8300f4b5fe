"""Feeds the commands of a stored session to today's code, and says where it would decide otherwise.

Each command is said to an actor that stands where the recorded events led to, with the settings of then; the index
answers what it answered then, and what came too late then does so now. So one difference does not bring forth the next.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.actors.cleanup import CleanupTexts
from mnemosyne.actors.deferred_work import DeferredWork
from mnemosyne.actors.known_credentials import KnownCredentials
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.managed_turn import ManagedTurn
from mnemosyne.actors.messages import (
    AnswerCalls,
    ArrivedRequest,
    Begin,
    Continuation,
    Fallback,
    Finish,
    Identity,
    Interrupt,
    Message,
    NextRound,
    NothingSent,
    Outgoing,
    Passthrough,
    Prepare,
    Refused,
    RoundEnd,
    UpstreamPlan,
)
from mnemosyne.actors.session import SessionActor
from mnemosyne.domain.cost.catalogue import in_force
from mnemosyne.domain.history import replay, time_travel
from mnemosyne.domain.history.replay import DecisionDifference, ReplayedDecision
from mnemosyne.domain.history.time_travel import Attempt, History, history_of
from mnemosyne.domain.objects.events import ObjectEvent, TurnAssessed
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import ForgetSession, Gap, decide
from mnemosyne.domain.session.decision_inputs import HelperAnswer, InputsSoFar, TakenSettings, after
from mnemosyne.domain.session.events import (
    BranchKind,
    BranchOpened,
    Event,
    GapRecorded,
    SessionForgotten,
    SessionStarted,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.domain.session.input_events import Awaited, GroundsNoted, HelperAsked, InputEvent, SettingsTaken
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.retired import RetiredEvent
from mnemosyne.domain.session.round_events import (
    BranchModeSet,
    FallbackSent,
    KnowledgeTold,
    Mode,
    RoundBegan,
    RoundEvent,
    RoundFinished,
)
from mnemosyne.domain.session.state import evolve_all
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import rounds
from mnemosyne.domain.window.refusals import refusal_of
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.reply import HiddenCall, Reply, json_object
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ContentForgotten, LogFailed, NotFound, Outdated
from mnemosyne.http.rewriters import rules_of
from mnemosyne.http.splicing import end_of_round
from mnemosyne.replay.recorded_services import Hearing, RecordedServices
from mnemosyne.services import contexts
from mnemosyne.services.sessions import Archive, events_of

OLD = "the log does not say with which settings that was decided: it is from before that was recorded."


REMOVED = "feature removed: goals and prefetch, which took part in it, are no longer there."


class _AsItStood:
    """The log as an actor finds it whose state is all that had happened: nobody has written since."""

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        """See domain.ports.StreamReader."""
        return ()


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
    other_tables: Sequence[bytes] = ()
    """The digests of tables of models, other than today's, that it was decided with."""

    @property
    def turns(self) -> Sequence[str]:
        """The turns of which anything would be decided otherwise today, in the order of the log."""
        return list(dict.fromkeys(each.turn for each in self.differences if each.turn is not None))


async def review(
    archive: Archive,
    wanted: str,
    progress: Callable[[int, int], None] | None = None,
    *,
    window: int | None = None,
) -> Review:
    """Decide a session again; ``progress`` hears how many of how many events are done. Raises NotFound.

    A ``window`` stands for the recorded one in what is decided of managed requests.
    """
    stream, events = await events_of(archive, wanted)
    judge = _Judge(archive, stream, events, window)
    for decision in replay.decisions(events):
        await judge.judge(decision)
        if progress is not None:
            progress(decision.events[-1].version, len(events))
    taken = (each.envelope.event for each in events)
    tables = dict.fromkeys(each.models for each in taken if isinstance(each, SettingsTaken) and each.models)
    others = [digest for digest in tables if digest != in_force().digest]
    return Review(stream, judge.decisions, judge.differences, judge.skipped, others)


@attrs.define
class _ReplayedTurn:
    """A turn under way: the client's request, and what an actor knows of the turn, if nothing is otherwise today."""

    request: bytes
    read: Transcript
    turn: ManagedTurn | None = None


class _Judge:
    """One session: the memory that its actor would have, and what was found so far."""

    def __init__(self, archive: Archive, stream: UUID, events: Sequence[Recorded[Event]], window: int | None) -> None:
        started = events[0].envelope.event
        if not isinstance(started, SessionStarted):
            raise LogFailed(f"session {stream} does not begin with its start")
        self._archive = archive
        self._stream = stream
        self._window = window
        self._history: History = history_of(str(stream), events)
        self._speakers = replay.speakers(events)
        identity = Identity(stream=stream, tenant=started.tenant, external_id=started.external_id)
        self._callers = KnownCredentials()
        self._memory = Loaded(identity, archive.contents, archive.events, lambda: started.salt, self._callers)
        texts = CleanupTexts(self._memory, RecordedServices(InputsSoFar()).patience)
        self._deferred = DeferredWork(self._memory, texts, rounds.SETTINGS)
        self._under_way: dict[Address, _ReplayedTurn] = {}
        self._begun: tuple[str, int] | None = None
        self.decisions = 0
        self.differences: list[DecisionDifference] = []
        self.skipped: list[SkippedDecision] = []

    async def judge(self, decision: ReplayedDecision) -> None:
        """Decide once more, then let what was recorded count. What somebody else answered about an object, a helper or
        a person, is no decision of ours.
        """
        again = self._again(decision)
        if again is not None:
            self.decisions += 1
            try:
                today = await again(decision)
            except (ContentForgotten, LogFailed, _CannotBeDecided) as error:
                self._skip(decision, str(error))
            else:
                if _involves_removed_feature(decision):
                    self._skip(decision, REMOVED)
                else:
                    self.differences += replay.differences(decision, today)
        await self._note(decision)

    def _again(self, decision: ReplayedDecision) -> "_Again | None":
        """How it is decided again; None for what is taken over."""
        events = [*_events(decision)]
        match decision.last:
            case _ if any(isinstance(event, TurnBegan) for event in events):
                return self._request_again
            case TurnAssessed():
                return self._memory_again
            case TurnAccounted():
                return self._account_again
            case SessionForgotten():
                return self._forget_again
            case TurnInterrupted():
                return self._interrupt_again
            case TurnFinished():
                return self._finish_again
            case RoundBegan() if decision.events[0].envelope.causation_id == NextRound.__name__:
                return self._next_round_again
            case _ if any(isinstance(event, RoundFinished) for event in events):
                return self._round_again
            case _ if isinstance(decision.last, ObjectEvent | RoundEvent | RetiredEvent | InputEvent):
                return None
            case _:
                return _orphan

    # Requests

    async def _request_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        version, began = next(
            (each.version, each.envelope.event)
            for each in decision.events
            if isinstance(each.envelope.event, TurnBegan)
        )
        self._begun = None
        request = await self._request(version, began, decision)
        gap = _gap(decision)
        _, reading = await self._memory.apart().read_turn(request, gap)
        read = reading.transcript
        address = Address(began.branch, began.turn, began.attempt)
        self._under_way[address] = _ReplayedTurn(request.raw, read)
        self._begun = began.branch, began.turn
        if self._is_old(decision):
            return await self._open_alone(decision, request, gap)
        heard = Hearing()
        actor = self._actor(decision, heard)
        outgoing = await self._outgoing(actor, decision, request, read)
        await _say(actor, Begin(request=request, outgoing=outgoing, gap=gap))
        self._keep(decision, heard, address, actor)
        return heard.events

    async def _open_alone(
        self, decision: ReplayedDecision, request: ArrivedRequest, gap: Gap | None
    ) -> Sequence[Event]:
        """Where it belongs; what left for it is taken over."""
        self._skip(decision, f"what left for it; {OLD}")
        command, _ = await self._memory.apart().read_turn(request, gap)
        left = [event for event in _events(decision) if not isinstance(event, _OPENING)]
        return *decide(command, self._memory.state), *left

    def _is_old(self, decision: ReplayedDecision) -> bool:
        """Whether settings of a server decided it that are not on record."""
        if self._find_settings(decision) is not None:
            return False
        managed = any(isinstance(event, RoundEvent) for event in _events(decision))
        branches = self._memory.state.branches
        last: Any = decision.last
        return managed or (last.branch in branches and branches[last.branch].mode is not Mode.OBSERVE)

    async def _request(self, version: int, began: TurnBegan, decision: ReplayedDecision) -> ArrivedRequest:
        """The request as it came. Raises LogFailed, ContentForgotten."""
        rebuilt = await contexts.rebuild(self._archive, self._stream, self._history, Attempt(version, began))
        if not rebuilt.proven:
            raise LogFailed(f"its body {rebuilt.difference}.")
        taken = self._find_settings(decision)
        credential = version.to_bytes(8)  # nothing of a credential is on record, but whom it was taken for
        opened = next((event for event in _events(decision) if isinstance(event, BranchOpened)), None)
        if opened is not None and opened.kind is BranchKind.SUCCESSOR and opened.parent is not None:
            self._callers.note(self._stream, opened.parent, credential)
        noted = next((event for event in _events(decision) if isinstance(event, GroundsNoted)), None)
        return ArrivedRequest(
            at=began.at,
            headers=replay.headers_of(self._speaker(version)),
            raw=rebuilt.body,
            correlation_id="",
            wanted=noted.wanted if noted is not None else None,
            default=taken.mode if taken is not None else Mode.OBSERVE,
            credential=credential,
            dialect=self._history.dialect_of(began.branch),
        )

    def _speaker(self, version: int) -> ClientHeaders:
        speaker = self._speakers[version]
        if speaker is None:
            raise LogFailed("the log does not say who spoke: it is from before that was recorded.")
        return speaker

    async def _outgoing(
        self, actor: SessionActor, decision: ReplayedDecision, request: ArrivedRequest, read: Transcript
    ) -> Outgoing:
        """What leaves for a request: what the actor proposes, if it was asked and answered in time then."""
        events = [*_events(decision)]
        sent = next((each for each in decision.events if isinstance(each.envelope.event, RoundBegan)), None)
        fallback = next((each for each in decision.events if isinstance(each.envelope.event, FallbackSent)), None)
        began = next(event for event in events if isinstance(event, TurnBegan))
        opened = evolve_all(self._memory.state, [event for event in events if isinstance(event, _OPENING)])
        mode = opened.branches[began.branch].mode
        decided = next((event for event in events if isinstance(event, BranchModeSet)), None)
        late, left = _find_inputs(decision).late, sent or fallback
        if Awaited.LEAVING in late:
            return NothingSent()
        if Awaited.ACTOR in late:
            return Passthrough(late=True) if left is None else Continuation(body=await self._body(left.version))
        if fallback is not None and isinstance(fallback.envelope.event, FallbackSent):
            return await self._fallback(fallback.version, fallback.envelope.event.why, read)
        if sent is not None and mode is Mode.OBSERVE and decided is not None and decided.mode is Mode.BYPASS:
            return await self._fallback(sent.version, decided.why, read)
        too_late = decided is not None and decided.why == rounds.TOO_LATE
        if sent is None and (too_late or mode is not Mode.OBSERVE):
            return Passthrough()  # nothing was proposed in time
        if sent is None and (request.wanted or request.default) is Mode.OBSERVE:
            return Passthrough()  # nobody was asked
        answer = await actor.do(Prepare(request=request))
        assert isinstance(answer, UpstreamPlan)
        return answer.proposal or Passthrough()

    async def _fallback(self, version: int, why: str, read: Transcript) -> Fallback:
        """What left without the actor: made again where that is ours to make, else as it is on record."""
        body = rounds.without_thinking(read) if why in (rounds.NO_ANSWER, rounds.NO_ROOM) else None
        return Fallback(await self._body(version) if body is None else body, why)

    async def _body(self, version: int) -> bytes:
        """A body as it left."""
        return await self._memory.bodies.assemble(time_travel.body_of(self._history, version))

    # Rounds and ends

    async def _next_round_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        (began,) = (event for event in _events(decision) if isinstance(event, RoundBegan))
        address, heard = _address(began), Hearing()
        under_way = self._turn(decision, address)
        actor = self._actor(decision, heard)
        turn = await actor.rounds.turn_of(address, under_way.request)
        if turn is None:
            raise _CannotBeDecided("an earlier turn of its branch, of which the actor knew more than the log.")
        body = turn.body(address.attempt)
        await _say(actor, NextRound(at=began.at, address=address, body=body, request=under_way.request, **_ID))
        self._keep(decision, heard, address, actor)
        return heard.events

    async def _round_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        """A round that another followed, or might have."""
        finished = next(event for event in _events(decision) if isinstance(event, RoundFinished))
        address, heard = _address(finished), Hearing()
        under_way = self._turn(decision, address)
        actor = self._actor(decision, heard)
        end = await self._end_of_round(finished, under_way)
        message: Message
        if decision.events[0].envelope.causation_id == Refused.__name__:
            kind = refusal_of(end.reply.body, under_way.read.tools, under_way.read.dialect)
            if kind is None:
                return ()
            message = Refused(
                at=finished.at, address=address, refusal=kind, reply=end.reply, request=end.request, **_ID
            )
        else:
            sent = await self._find_substitutes(decision, finished)
            helped = _find_helped(decision, end.calls)
            message = AnswerCalls(at=finished.at, address=address, round=end, sent=sent, helped=helped, **_ID)
        await _say(actor, message)
        self._keep(decision, heard, address, actor)
        return heard.events

    async def _find_substitutes(self, decision: ReplayedDecision, finished: RoundFinished) -> dict[str, bytes] | None:
        """What whoever waited told the model instead of the answers; None where it got these in time."""
        if Awaited.ANSWERS not in _find_inputs(decision).late:
            return None
        return {each.call: await self._read_stored(each.result) for each in finished.answers}

    async def _finish_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        event = decision.last
        assert isinstance(event, TurnFinished)
        address, heard = _address(event), Hearing()
        last: RoundEnd | None = None
        finished = next((each for each in _events(decision) if isinstance(each, RoundFinished)), None)
        actor = self._actor(decision, heard)
        if finished is not None:
            last = await self._end_of_round(finished, self._turn(decision, address))
        reply = self._history.dialect_of(event.branch).read_reply(await self._read_stored(event.reply))
        await _say(
            actor,
            Finish(
                at=event.at, address=address, status=event.status, reply=reply, last=last, limits=event.limits, **_ID
            ),
        )
        self._under_way.pop(address, None)
        return heard.events

    async def _interrupt_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        event = decision.last
        assert isinstance(event, TurnInterrupted)
        address, heard = _address(event), Hearing()
        reply = (
            self._history.dialect_of(event.branch).read_reply(await self._read_stored(event.reply))
            if event.reply is not None
            else None
        )
        actor = self._actor(decision, heard)
        await _say(
            actor,
            Interrupt(
                at=event.at,
                address=address,
                status=event.status,
                reply=reply,
                reason=event.reason,
                limits=event.limits,
                **_ID,
            ),
        )
        self._under_way.pop(address, None)
        return heard.events

    def _turn(self, decision: ReplayedDecision, address: Address) -> _ReplayedTurn:
        if self._is_old(decision):
            raise _CannotBeDecided(OLD)
        found = self._under_way.get(address)
        if found is None:
            raise _CannotBeDecided("the request that it belongs to was not decided again.")
        return found

    async def _end_of_round(self, finished: RoundFinished, under_way: _ReplayedTurn) -> RoundEnd:
        dialect = self._history.dialect_of(finished.branch)
        reply = dialect.read_reply(await self._read_stored(finished.reply))
        managed = self._memory.state.branches[finished.branch].mode is Mode.MANAGE
        return RoundEnd(reply=reply, calls=_list_calls(reply, dialect) if managed else (), request=under_way.request)

    # What is owed

    async def _memory_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        assessed = decision.last
        assert isinstance(assessed, TurnAssessed)
        if self._begun != (assessed.branch, assessed.turn):
            raise _CannotBeDecided("the request that it tells of was not decided again.")
        if decision.version < self._history.forgotten:
            raise _CannotBeDecided("the words of its objects were forgotten.")
        if self._is_old(decision):
            raise _CannotBeDecided(OLD)
        return await self._deferred.remember(self._memory.state.branches[assessed.branch])

    async def _account_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        event = decision.last
        assert isinstance(event, TurnAccounted)
        address = _address(event)
        exchange = self._memory.state.branches[address.branch].exchanges.get(address)
        return await self._deferred.account(address, exchange) if exchange is not None else ()

    async def _forget_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        event = decision.last
        assert isinstance(event, SessionForgotten)
        return decide(ForgetSession(at=event.at), self._memory.state)

    # Around it

    def _actor(self, decision: ReplayedDecision, heard: Hearing) -> SessionActor:
        """An actor of the session as it stood then, in the world as it was then."""
        memory, taken = self._memory.apart(), self._find_settings(decision)
        settings = taken.settings if taken is not None else rounds.SETTINGS
        if self._window is not None:
            settings = attrs.evolve(settings, window=self._window)
        if taken is not None and memory.state.taken is not None:
            memory.state = attrs.evolve(memory.state, taken=attrs.evolve(memory.state.taken, settings=settings))
        actor = SessionActor(
            memory.identity,
            event_log=_AsItStood(),
            contents=self._archive.contents,
            journal=heard,
            new_salt=bytes,
            settings=settings,
            outside=RecordedServices(_find_inputs(decision), _find_knowledge(decision)),
            memory=memory,
        )
        for address, each in self._under_way.items():
            if each.turn is not None:
                actor.rounds.hold(address, each.turn)
        return actor

    def _find_settings(self, decision: ReplayedDecision) -> TakenSettings | None:
        """The settings with which it was decided; None where the log does not say."""
        taken = self._memory.state.taken
        for event in _events(decision):
            if isinstance(event, SettingsTaken):
                taken = after(taken, event)
        return taken

    def _keep(self, decision: ReplayedDecision, heard: Hearing, address: Address, actor: SessionActor) -> None:
        """Go on with what the actor knows of a turn, if that is what was recorded; else with what the log tells."""
        same = not replay.differences(decision, heard.events)
        self._under_way[address].turn = actor.rounds.under_way(address) if same else None

    async def _read_stored(self, change: bytes) -> bytes:
        return await self._memory.bodies.assemble(recipe.apply(Recipe(), recipe.decode(change)))

    def _skip(self, decision: ReplayedDecision, why: str) -> None:
        began = (each.version for each in decision.events if isinstance(each.envelope.event, TurnBegan))
        self.skipped.append(SkippedDecision(next(began, decision.version), why))

    async def _note(self, decision: ReplayedDecision) -> None:
        for each in decision.events:
            event = each.envelope.event
            self._memory.note(event)
            if isinstance(event, TurnBegan):
                under_way = self._under_way.get(_address(event))
                if under_way is not None:
                    self._memory.hold(event, under_way.read, None)
                    self._deferred.keep_sent(each.version, under_way.read)
            elif isinstance(event, RoundBegan | FallbackSent):
                await self._note_sent(each.version, event.branch)

    async def _note_sent(self, version: int, branch: str) -> None:
        """Keep the reading of what left, which its account looks at."""
        try:
            raw = await self._body(version)
        except (ContentForgotten, LogFailed):
            return
        lane = self._memory.state.branches[branch].lane
        self._deferred.keep_sent(version, transcript.read(raw, lane=lane).transcript)


_Again = Callable[[ReplayedDecision], Any]

_ID: dict[str, Any] = {"correlation_id": ""}

_OPENING = SessionStarted | GapRecorded | BranchOpened | TurnBegan
"""What happens as a request finds its place."""


class _CannotBeDecided(Exception):
    """It cannot be decided again; why is what it says."""


async def _orphan(decision: ReplayedDecision) -> Sequence[Event]:
    raise _CannotBeDecided("the request that it belongs to is not in the log.")


async def _say(actor: SessionActor, message: Message) -> None:
    """Say something to an actor; what it refuses leads to nothing."""
    try:
        await actor.do(message)
    except (NotFound, Outdated):
        return


def _gap(decision: ReplayedDecision) -> Gap | None:
    for event in _events(decision):
        if isinstance(event, GapRecorded):
            return Gap(since=event.since, turns=event.turns, reason=event.reason)
    return None


def _involves_removed_feature(decision: ReplayedDecision) -> bool:
    """Whether goals or prefetch took part in a decision. At the start of a turn only prefetch searched the index."""
    events = [*_events(decision)]
    if any(isinstance(event, RetiredEvent) for event in events):
        return True
    grounds = _find_inputs(decision)
    begins = any(isinstance(event, TurnBegan) for event in events)
    return begins and (bool(grounds.found) or Awaited.GOAL in grounds.late)


def _find_knowledge(decision: ReplayedDecision) -> KnowledgeTold | None:
    """What was told of what is known beyond sessions; what a session is told is nothing that it decides."""
    return next((event for event in _events(decision) if isinstance(event, KnowledgeTold)), None)


def _find_inputs(decision: ReplayedDecision) -> InputsSoFar:
    for event in _events(decision):
        if isinstance(event, GroundsNoted):
            return InputsSoFar(**{name: getattr(event, name) for name in attrs.fields_dict(InputsSoFar)})
    return InputsSoFar()


def _find_helped(decision: ReplayedDecision, calls: Sequence[HiddenCall]) -> dict[str, HelperAnswer]:
    """What a helper model made of the questions among some calls."""
    asked = {event.call: event for event in _events(decision) if isinstance(event, HelperAsked)}
    return {
        call.id: HelperAnswer(**{name: getattr(asked[key], name) for name in attrs.fields_dict(HelperAnswer)})
        for call in calls
        if (key := sanitize.text(call.id)) in asked
    }


def _events(decision: ReplayedDecision) -> Iterator[Event]:
    for each in decision.events:
        yield each.envelope.event


def _address(event: Any) -> Address:
    return Address(event.branch, event.turn, event.attempt)


def _list_calls(reply: Reply, dialect: Dialect) -> tuple[HiddenCall, ...]:
    """The calls of a round that were to be answered."""
    return end_of_round(reply, json_object(reply.body), rules_of(dialect), memory_tools.NAMES).calls
