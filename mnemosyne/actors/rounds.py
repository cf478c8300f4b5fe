"""The rounds of a session's managed branches: the requests sent upstream instead of the client's own bytes.

A proposal changes nothing. A request is recorded before any of its reply reaches the client, and the upstream history
continues from the recorded request.
"""

from collections.abc import Mapping

import attrs

from mnemosyne.actors import cleanup
from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.bodies import Prior
from mnemosyne.actors.epochs import Epochs
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.managed_turn import MOST_ROUNDS, ManagedTurn, find_compared, find_named
from mnemosyne.actors.messages import AnswerCalls, ArrivedRequest, Contents, FindPassages, Refused, RoundEnd
from mnemosyne.actors.owners import MemoryClient
from mnemosyne.actors.show_again import ShowAgain
from mnemosyne.actors.texts import ObjectTexts
from mnemosyne.actors.threads import HUGE, is_much, read_in_thread, run_in_thread
from mnemosyne.actors.tools import NOT_HELPED, Answers, CallContext, MemoryToolExecutor
from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.cost.tariffs import Caching
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.history import guards
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Degrade, decide_all
from mnemosyne.domain.objects.events import FaultReason
from mnemosyne.domain.objects.faults import LIMITS, RecallBudget
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.recall import memory_results
from mnemosyne.domain.segmentation.authors import find_prompt
from mnemosyne.domain.session import decision_inputs, sanitize
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.decide import (
    BeginRound,
    FinishRound,
    NoteFilled,
    NoteStated,
    RecordKnowledge,
    SetMode,
    decide,
    is_another,
)
from mnemosyne.domain.session.decision_inputs import RecordQuestion, ServerSettings
from mnemosyne.domain.session.events import BranchKind, Event
from mnemosyne.domain.session.input_events import Awaited, HelperAnswer, InputsSoFar
from mnemosyne.domain.session.round_events import Answered, Mode, WindowStated
from mnemosyne.domain.session.state import Branch, Session, evolve_all
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.tools import memory_tools, tool_paging
from mnemosyne.domain.tools.memory_tools import LONGEST_REASON, MemoryQuery
from mnemosyne.domain.window import epochs, late_tools, rounds, upstream_history
from mnemosyne.domain.window.epochs import Rewritten
from mnemosyne.domain.window.refusals import Refusal, find_stated
from mnemosyne.domain.window.rounds import Opening
from mnemosyne.domain.window.situation import PendingRequest, blocks_of, find_limit
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.billing import begins_with_billing
from mnemosyne.domain.wire.blocks import has_results
from mnemosyne.domain.wire.project import project_of_transcript
from mnemosyne.domain.wire.reply import may_last
from mnemosyne.domain.wire.transcript import ANY_NUMBER, Transcript
from mnemosyne.errors import MnemosyneError

MOST_ANSWERED = 5
"""Maximum number of rounds per turn whose memory calls are answered; later calls are refused."""


@attrs.frozen(kw_only=True)
class Planned:
    """The plan for a request: the ``events`` that begin its turn, ``more`` events with their ``contents``, and the
    managed ``turn``; None if the client's own bytes are sent. ``noted`` are the decision inputs.
    """

    events: tuple[Event, ...]
    more: tuple[Event, ...] = ()
    turn: ManagedTurn | None = None
    body: bytes = attrs.field(default=b"", repr=False)
    noted: InputsSoFar = attrs.field(factory=InputsSoFar)
    contents: Contents = attrs.field(default=(), repr=False)


@attrs.frozen(kw_only=True)
class RoundOver:
    """The events at the end of a round and their ``contents``. ``turn`` is the turn's state after they are accepted; if
    it is None, nothing happens. ``more`` says whether another round may follow.
    """

    events: tuple[Event, ...] = ()
    contents: Contents = ()
    turn: ManagedTurn | None = None
    more: bool = False


NOTHING = RoundOver()

RECEIVING_KNOWLEDGE = frozenset({BranchKind.MAIN, BranchKind.SUCCESSOR})
"""Branches that get entries of the memory beyond sessions; an agent gets its context from its caller."""


