"""Feed the commands of a stored session to the current code, and report where it decides differently.

Each command goes to an actor with the recorded state and the settings of that time; the index returns its recorded
answers, and results that came too late do so again. So one difference does not cause the next.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, TypeVar
from uuid import UUID

import attrs

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
from mnemosyne.actors.plug_ins import PlugInRunner
from mnemosyne.actors.session import SessionActor
from mnemosyne.domain.cost.catalogue import in_force
from mnemosyne.domain.cost.prompt_cache import MARKED, with_ends_only
from mnemosyne.domain.history import replay, time_travel
from mnemosyne.domain.history.replay import DecisionDifference, ReplayedDecision
from mnemosyne.domain.history.time_travel import Attempt, History, history_of
from mnemosyne.domain.objects.events import ObjectEvent, TurnAssessed
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session import decision_inputs, sanitize
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import ForgetSession, Gap, decide
from mnemosyne.domain.session.events import (
    BranchKind,
    BranchOpened,
    Event,
    GapRecorded,
    SessionForgotten,
    SessionStarted,
    ToolsDeclared,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
)
from mnemosyne.domain.session.input_events import (
    Awaited,
    GroundsNoted,
    HelperAnswer,
    HelperAsked,
    InputEvent,
    InputsSoFar,
    SettingsTaken,
)
from mnemosyne.domain.session.ledger import AccountTurn
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
from mnemosyne.domain.session.tool_uses import USES_HEADER, write_uses
from mnemosyne.domain.tools import memory_tools
from mnemosyne.domain.window import rounds
from mnemosyne.domain.window.policies import PlugIn, label_of
from mnemosyne.domain.window.refusals import Refusal
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.reply import HiddenCall, Reply, json_object
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ContentForgotten, LogFailed, NotFound, Outdated
from mnemosyne.http.rewriters import rules_of
from mnemosyne.http.splicing import end_of_round
from mnemosyne.replay.recorded_services import CollectingJournal, RecordedServices
from mnemosyne.services import contexts
from mnemosyne.services.sessions import Archive, events_of

Kind = TypeVar("Kind")

OLD = "the log does not contain the settings of this decision: an earlier version wrote it."

REMOVED = "feature removed: the decision used goals and prefetch, which no longer exist."


_FROM_PARENT = frozenset({BranchKind.SUCCESSOR, BranchKind.FORK})
"""The kinds of branches that only a known caller of their parent can open."""


class _FrozenLog:
    """The log as seen by an actor whose state is current: it contains no newer events."""

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        """See domain.ports.StreamReader."""
        return ()


@attrs.frozen
class SkippedDecision:
    """A decision that could not be replayed."""

    version: int
    why: str

    @property
    def sentence(self) -> str:
        return f"Event {self.version} is skipped: {self.why}"


@attrs.frozen
class Review:
    """The result for a session: the numbers of replayed and skipped commands, and the differences."""

    session: UUID
    decisions: int
    differences: Sequence[DecisionDifference]
    skipped: Sequence[SkippedDecision]
    other_tables: Sequence[bytes] = ()
    """The digests of model tables, other than the current one, that were used in its decisions."""
    by_earlier_version: bool = False
    """Whether settings in its log have the form of an earlier version, whose planner differed."""
    old_accounts: int = 0
    """Number of accounts by the rules before 2026-11-30, which judge the counts of a turn as a whole, ignore those far
    from the estimate, or repeat a count that is missing; for observed turns, they also expect no read without a marker.
    """
    old_rules: int = 0
    """Number of decisions of servers before 2026-11-30 that ``replay.by_older_rule`` explains."""

    @property
    def turns(self) -> Sequence[str]:
        """The turns with any difference, in the order of the log."""
        return list(dict.fromkeys(each.turn for each in self.differences if each.turn is not None))


async def review(
    archive: Archive,
    wanted: str,
    progress: Callable[[int, int], None] | None = None,
    *,
    window: int | None = None,
    plug_in: PlugIn | None = None,
) -> Review:
    """Replay a session's decisions; ``progress`` receives the number of events done and their total. Raises NotFound.

    A ``window`` replaces the recorded one in decisions about managed requests. ``plug_in`` is the policy of the
    operator's own module that can be asked again.
    """
    stream, events = await events_of(archive, wanted)
    judge = _Judge(archive, stream, events, window, plug_in)
    for decision in replay.decisions(events):
        await judge.judge(decision)
        if progress is not None:
            progress(decision.events[-1].version, len(events))
    taken = [each.envelope.event for each in events if isinstance(each.envelope.event, SettingsTaken)]
    tables = dict.fromkeys(each.models for each in taken if each.models)
    others = [digest for digest in tables if digest != in_force().digest]
    return Review(
        stream,
        judge.decisions,
        judge.differences,
        judge.skipped,
        others,
        not all(each.counted for each in taken),
        judge.old_accounts,
        judge.old_rules,
    )


@attrs.define
class _ReplayedTurn:
    """A running turn: the client's request, and the actor's state of the turn if there is no difference so far."""

    request: bytes
    read: Transcript
    turn: ManagedTurn | None = None


_EARLIER: Sequence[Callable[[AccountTurn], AccountTurn]] = (
    lambda turn: attrs.evolve(turn, unstated=True),
    lambda turn: attrs.evolve(turn, summed=True),
    lambda turn: attrs.evolve(turn, bounded=True),
    lambda turn: attrs.evolve(turn, bounded=True, cache=with_ends_only(turn.cache)),
    lambda turn: attrs.evolve(turn, bounded=True, cache=MARKED),
)
"""Rules for accounts of servers before 2026-11-30; the last two apply to observed turns only."""


class _Judge:
    """The replay of one session: its actor's memory, and the results so far."""

    def __init__(
        self,
        archive: Archive,
        stream: UUID,
        events: Sequence[Recorded[Event]],
        window: int | None,
        plug_in: PlugIn | None,
    ) -> None:
        started = events[0].envelope.event
        if not isinstance(started, SessionStarted):
            raise LogFailed(f"session {stream} does not begin with its start")
        self._archive = archive
        self._stream = stream
        self._window = window
        self._plug_in = PlugInRunner(plug_in) if plug_in is not None else None
        self._history: History = history_of(str(stream), events)
        self._client_headers = replay.find_client_headers(events)
        identity = Identity(stream=stream, tenant=started.tenant, external_id=started.external_id)
        self._callers = KnownCredentials()
        self._memory = Loaded(identity, archive.contents, archive.events, lambda: started.salt, self._callers)
        self._services = RecordedServices(InputsSoFar())
        self._deferred = DeferredWork(self._memory, self._services.patience, rounds.SETTINGS)
        self._under_way: dict[Address, _ReplayedTurn] = {}
        self._begun: set[tuple[str, int]] = set()
        self.decisions = 0
        self.differences: list[DecisionDifference] = []
        self.skipped: list[SkippedDecision] = []
        self.old_accounts = 0
        self.old_rules = 0
        accounts = (each.envelope.event for each in events)
        self._old = {f"{at.branch} {at.turn}" for at in accounts if isinstance(at, TurnAccounted) and at.far is None}

    async def judge(self, decision: ReplayedDecision) -> None:
        """Replay a decision, then continue from the recorded events. Answers of a helper or a person about an object
        are inputs, not decisions.
        """
        again = self._again(decision)
        if again is not None:
            self.decisions += 1
            try:
                today = await again(decision)
                self._require_policy(decision)
            except (ContentForgotten, LogFailed, _CannotBeDecided) as error:
                self._skip(decision, str(error))
            else:
                if _involves_removed_feature(decision):
                    self._skip(decision, REMOVED)
                else:
                    found = replay.differences(decision, today)
                    older = replay.by_older_rule(found) if decision.turn in self._old else []
                    self.old_rules += bool(older)
                    self.differences += [each for each in found if each not in older]
        await self._note(decision)

    def _again(self, decision: ReplayedDecision) -> "_Again | None":
        """The function that replays a decision; None if its events are taken from the log."""
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
        self._begun.discard((began.branch, began.turn))
        request = await self._request(version, began, decision)
        lost = _first(decision, GapRecorded)
        gap = None if lost is None else Gap(since=lost.since, turns=lost.turns, reason=lost.reason)
        _, reading = await self._memory.apart().read_turn(request, gap)
        read = reading.transcript
        address = began.address
        self._under_way[address] = _ReplayedTurn(request.raw, read)
        self._begun.add((began.branch, began.turn))
        if self._is_old(decision):
            return await self._open_alone(decision, request, gap)
        journal = CollectingJournal()
        actor = self._actor(decision, journal)
        outgoing = await self._outgoing(actor, decision, request, read)
        await _say(actor, Begin(request=request, outgoing=outgoing, gap=gap))
        self._keep(decision, journal, address, actor)
        return journal.events

    async def _open_alone(
        self, decision: ReplayedDecision, request: ArrivedRequest, gap: Gap | None
    ) -> Sequence[Event]:
        """Replay only the placement of a request; the request sent for it is taken from the log."""
        self._skip(decision, f"what left for it; {OLD}")
        command, _ = await self._memory.apart().read_turn(request, gap)
        left = [event for event in _events(decision) if not isinstance(event, _OPENING)]
        return *decide(command, self._memory.state), *left

    def _is_old(self, decision: ReplayedDecision) -> bool:
        """Whether a decision used server settings that are not recorded."""
        if self._find_settings(decision) is not None:
            return False
        managed = any(isinstance(event, RoundEvent) for event in _events(decision))
        branches = self._memory.state.branches
        last: Any = decision.last
        return managed or (last.branch in branches and branches[last.branch].mode is not Mode.OBSERVE)

    async def _request(self, version: int, began: TurnBegan, decision: ReplayedDecision) -> ArrivedRequest:
        """The client's request. Raises LogFailed, ContentForgotten."""
        rebuilt = await contexts.rebuild(self._archive, self._stream, self._history, Attempt(version, began))
        if not rebuilt.proven:
            raise LogFailed(f"its body {rebuilt.difference}.")
        taken = self._find_settings(decision)
        credential = version.to_bytes(8)  # only the kind of a credential is recorded
        opened = _first(decision, BranchOpened)
        if opened is not None and opened.kind in _FROM_PARENT and opened.parent is not None:
            self._callers.note(self._stream, opened.parent, credential)
        inputs = _first(decision, GroundsNoted)
        sent = next((each.version for each in decision.events if isinstance(each.envelope.event, RoundBegan)), None)
        asked = sent is not None and _asks_verdict(await self._read_sent(sent, began.branch))
        return ArrivedRequest(
            at=began.at,
            headers=(*replay.headers_of(self._speaker(version)), *_declare_uses(decision)),
            raw=rebuilt.body,
            correlation_id="",
            wanted=inputs.wanted if inputs is not None else None,
            default=taken.mode if taken is not None else Mode.OBSERVE,
            credential=credential,
            dialect=self._history.dialect_of(began.branch),
            find_submitted=lambda _read: began.submitted,
            asks_verdict=lambda read: asked and not _asks_verdict(read),
            takes_behind=lambda _read: self._find_behind(decision, began),
        )

    def _find_behind(self, decision: ReplayedDecision, began: TurnBegan) -> bool:
        """Whether the provider was known to take tools behind its cached head: by the mode that was set, else by that
        of the branch.
        """
        decided, branch = _first(decision, BranchModeSet), self._memory.state.branches.get(began.branch)
        return decided.behind if decided is not None else branch is not None and branch.behind

    def _speaker(self, version: int) -> ClientHeaders:
        headers = self._client_headers[version]
        if headers is None:
            raise LogFailed("the log does not contain the client of this request: an earlier version wrote it.")
        return headers

    async def _outgoing(
        self, actor: SessionActor, decision: ReplayedDecision, request: ArrivedRequest, read: Transcript
    ) -> Outgoing:
        """The outgoing request: the actor's proposal, if the actor was asked and answered in time."""
        events = [*_events(decision)]
        sent = next((each for each in decision.events if isinstance(each.envelope.event, RoundBegan)), None)
        fallback = next((each for each in decision.events if isinstance(each.envelope.event, FallbackSent)), None)
        began = next(event for event in events if isinstance(event, TurnBegan))
        opened = evolve_all(self._memory.state, [event for event in events if isinstance(event, _OPENING)])
        mode = opened.branches[began.branch].mode
        decided = _first(decision, BranchModeSet)
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
            return Passthrough()  # the actor was not asked
        answer = await actor.do(Prepare(request=request))
        assert isinstance(answer, UpstreamPlan)
        return answer.proposal or Passthrough()

    async def _fallback(self, version: int, why: str, read: Transcript) -> Fallback:
        """The request sent without the actor: composed again if the proxy composed it, else as recorded."""
        body = rounds.without_thinking(read) if why in rounds.WITHOUT_THINKING else None
        return Fallback(await self._body(version) if body is None else body, why)

    async def _body(self, version: int) -> bytes:
        """A body as it was sent."""
        return await self._memory.bodies.assemble(time_travel.body_of(self._history, version))

    # Rounds and ends

    async def _next_round_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        (began,) = (event for event in _events(decision) if isinstance(event, RoundBegan))
        address, journal = began.address, CollectingJournal()
        under_way = self._turn(decision, address)
        actor = self._actor(decision, journal)
        turn = await actor.rounds.turn_of(address, under_way.request)
        if turn is None:
            raise _CannotBeDecided(
                "an earlier turn of its branch, about which the actor knew more than the log contains."
            )
        body = turn.body(address.attempt)
        await _say(actor, NextRound(at=began.at, address=address, body=body, request=under_way.request, **_ID))
        self._keep(decision, journal, address, actor)
        return journal.events

    async def _round_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        """Replay a round that another one followed, or could have followed."""
        finished = _first(decision, RoundFinished)
        assert finished is not None
        address, journal = finished.address, CollectingJournal()
        under_way = self._turn(decision, address)
        actor = self._actor(decision, journal)
        end = await self._end_of_round(finished, under_way)
        message: Message
        if decision.events[0].envelope.causation_id == Refused.__name__:
            turn = await actor.rounds.turn_of(address, under_way.request)
            if turn is None:
                return ()
            kind = turn.find_refusal(end.reply.body)
            if kind is None and not turn.may_lack(Refusal.TOOLS_BEHIND):
                return ()
            kind = kind or Refusal.TOOLS_BEHIND
            message = Refused(
                at=finished.at, address=address, refusal=kind, reply=end.reply, request=end.request, **_ID
            )
        else:
            sent = await self._find_substitutes(decision, finished)
            helped = _find_helped(decision, end.calls)
            message = AnswerCalls(at=finished.at, address=address, round=end, sent=sent, helped=helped, **_ID)
        await _say(actor, message)
        self._keep(decision, journal, address, actor)
        return journal.events

    async def _find_substitutes(self, decision: ReplayedDecision, finished: RoundFinished) -> dict[str, bytes] | None:
        """The substitutes that the model got for late answers; None if the answers came in time."""
        if Awaited.ANSWERS not in _find_inputs(decision).late:
            return None
        return {each.call: await self._read_stored(each.result) for each in finished.answers}

    async def _finish_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        event = decision.last
        assert isinstance(event, TurnFinished)
        address, journal = event.address, CollectingJournal()
        last: RoundEnd | None = None
        finished = _first(decision, RoundFinished)
        actor = self._actor(decision, journal)
        if finished is not None:
            last = await self._end_of_round(finished, self._turn(decision, address))
        reply = self._history.dialect_of(event.branch).read_reply(await self._read_stored(event.reply))
        await _say(
            actor,
            Finish(address=address, reply=reply, last=last, **_end_fields(event), **_ID),
        )
        self._under_way.pop(address, None)
        return journal.events

    async def _interrupt_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        event = decision.last
        assert isinstance(event, TurnInterrupted)
        address, journal = event.address, CollectingJournal()
        reply = (
            self._history.dialect_of(event.branch).read_reply(await self._read_stored(event.reply))
            if event.reply is not None
            else None
        )
        actor = self._actor(decision, journal)
        await _say(
            actor,
            Interrupt(address=address, reply=reply, reason=event.reason, **_end_fields(event), **_ID),
        )
        self._under_way.pop(address, None)
        return journal.events

    def _turn(self, decision: ReplayedDecision, address: Address) -> _ReplayedTurn:
        if self._is_old(decision):
            raise _CannotBeDecided(OLD)
        found = self._under_way.get(address)
        if found is None:
            raise _CannotBeDecided("its request was not replayed.")
        return found

    async def _end_of_round(self, finished: RoundFinished, under_way: _ReplayedTurn) -> RoundEnd:
        dialect = self._history.dialect_of(finished.branch)
        reply = dialect.read_reply(await self._read_stored(finished.reply))
        managed = self._memory.state.branches[finished.branch].mode is Mode.MANAGE
        return RoundEnd(reply=reply, calls=_list_calls(reply, dialect) if managed else (), request=under_way.request)

    # Deferred work

    async def _memory_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        assessed = decision.last
        assert isinstance(assessed, TurnAssessed)
        if (assessed.branch, assessed.turn) not in self._begun:
            raise _CannotBeDecided("its request was not replayed.")
        if decision.version < self._history.forgotten:
            raise _CannotBeDecided("the content of its objects was erased.")
        if self._is_old(decision):
            raise _CannotBeDecided(OLD)
        return await self._deferred.remember(self._memory.state.branches[assessed.branch])

    async def _account_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        event = decision.last
        assert isinstance(event, TurnAccounted)
        address = event.address
        exchange = self._memory.state.branches[address.branch].exchanges.get(address)
        if exchange is None:
            return ()
        today = await self._deferred.account(address, exchange)
        if any(isinstance(each, TurnAccounted) and attrs.evolve(each, far=None) == event for each in today):
            return (event,)  # older servers recorded it without ``far``
        if today != (event,):
            rules = _EARLIER if event.mode is Mode.OBSERVE else _EARLIER[:-2]
            for rule, repeats in product(rules, (False, True)):
                earlier = await self._deferred.account(address, exchange, rule, repeats=repeats)
                if earlier == (event,):
                    self.old_accounts += 1
                    return earlier
        return today

    async def _forget_again(self, decision: ReplayedDecision) -> Sequence[Event]:
        event = decision.last
        assert isinstance(event, SessionForgotten)
        return decide(ForgetSession(at=event.at), self._memory.state)

    # Surroundings

    def _actor(self, decision: ReplayedDecision, journal: CollectingJournal) -> SessionActor:
        """An actor with the session's recorded state and the recorded services."""
        memory, taken = self._memory.apart(), self._find_settings(decision)
        settings = decision_inputs.in_force(taken, rounds.SETTINGS)
        if self._window is not None:
            settings = attrs.evolve(settings, window=self._window)
        if taken is not None and memory.state.taken is not None:
            branches = {name: attrs.evolve(each, taken=None) for name, each in memory.state.branches.items()}
            now = attrs.evolve(memory.state.taken, **settings.as_fields())
            memory.state = attrs.evolve(memory.state, taken=now, branches=branches)
        label = label_of(settings.policy, settings.policy_version)
        plug_in = self._plug_in if self._plug_in is not None and self._plug_in.policy.label == label else None
        self._services = RecordedServices(_find_inputs(decision), _first(decision, KnowledgeTold), plug_in)
        actor = SessionActor(memory, event_log=_FrozenLog(), journal=journal, settings=settings, outside=self._services)
        for address, each in self._under_way.items():
            if each.turn is not None:
                actor.rounds.hold(address, each.turn)
        return actor

    def _require_policy(self, decision: ReplayedDecision) -> None:
        """Raise _CannotBeDecided if the last decision asked a policy that is not in the settings here."""
        if not self._services.lacked_policy:
            return
        taken = self._find_settings(decision)
        assert taken is not None
        recorded = label_of(taken.policy, taken.policy_version)
        here = self._plug_in.policy.label if self._plug_in is not None else "no such policy"
        self._services = RecordedServices(InputsSoFar())
        raise _CannotBeDecided(f"its policy was {recorded}; {here} is in the settings here.")

    def _find_settings(self, decision: ReplayedDecision) -> SettingsTaken | None:
        """The settings of a decision, later in a turn those that it began with; None if the log does not say."""
        if (event := _first(decision, SettingsTaken)) is not None:
            return event
        begins = _first(decision, TurnBegan) is not None
        return self._memory.state.find_taken("" if begins else getattr(decision.last, "branch", ""))

    def _keep(
        self, decision: ReplayedDecision, journal: CollectingJournal, address: Address, actor: SessionActor
    ) -> None:
        """Continue with the actor's state of a turn if it equals the record, else with the recorded state."""
        same = not replay.differences(decision, journal.events)
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
                under_way = self._under_way.get(event.address)
                if under_way is not None:
                    self._memory.hold(event, under_way.read, None)
                    self._deferred.keep_sent(each.version, under_way.read)
            elif isinstance(event, RoundBegan | FallbackSent):
                await self._note_sent(each.version, event.branch)

    async def _note_sent(self, version: int, branch: str) -> None:
        """Keep the parsed outgoing request, which the turn's account uses."""
        with suppress(ContentForgotten, LogFailed):
            self._deferred.keep_sent(version, await self._read_sent(version, branch))

    async def _read_sent(self, version: int, branch: str) -> Transcript:
        conversation = self._history.line(branch).opened.lane
        return transcript.read(await self._body(version), conversation=conversation).transcript


_Again = Callable[[ReplayedDecision], Any]

_ID: dict[str, Any] = {"correlation_id": ""}

_OPENING = SessionStarted | GapRecorded | BranchOpened | TurnBegan
"""The events of placing a request."""


class _CannotBeDecided(Exception):
    """The decision cannot be replayed; the message is the reason."""


async def _orphan(decision: ReplayedDecision) -> Sequence[Event]:
    raise _CannotBeDecided("its request is not in the log.")


def _end_fields(event: TurnFinished | TurnInterrupted) -> dict[str, Any]:
    return {name: getattr(event, name) for name in ("at", "status", "limits", "first_byte")}


async def _say(actor: SessionActor, message: Message) -> None:
    """Send a message to an actor; a refused message has no effect."""
    try:
        await actor.do(message)
    except (NotFound, Outdated):
        return


def _involves_removed_feature(decision: ReplayedDecision) -> bool:
    """Whether goals or prefetch affected a decision. At the start of a turn, only prefetch searched the index."""
    events = [*_events(decision)]
    if any(isinstance(event, RetiredEvent) for event in events):
        return True
    grounds = _find_inputs(decision)
    begins = any(isinstance(event, TurnBegan) for event in events)
    return begins and (bool(grounds.found) or Awaited.GOAL in grounds.late)