class ManagedRounds:
    """The managed rounds of one session. New turns use these ``settings``, running turns those that they began with."""

    def __init__(self, loaded: Loaded, outside: ActorServices, settings: ServerSettings) -> None:
        self._loaded = loaded
        self._outside = outside
        self._settings = settings
        self._texts = ObjectTexts(loaded.bodies, outside)
        self._show_again = ShowAgain(self._texts, outside)
        self._epochs = Epochs(loaded.bodies, outside)
        self._turns: dict[Address, ManagedTurn] = {}

    @property
    def _state(self) -> Session:
        return self._loaded.state

    def list_leaving(self) -> list[tuple[MemoryObject, Fidelity]]:
        """See ``Epochs.list_leaving``."""
        return self._epochs.list_leaving(self._state)

    # The first round

    async def plan(self, opening: Opening, client: MemoryClient) -> Planned:
        """Plan the first upstream request for a client's request. Raises LogFailed and ContentForgotten, and
        MnemosyneError if no request would fit the model.
        """
        self._outside.begin()
        mode, command = rounds.choose_mode(opening)
        switched = decide(command, opening.session)
        if mode is Mode.OBSERVE:
            return await self._begin_to_manage(opening, switched, client)
        prior = await self._loaded.histories.of(opening.session.branches[opening.goes_on_from])
        history, hour, more, contents = await self._history(opening, prior, mode, switched=command is not None)
        if prior is None and mode is Mode.MANAGE:
            history, recorded = await self._insert_knowledge(opening, history, client)
            more += recorded
        happened = (*switched, *more) if opening.is_last else ()
        budget = command.tool_budget if command is not None else opening.branch.tool_budget
        behind = command is None and opening.branch.behind and not _stays_at_head(prior, history)
        planned = await self._plan_turn(
            opening, mode, history, happened, prior, hour=hour, tool_budget=budget, behind=behind
        )
        return attrs.evolve(planned, contents=(*contents, *planned.contents) if opening.is_last else planned.contents)

    async def _begin_to_manage(self, opening: Opening, switched: tuple[Event, ...], client: MemoryClient) -> Planned:
        """The plan for a request of an observed branch. It is managed from now on if its memory tools join, or if it is
        new and gets entries of the memory beyond sessions.
        """
        waits = attrs.evolve(opening, session=evolve_all(opening.session, switched))
        if waits.branch.behind and opening.begins_branch:
            history, recorded = await self._insert_knowledge(opening, _begin(opening), client)
            if recorded:
                command = rounds.set_mode(opening, Mode.MANAGE, rounds.ASKED_FOR, late=False)
                more = (*decide(command, opening.session), *recorded)
                return await self._plan_turn(opening, Mode.MANAGE, history, more, None, hour=False, tool_budget=None)
        return await self._join(waits) or Planned(events=opening.events, more=switched)

    async def _join(self, opening: Opening) -> Planned | None:
        """The plan that adds the memory tools to a conversation that was waiting for them."""
        late = late_tools.find(opening, self._epochs.sizes)
        if late is None:
            return None
        rewritten, note = await self._epochs.begin_epoch(late.asked, late.session)
        if rewritten is None and not late.are_free:
            return None
        branch = opening.branch
        sent = attrs.evolve(opening.read, recipe=branch.body)
        planned = await self._plan_turn(
            opening,
            Mode.MANAGE,
            late.asked.history if rewritten is None else rewritten.history,
            (
                *decide(late.command, opening.session),
                *(rewritten.events if rewritten is not None else ()),
                *decide(note, opening.session),
            ),
            Prior(late.asked.before, sent, branch.body_version),
            hour=rewritten is not None and rewritten.hour,
            tool_budget=late.command.tool_budget,
            behind=late.command.behind,
        )
        made = rewritten.contents if rewritten is not None else ()
        return attrs.evolve(planned, contents=(*made, *planned.contents))

    async def _plan_turn(
        self,
        opening: Opening,
        mode: Mode,
        history: UpstreamHistory,
        happened: tuple[Event, ...],
        prior: Prior | None,
        *,
        hour: bool,
        tool_budget: int | None,
        behind: bool = False,
    ) -> Planned:
        """The turn that this history begins, including the objects to show again. ``behind``: the memory tools are
        behind the cached head.
        """
        contents: Contents = ()
        if mode is Mode.MANAGE:
            history, restored = self._answer_rereads(opening, history, happened)
            happened += restored
            after = self._loaded.preview((*opening.events, *happened))
            asked = self._make_request(opening, history, history)
            again = await self._show_again.restore(
                after,
                opening.began,
                opening.read,
                history,
                lambda: self._epochs.find_room(asked, after),
                strict=opening.settings.strict,
            )
            history, contents = again.history, again.contents
            happened += again.events
            if opening.settings.tell_repeats and opening.is_last and opening.began.attempt == 1:
                history = guards.note_repetition(opening.read, history)
            history = rounds.place_tools(opening, history, behind=behind)
        turn = ManagedTurn(
            read=opening.read,
            history=history,
            mode=mode,
            hour=hour,
            tool_budget=tool_budget,
            by_prefix=self._goes_by_prefix(opening.branch, opening.read),
            prior=prior,
            compared_with=find_compared(opening.read, prior) if opening.asks_verdict and mode is Mode.MANAGE else None,
        )
        body = await run_in_thread(lambda: turn.body(opening.began.attempt), in_thread=len(opening.read.raw) >= HUGE)
        noted = self._outside.noted
        return Planned(events=opening.events, more=happened, turn=turn, body=body, noted=noted, contents=contents)

    def _answer_rereads(
        self, opening: Opening, history: UpstreamHistory, happened: tuple[Event, ...]
    ) -> tuple[UpstreamHistory, tuple[Event, ...]]:
        """The history with evicted content restored where the client refers to its own copy, and the events of that."""
        if not opening.is_last or opening.began.attempt > 1 or opening.branch.kind is BranchKind.COMPACTION:
            return history, ()
        after = self._loaded.preview((*opening.events, *happened))
        return self._epochs.answer_rereads(self._make_request(opening, history, history), after)

    async def _insert_knowledge(
        self, opening: Opening, history: UpstreamHistory, client: MemoryClient
    ) -> tuple[UpstreamHistory, tuple[Event, ...]]:
        """The history of a new conversation with a memory block behind its first prompt."""
        if opening.branch.kind not in RECEIVING_KNOWLEDGE or opening.began.turn > 1:
            return history, ()
        read = opening.read
        prompt = find_prompt(read)
        if (
            prompt is None or read.fields.has_output_format
        ):  # a request for a title has an output schema, and may have tools, too
            return history, ()
        (number, typed), folder = prompt, project_of_transcript(read)
        block = await self._outside.select_knowledge(client, folder, typed, len(read.raw), opening.at)
        if block is None:
            return history, ()
        messages = upstream_history.tell(history.messages, history.ends, number, block.text, history.dialect)
        if messages == history.messages:
            return history, ()
        command = RecordKnowledge(
            at=opening.at,
            branch=opening.began.branch,
            turn=opening.began.turn,
            message=number,
            text=block.text,
            entries=block.entries,
            tokens=block.tokens,
        )
        return attrs.evolve(history, messages=messages), decide(command, opening.session)

    async def continue_last(self, request: ArrivedRequest) -> ManagedTurn | None:
        """A turn that continues a managed branch from memory, without a plan and without waiting for the actor; None if
        the request does not simply continue it.
        """
        spoken = [
            each
            for each in self._state.branches.values()
            if each.header_conversation == request.conversation
            and each.kind.is_agent_context
            and not is_another(request.client_headers, each)
        ]
        branch = max(spoken, key=lambda each: each.body_version, default=None)
        observes = request.wanted is Mode.OBSERVE and not self._state.switched
        asked_to_stop = observes or request.wanted is Mode.BYPASS or self._state.off
        if branch is None or branch.mode is not Mode.MANAGE or branch.wire is None or asked_to_stop:
            return None
        before, prior = self._loaded.bodies.find_held(branch), self._loaded.histories.find_held(branch)
        if before is None or prior is None or len(prior.history.ends) != len(before.messages):
            return None
        read = (await read_in_thread(request.raw, before, conversation=branch.conversation)).transcript
        kept = read.count_shared(before)
        if not kept == len(before.messages) < len(read.messages):
            return None
        if not (prior.history.replies or epochs.may_drop_thinking(read)):
            return None  # the last reply is not recorded yet, and its thinking must be kept
        history = upstream_history.go_on(prior.history, kept, read.list_elements(kept), memory_tools.NAMES)
        named = find_compared(read, prior) if request.asks_verdict(read) else None
        return self._continue(branch, read, history, prior, named)

    async def plan_continuation(self, opening: Opening) -> Planned | None:
        """A turn that continues the last upstream request without a plan; None if the request does not continue it."""
        mode, command = rounds.choose_mode(opening)
        prior = await self._loaded.histories.of(opening.session.branches[opening.goes_on_from])
        if mode is not Mode.MANAGE or command is not None or prior is None or opening.branch.wire is None:
            return None
        history, restored = self._answer_rereads(opening, rounds.go_on(opening, prior.history, mode), ())
        named = find_compared(opening.read, prior) if opening.asks_verdict else None
        turn = self._continue(opening.branch, opening.read, history, prior, named)
        asked = self._make_request(opening, prior.history)
        note = (
            self._epochs.judge_unplanned(asked, opening.session) if opening.is_last and not opening.went_back else None
        )
        more = (*restored, *decide(note, opening.session))
        return Planned(events=opening.events, more=more, turn=turn, body=turn.body(opening.began.attempt))

    async def _history(
        self, opening: Opening, prior: Prior | None, mode: Mode, *, switched: bool
    ) -> tuple[UpstreamHistory, bool, tuple[Event, ...], Contents]:
        """The history to send, whether system prompt and tools use the one-hour cache, and the events with their
        contents.
        """
        wire = opening.branch.wire
        hour = mode is Mode.MANAGE and wire is not None and wire.hour
        if prior is None:
            return await run_in_thread(lambda: _begin(opening), in_thread=is_much(opening.read.raw)), hour, (), ()
        note: NoteFilled | None = None
        asked = self._make_request(opening, prior.history) if mode is Mode.MANAGE else None
        if asked is not None:
            rewritten, note = await self._rewrite(opening, asked)
        elif rounds.shows_again(opening, mode, switched=switched):
            rewritten = await self._epochs.begin_again(
                self._make_request(opening, prior.history), opening.session, epochs.no_longer_fits()
            )
            if rewritten is None:
                raise MnemosyneError("the last upstream request cannot be rendered, and the client's own is too long")
        else:
            rewritten = None
        noted = decide(note, opening.session)
        if rewritten is not None:
            return rewritten.history, rewritten.hour, (*rewritten.events, *noted), rewritten.contents
        if asked is not None and not switched and not opening.went_back:
            return asked.history, hour, noted, ()
        return rounds.go_on_unplanned(opening, prior.history, mode, switched=switched), hour, noted, ()

    async def _rewrite(self, opening: Opening, asked: PendingRequest) -> tuple[Rewritten | None, NoteFilled | None]:
        """The epoch that a request of a managed branch begins, if any, and the note to record if it fills its window
        nevertheless.
        """
        if opening.went_back:
            may_drop = epochs.may_drop_thinking(opening.read)
            return await self._epochs.begin_again(asked, opening.session, epochs.go_back()) if may_drop else None, None
        if opening.is_last and opening.began.attempt == 1 and opening.branch.kind is not BranchKind.COMPACTION:
            return await self._epochs.begin_epoch(asked, opening.session)
        return None, None

    def _make_request(
        self, opening: Opening, prior: UpstreamHistory, history: UpstreamHistory | None = None
    ) -> PendingRequest:
        """The request for the planner. ``history`` defaults to the one that continues ``prior``."""
        if history is None:
            history = prior if opening.went_back else rounds.go_on(opening, prior, Mode.MANAGE)
        return PendingRequest(
            at=opening.at,
            branch=opening.began.branch,
            turn=opening.began.turn,
            read=opening.read,
            before=prior,
            history=history,
            settings=opening.settings,
            tariff=rounds.tariff_of(opening),
            kept=opening.began.kept,
            behind=upstream_history.offers(prior),
        )

    def _continue(
        self, branch: Branch, read: Transcript, history: UpstreamHistory, prior: Prior, compared_with: str | None
    ) -> ManagedTurn:
        """A turn that continues a managed branch with its own settings."""
        return ManagedTurn(
            read=read,
            history=history,
            hour=branch.wire is not None and branch.wire.hour,
            tool_budget=branch.tool_budget,
            by_prefix=self._goes_by_prefix(branch, read),
            prior=prior,
            compared_with=compared_with,
        )

    def _goes_by_prefix(self, branch: Branch, read: Transcript) -> bool:
        """Whether the provider caches by prefix, and the prompt begins with a part that changes."""
        return (
            begins_with_billing(read)
            and rounds.find_tariff(branch.client_headers, read, self._settings).caching is Caching.PREFIX
        )

    def hold(self, address: Address, turn: ManagedTurn) -> None:
        """Keep the state of a managed turn after its events are accepted."""
        self._turns[address] = turn

    # Later rounds

    async def find_passages(self, message: FindPassages) -> Mapping[str, HelperQuestion]:
        """The questions of a round with the passages for a helper model, by call."""
        address, end = message.address, message.round
        self._outside.begin()
        turn = await self.turn_of(address, end.request)
        if turn is None or turn.round > MOST_ANSWERED:
            return {}
        return await self._executor_for(address, turn, end, message.at).find_passages(end.calls, message.again)

    async def answer(self, message: AnswerCalls) -> RoundOver:
        """The end of a round with the answers to its hidden calls. Nothing if the caller has already continued without
        them.
        """
        address, end, at = message.address, message.round, message.at
        self._outside.begin()
        turn = await self.turn_of(address, end.request)
        if turn is None:
            return NOTHING
        if message.sent is None:
            answers = await self._answers(address, turn, end, at, message.helped)
        else:
            self._outside.note_late(Awaited.ANSWERS)
            answers = Answers(results=message.sent, budget=self._find_budget(address), helped=message.helped)
        if message.left.is_set():
            return NOTHING
        over = self._finish(address, turn, end, answers, at)
        if over.turn is None or turn.round >= MOST_ROUNDS:
            return over
        return attrs.evolve(over, turn=over.turn.next, more=True)

    async def refuse(self, message: Refused) -> RoundOver:
        """The end of a round that the provider refused for something the proxy added; another round may follow without
        that.
        """
        address, end = message.address, RoundEnd(reply=message.reply, request=message.request)
        self._outside.begin()
        turn = await self.turn_of(address, end.request)
        if turn is not None and message.refusal is Refusal.LENGTH:
            if not turn.is_first:
                return self._withdraw_answers(address, turn, end, message.at)
            return await self._refuse_length(address, turn, end, message.at)
        if turn is None or not turn.may_lack(message.refusal):
            return NOTHING
        over = self._finish(address, turn, end, Answers(), message.at)
        if over.turn is None:
            return NOTHING
        is_behind = message.refusal is Refusal.TOOLS_BEHIND
        moves = turn.moves or (is_behind and may_last(end.reply.body))
        over = attrs.evolve(over, turn=attrs.evolve(turn.without(message.refusal), moves=moves), more=True)
        if message.refusal is not Refusal.TOOLS:
            return over
        command = SetMode(at=message.at, branch=address.branch, mode=Mode.BYPASS, why=rounds.TOOLS_REFUSED)
        return attrs.evolve(over, events=(*over.events, *decide(command, self._state)))

    def _move(self, address: Address, turn: ManagedTurn, end: RoundEnd, at: int) -> tuple[Event, ...]:
        """Keep the memory tools at the head if the provider refused them behind it and accepts the replacement."""
        accepted = end.reply.error_type is None and (end.reply.usage or end.reply.stop_reason)
        if not (turn.moves and turn.mode is Mode.MANAGE and accepted):
            return ()
        command = SetMode(
            at=at,
            branch=address.branch,
            mode=Mode.MANAGE,
            why=rounds.BEHIND_REFUSED,
            tool_budget=turn.tool_budget,
            late=True,
        )
        return decide(command, self._state)

    async def _refuse_length(self, address: Address, turn: ManagedTurn, end: RoundEnd, at: int) -> RoundOver:
        """The end of a managed first round that the provider refused because it exceeds a window smaller than the
        table's; a smaller round may follow.
        """
        error, model = find_stated(end.reply.body, turn.read.dialect), turn.read.fields.model
        if error is None or not turn.is_first or turn.mode is not Mode.MANAGE or error.window >= model_of(model).window:
            return NOTHING
        name = sanitize.optional_text(model)
        command = NoteStated(at=at, **attrs.asdict(address), model=name, window=error.window, tokens=error.tokens)
        (stated,) = decide(command, self._state)
        assert isinstance(stated, WindowStated)
        fitted = await self._fit(address, turn, stated, self._loaded.preview((stated,)))
        over = NOTHING if fitted is None else self._finish(address, turn, end, Answers(), at)
        if over.turn is None:
            return RoundOver(events=(stated,), turn=turn)
        return attrs.evolve(over, events=(*over.events, stated), turn=fitted, more=True)

    def _withdraw_answers(self, address: Address, turn: ManagedTurn, end: RoundEnd, at: int) -> RoundOver:
        """The end of a later round that the provider refused because the answers make it too long; the next one says
        instead that they had no room.
        """
        sent, write = turn.results(address.attempt), turn.read.dialect.write_result
        results = {call: write(call, memory_results.TOO_LONG, False) for call in sent}
        if results == sent or turn.round >= MOST_ROUNDS:
            return NOTHING
        budget = attrs.evolve(self._find_budget(address), tokens=LIMITS.tokens)
        rounds = self._state.branches[address.branch].rounds
        last = rounds.finished[address.attempt][-1]
        withdrawn = [each for each in rounds.restored.get(address.attempt, ()) if each.at == last.at]
        degrades = [
            Degrade(
                at=at,
                object=each.object,
                branch=address.branch,
                turn=address.turn,
                after=each.before,
                cause=Cause.ATTEMPT,
            )
            for each in reversed(withdrawn)
        ]
        events, _ = decide_all(degrades, self._state.memory)
        answers = Answers(results=results, budget=budget, events=events)
        over = self._finish(address, turn, end, answers, at)
        history = turn.history.answer_last(address.attempt, results)
        return (
            over if over.turn is None else attrs.evolve(over, turn=attrs.evolve(turn.next, history=history), more=True)
        )

    async def _fit(
        self, address: Address, turn: ManagedTurn, stated: WindowStated, session: Session
    ) -> ManagedTurn | None:
        """The turn with another round that fits its model's window; None if none fits, or the branch does not continue
        from it.
        """
        branch = session.branches[address.branch]
        if branch.kind is BranchKind.COMPACTION or address.turn != branch.turns:
            return None
        settings = decision_inputs.in_force(session.find_taken(address.branch), self._settings)
        asked = PendingRequest(
            at=stated.at,
            branch=address.branch,
            turn=address.turn,
            read=turn.read,
            before=turn.history,
            history=turn.history,
            settings=settings,
            tariff=rounds.find_tariff(branch.client_headers, turn.read, settings),
            behind=upstream_history.offers(turn.history),
        )
        fitted = await self._epochs.fit(asked, session, stated.tokens or stated.window + 1)
        if fitted is None:
            return None
        rewritten, note = fitted
        happens = (*rewritten.events, *decide(note, session))
        offers = upstream_history.offers(turn.history)
        return attrs.evolve(
            turn.next,
            history=upstream_history.with_tools(rewritten.history) if offers else rewritten.history,
            hour=rewritten.hour,
            happens=happens,
            contents=rewritten.contents,
        )

    async def finish(self, address: Address, last: RoundEnd, at: int) -> RoundOver:
        """The end of a turn's last round. Its hidden calls, if any, are answered with the next request."""
        self._outside.begin()
        turn = await self.turn_of(address, last.request)
        if turn is None:
            return NOTHING
        return self._finish(address, turn, last, await self._answers(address, turn, last, at), at)

    async def turn_of(self, address: Address, request: bytes) -> ManagedTurn | None:
        """A running turn, rebuilt from the log if necessary: when another process writes to the session, the actor that
        began the turn is discarded. None if the proxy sent no request of its own for it, or another turn followed.
        """
        known = self._turns.get(address)
        branch = self._state.branches[address.branch]
        began = branch.rounds.began.get(address.attempt) if branch.rounds.turn == address.turn else None
        if known is not None or branch.wire is None or branch.turns != address.turn or began is None:
            return known
        prior = await self._loaded.histories.of(branch)
        assert prior is not None
        read = (await read_in_thread(request, conversation=branch.conversation)).transcript
        is_open = branch.rounds.open_of(address.turn, address.attempt) is not None
        own = read.dialect.comparison is not None and read.dialect.comparison.find_named(read.member) is not None
        named = None if own else find_named(prior)
        turn = self._continue(branch, read, prior.history, prior, named)
        refused = branch.rounds.count_refused(address.attempt)
        turn = attrs.evolve(turn, mode=branch.mode, round=began, refused=refused if is_open else max(0, refused - 1))
        turn = attrs.evolve(turn, moves=await self._find_moves(branch, address.attempt, turn))
        stated = self._state.stated_windows.get(sanitize.optional_text(read.fields.model))
        if not is_open and stated is not None and stated.address == address:
            return await self._fit(address, turn, stated, self._state)
        if not is_open and turn.is_first and branch.rounds.was_refused(address.attempt):
            reply = branch.rounds.finished[address.attempt][-1].reply
            body = await self._loaded.bodies.read_stored(reply)
            usual = Refusal.THINKING if branch.mode is Mode.MANAGE else Refusal.TOOLS
            if upstream_history.offers(turn.history) and branch.mode is Mode.MANAGE:
                usual = Refusal.TOOLS_BEHIND
            turn = turn.without(turn.find_refusal(body) or usual)
        elif not is_open:
            turn = turn.next
        self._turns[address] = turn
        return turn

    async def _find_moves(self, branch: Branch, attempt: int, turn: ManagedTurn) -> bool:
        """``ManagedTurn.moves``, from the log."""
        finished = branch.rounds.finished.get(attempt, ())
        refused = branch.rounds.count_refused(attempt)
        if not (branch.behind and branch.mode is Mode.MANAGE and 0 < refused == len(finished)):
            return False
        bodies = [await self._loaded.bodies.read_stored(each.reply) for each in finished]
        return any(turn.find_refusal(each) in (None, Refusal.TOOLS_BEHIND) and may_last(each) for each in bodies)

    def under_way(self, address: Address) -> ManagedTurn | None:
        """A managed turn that this actor knows."""
        return self._turns.get(address)

    def bypass(self, opening: Opening) -> ManagedTurn:
        """A turn whose original request was refused: it begins a history without thinking."""
        history = upstream_history.begin(opening.read)
        return ManagedTurn(
            read=opening.read,
            history=history,
            mode=Mode.BYPASS,
            by_prefix=self._goes_by_prefix(opening.branch, opening.read),
        )

    def over(self, address: Address) -> None:
        """Drop a turn that has ended."""
        turn = self._turns.pop(address, None)
        if turn is not None:
            self._loaded.histories.end_turn(self._state.branches[address.branch], address.turn, turn.history)

    async def _answers(
        self,
        address: Address,
        turn: ManagedTurn,
        end: RoundEnd,
        at: int,
        helped: Mapping[str, HelperAnswer] = NOT_HELPED,
    ) -> Answers:
        budget = self._find_budget(address)
        if turn.round > MOST_ANSWERED:
            write = turn.read.dialect.write_result
            refused = {call.id: write(call.id, memory_results.NO_MORE, False) for call in end.calls}
            return Answers(results=refused, budget=budget, helped=helped)
        if not end.calls:
            return Answers(budget=budget)
        return await self._executor_for(address, turn, end, at, helped).answer(end.calls)

    def _executor_for(
        self,
        address: Address,
        turn: ManagedTurn,
        end: RoundEnd,
        at: int,
        helped: Mapping[str, HelperAnswer] = NOT_HELPED,
    ) -> MemoryToolExecutor:
        settings = decision_inputs.in_force(self._state.find_taken(address.branch), self._settings)
        most = find_limit(settings.window, turn.read.fields.model, self._state)
        used, model = window_of(end.reply.usage), turn.read.fields.model
        is_possible = used is not None and used.prompt + used.output <= max(most, model_of(model).window)
        room = most - used.prompt - used.output if used is not None and is_possible else None
        tools = tool_paging.tools_of(turn.read) if turn.tool_budget is not None else b""
        is_typed = not has_results(blocks_of(turn.read, -1))
        why = FaultReason.USER_RECALL if is_typed else FaultReason.REFERENCE
        budget = self._find_budget(address)
        context = CallContext(at=at, budget=budget, settings=settings, room=room, tools=tools, helped=helped, why=why)
        return MemoryToolExecutor(self._texts, self._outside, self._state, address, context)

    def _find_budget(self, address: Address) -> RecallBudget:
        return self._state.branches[address.branch].rounds.find_budget(address.turn, address.attempt)

    def _finish(self, address: Address, turn: ManagedTurn, end: RoundEnd, answers: Answers, at: int) -> RoundOver:
        """The end of a round; the returned turn's history includes it."""
        reply, contents = transcript.store_reply(end.reply.body, self._loaded.known)
        contents += answers.contents
        answered: list[Answered] = []
        for call, result in answers.results.items():
            stored, more = transcript.store_reply(result, self._loaded.known)
            answered.append(Answered(call=sanitize.text(call), result=stored))
            contents += more
        command = FinishRound(
            at=at,
            **attrs.asdict(address),
            round=turn.round,
            reply=reply,
            model=sanitize.optional_text(end.reply.model),
            stop_reason=sanitize.optional_text(end.reply.stop_reason),
            usage=sanitize.facts(end.reply.usage),
            answers=tuple(answered),
            faults=answers.budget.faults,
            tokens=answers.budget.tokens,
        )
        finished = decide(command, self._state)
        if not finished:
            return NOTHING
        self._loaded.bodies.hold_stored(reply, end.reply.body)
        events: tuple[Event, ...] = (*finished, *answers.events)
        if turn.mode is Mode.MANAGE:
            events += cleanup.effects_of(end.reply, address, self._loaded.preview(events), at)
        if moved := self._move(address, turn, end, at):
            events, turn = events + moved, attrs.evolve(turn, moves=False)
        replied = turn.add_reply(address.attempt, end.reply.body, answers.results)
        events += self._note_helpers(address, turn.round, end, answers.helped, at)
        events += decision_inputs.record_inputs(self._outside.noted, address, turn.round, at)
        return RoundOver(events=events, contents=contents, turn=replied)

    def _note_helpers(
        self, address: Address, round_: int, end: RoundEnd, helped: Mapping[str, HelperAnswer], at: int
    ) -> tuple[Event, ...]:
        """Record the helper model's answers to the calls of a round."""
        events: tuple[Event, ...] = ()
        for call in (each for each in end.calls if each.id in helped):
            asked = memory_tools.parse(call.name, call.input_json)
            if isinstance(asked, MemoryQuery):
                command = RecordQuestion(
                    at=at,
                    **attrs.asdict(address),
                    round=round_,
                    call=sanitize.text(call.id),
                    question=sanitize.text(plain(asked.question, LONGEST_REASON)),
                    **helped[call.id].as_fields(),
                )
                events += decision_inputs.decide(command)
        return events

    # Sending

    async def outgoing(
        self, address: Address, turn: ManagedTurn, body: bytes, state: Session, at: int, known: set[bytes]
    ) -> tuple[tuple[Event, ...], Contents, Transcript]:
        """The events of sending this body as a round, given the session's state, the contents not yet ``known``, and
        the reading of the body.
        """
        branch, prior = state.branches[address.branch], turn.prior
        if branch.wire is not None and (prior is None or prior.version != branch.wire.body_version):
            prior = await self._loaded.histories.of(branch)  # another turn or attempt was sent meanwhile
        before = prior.sent if prior is not None else attrs.evolve(turn.read, recipe=branch.body)
        reading = await read_in_thread(body, before, conversation=branch.conversation, known=known, most=ANY_NUMBER)
        sent = reading.transcript
        command = BeginRound(
            at=at,
            address=address,
            round=turn.round,
            epoch=turn.history.epoch,
            body=recipe.encode(reading.change),
            size=len(body),
            sha256=sent.sha256,
            stored_sha256=sent.stored_sha256 if sent.stored_sha256 != sent.sha256 else None,
            ends=turn.history.ends,
        )
        return decide(command, state), reading.contents, sent

    def go_on(self, address: Address, turn: ManagedTurn, sent: Transcript) -> None:
        """Continue the branch from a recorded round, unless the round belongs to an earlier turn."""
        branch = self._state.branches[address.branch]
        if branch.wire is not None and branch.wire.body_version == self._state.version:
            prior = self._loaded.histories.keep_sent(branch, turn.history, sent)
            self._turns[address] = attrs.evolve(turn, prior=prior)


def _stays_at_head(prior: Prior | None, history: UpstreamHistory) -> bool:
    """Whether the memory tools stay where the last request had them, at the head: thinking was signed for it."""
    form = history.dialect.behind
    if prior is None or form is None or upstream_history.offers(prior.history):
        return False
    return form.takes(prior.sent.fields.model or "") and upstream_history.holds_thinking(history)


def _begin(opening: Opening) -> UpstreamHistory:
    """The history of a conversation for which the proxy has sent nothing of its own before."""
    keeps_thinking = not epochs.may_drop_thinking(opening.read)
    return upstream_history.begin(opening.read, keep_thinking=keeps_thinking)