def _find_inputs(decision: ReplayedDecision) -> InputsSoFar:
    return _first(decision, GroundsNoted) or InputsSoFar()


def _declare_uses(decision: ReplayedDecision) -> Iterator[tuple[str, str]]:
    """The header in which the request declared what its tools did."""
    if (declared := _first(decision, ToolsDeclared)) is not None:
        yield USES_HEADER, write_uses(declared.uses)


def _asks_verdict(read: Transcript) -> bool:
    """Whether a request asks why the provider's cache missed."""
    comparison = read.dialect.comparison
    return comparison is not None and comparison.find_named(read.member) is not None


def _first(decision: ReplayedDecision, kind: type[Kind]) -> Kind | None:
    """The first event of a kind."""
    return next((event for event in _events(decision) if isinstance(event, kind)), None)


def _find_helped(decision: ReplayedDecision, calls: Sequence[HiddenCall]) -> dict[str, HelperAnswer]:
    """A helper model's recorded answers to the questions among some calls."""
    asked = {event.call: event for event in _events(decision) if isinstance(event, HelperAsked)}
    return {
        call.id: HelperAnswer(**asked[key].as_fields()) for call in calls if (key := sanitize.text(call.id)) in asked
    }


def _events(decision: ReplayedDecision) -> Iterator[Event]:
    for each in decision.events:
        yield each.envelope.event


def _list_calls(reply: Reply, dialect: Dialect) -> tuple[HiddenCall, ...]:
    """The calls of a round that needed an answer."""
    return end_of_round(reply, json_object(reply.body), rules_of(dialect), memory_tools.NAMES).calls
