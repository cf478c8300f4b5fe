"""The managed branches of one session: what goes upstream instead of the client's own bytes, round by round.

What was sent is recorded before anything of the reply reaches the client, and the wire history goes on from there. It
is kept in memory, and read from the log where it is not: the last body of a branch holds all of it.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

import attrs

from mnemosyne.actors import storable
from mnemosyne.actors.answering import Answers, Find, FromMemory
from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.managed_mode import mode_of
from mnemosyne.actors.messages import Begin
from mnemosyne.actors.rewriting import Rewriting
from mnemosyne.actors.round_messages import AnswerCalls, RoundEnd, Strip, Upstream
from mnemosyne.domain import memory_tools, recipe, stored_reply, transcript, wire_history, wire_messages
from mnemosyne.domain.epoch_situation import Asked
from mnemosyne.domain.epochs import Rewritten
from mnemosyne.domain.normal_form import Block
from mnemosyne.domain.planning import WINDOW
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.recipe import Recipe
from mnemosyne.domain.reply import json_object
from mnemosyne.domain.round_events import Answered, Mode, RoundBegan, RoundFinished
from mnemosyne.domain.session import Address, BranchOpened, Event, Kind, Session, SessionForgotten, TurnBegan
from mnemosyne.domain.transcript import Transcript
from mnemosyne.domain.wire_history import Round, WireHistory
from mnemosyne.errors import NotFound

HELD = 6
"""How many branches' wire histories are kept in memory."""

MOST_ROUNDS = 8
"""Rounds of one turn. In the last of them the model's calls of memory tools end the reply."""

Contents = tuple[tuple[bytes, bytes], ...]
Append = Callable[[tuple[Event, ...], str, str, Contents], Awaitable[Ticket]]


@attrs.define
class _Wire:
    """A branch's wire history, and the last body that was sent of it, as its recipe in the log."""

    history: WireHistory
    sent: Transcript


@attrs.define
class _Turn:
    """A managed turn under way. ``read`` is the client's request, ``wire`` what was sent for it so far."""

    read: Transcript
    wire: _Wire
    mode: Mode
    hour: bool
    round: int = 1


class ManagedBranches:
    """Prepares what goes upstream, and answers the calls of memory tools."""

    def __init__(
        self,
        state: Callable[[], Session],
        bodies: Bodies,
        append: Append,
        find: Find | None = None,
        window: int = WINDOW,
    ) -> None:
        self._state = state
        self._window = window
        self._rewriting = Rewriting(state, bodies)
        self._bodies = bodies
        self._append = append
        self._memory = FromMemory(bodies, find)
        self._held: OrderedDict[str, _Wire] = OrderedDict()
        self._turns: dict[Address, _Turn] = {}
        self._finished: dict[str, dict[int, list[RoundFinished]]] = {}

    def note(self, event: Event) -> None:
        """Remember what the rounds of each branch's last turn were."""
        self._memory.note(event)
        match event:
            case RoundBegan():
                if event.round == event.attempt == 1:
                    self._finished.pop(event.branch, None)
                self._bodies.known.update(recipe.decode(event.body).digests)
            case RoundFinished():
                self._finished.setdefault(event.branch, {}).setdefault(event.attempt, []).append(event)
                for stored in (event.reply, *(each.result for each in event.answers)):
                    self._bodies.known.update(recipe.decode(stored).digests)
            case SessionForgotten():
                self._held.clear()
                self._finished.clear()

    # The first round

    async def begin(self, message: Begin, events: Sequence[Event], began: TurnBegan, read: Transcript) -> Upstream:
        """What goes upstream for a request whose turn has just begun."""
        assert message.offer is not None
        opened = next((event for event in events if isinstance(event, BranchOpened)), None)
        before = self._before(opened, began)
        prior = await self._wire_of(before)
        set_, mode = mode_of(message, opened, began, read, self._state())
        managed = mode is Mode.MANAGE
        rewritten = await self._rewritten(message, began, read, prior) if prior and managed else None
        taken = message.offer.take()
        if set_ is not None and not taken:
            set_ = attrs.evolve(set_, mode=Mode.OBSERVE, why="its first request could not wait for us")
        if mode is Mode.OBSERVE or not taken:
            ticket = await self._append((set_,), "Begin", message.correlation_id, ()) if set_ else None
            return Upstream(mode, None, ticket)
        client = [read.message_bytes(number) for number in range(len(read.messages))]
        wire = self._state().branches[began.branch].wire
        hour = managed and wire is not None and wire.hour
        first_events: tuple[Event, ...] = (set_,) if set_ else ()
        if prior is None:
            history = wire_history.first(client)
        elif set_ is not None:
            history = wire_history.first(client, epoch=prior.history.epoch + 1)
        elif rewritten is not None:
            history, hour, first_events = rewritten.history, rewritten.hour, rewritten.events
        elif self._is_rewritten(began):
            history = wire_history.first(client, epoch=prior.history.epoch + 1)
        else:
            history = _continued(prior.history, began, client)
        turn = _Turn(read, _Wire(history, prior.sent if prior else self._as_recorded(began, read)), mode, hour)
        address = Address(began.branch, began.turn, began.attempt)
        return await self._send(address, turn, history.messages, first_events, (), message.at, message.correlation_id)

    async def _rewritten(self, message: Begin, began: TurnBegan, read: Transcript, prior: _Wire) -> Rewritten | None:
        """The epoch that a request begins, if it does."""
        branch = self._state().branches[began.branch]
        is_last, is_rewritten = began.turn == branch.turns, self._is_rewritten(began)
        if not is_rewritten and not (is_last and began.attempt == 1 and branch.kind is not Kind.COMPACTION):
            return None
        client = [read.message_bytes(number) for number in range(len(read.messages))]
        asked = Asked(
            at=message.at,
            branch=began.branch,
            turn=began.turn,
            read=read,
            before=prior.history,
            history=prior.history if is_rewritten else _continued(prior.history, began, client),
            window=self._window,
        )
        if not is_rewritten:
            return await self._rewriting.begin_epoch(asked)
        found = await self._rewriting.begin_again(asked)
        # An earlier turn once more leaves the branch as it is.
        return found if found is None or is_last else attrs.evolve(found, events=())

    def _is_rewritten(self, began: TurnBegan) -> bool:
        """Whether what the client still shares with its branch was rendered again, so that it cannot be cut there."""
        wire = self._state().branches[began.branch].wire
        return wire is not None and began.kept < wire.rewritten

    def _before(self, opened: BranchOpened | None, began: TurnBegan) -> str:
        """The branch whose wire history the request goes on from."""
        if opened is not None and opened.inherits and opened.parent is not None:
            return opened.parent
        return began.branch

    def _as_recorded(self, began: TurnBegan, read: Transcript) -> Transcript:
        return attrs.evolve(read, recipe=self._state().branches[began.branch].body)

    # Later rounds

    async def answer(self, message: AnswerCalls) -> Upstream:
        """Answer the calls of a round; what goes upstream next, or no body if there is to be no other round."""
        turn = self._turn(message.address)
        answers = await self._answer(message.address, message.round, message.at)
        finished, contents, round_ = self._finish(message.address, turn, message.round, answers, message.at)
        turn.wire.history = turn.wire.history.replied(message.address.attempt, round_)
        events: tuple[Event, ...] = (finished, *answers.events)
        if turn.round >= MOST_ROUNDS:
            ticket = await self._append(events, "AnswerCalls", message.correlation_id, contents)
            return Upstream(turn.mode, None, ticket)
        turn.round += 1
        messages = turn.wire.history.next_round(message.address.attempt, memory_tools.NAMES)
        return await self._send(message.address, turn, messages, events, contents, message.at, message.correlation_id)

    async def strip(self, message: Strip) -> Upstream:
        """Begin a new epoch without any thinking; no body if there was none to leave out, or it was done already."""
        turn = self._turn(message.address)
        if turn.round > 1 or not wire_history.holds_thinking(turn.wire.history):
            return Upstream(turn.mode, None)
        finished, contents, _ = self._finish(
            message.address, turn, RoundEnd(reply=message.refusal), Answers(), message.at
        )
        turn.wire.history = wire_history.stripped(turn.wire.history)
        turn.round += 1
        return await self._send(
            message.address, turn, turn.wire.history.messages, (finished,), contents, message.at, message.correlation_id
        )

    def _turn(self, address: Address) -> _Turn:
        turn = self._turns.get(address)
        if turn is None:
            raise NotFound(f"turn {address.turn} of branch {address.branch} is not under way here.")
        return turn

    async def finish(self, address: Address, last: RoundEnd, at: int, correlation_id: str) -> None:
        """The last round of a turn is over. Its hidden calls, if it has any, are answered with the next request."""
        turn = self._turns.get(address)
        if turn is None:
            return
        answers = await self._answer(address, last, at)
        finished, contents, round_ = self._finish(address, turn, last, answers, at)
        turn.wire.history = turn.wire.history.replied(address.attempt, round_)
        await self._append((finished, *answers.events), "Finish", correlation_id, contents)
        self._over(address)

    def sent(self, address: Address) -> Transcript | None:
        """What went upstream last for a turn under way; None if nothing of ours did."""
        turn = self._turns.get(address)
        return turn.wire.sent if turn is not None else None

    def interrupt(self, address: Address) -> None:
        """A turn is over without a whole reply."""
        self._over(address)

    def _over(self, address: Address) -> None:
        turn = self._turns.pop(address, None)
        self._memory.over(address)
        held = self._held.get(address.branch)
        if turn is None or held is None:
            return
        # Two attempts at one turn have the same messages: what either was told belongs to the history.
        held.history = attrs.evolve(held.history, replies={**held.history.replies, **turn.wire.history.replies})

    async def _answer(self, address: Address, round_: RoundEnd, at: int) -> Answers:
        if not round_.calls:
            return Answers()
        return await self._memory.answer(self._state(), address, round_.calls, at)

    def _finish(
        self, address: Address, turn: _Turn, round_: RoundEnd, answers: Answers, at: int
    ) -> tuple[RoundFinished, Contents, Round]:
        """The event that a round finished, its contents, and the round as the wire history holds it."""
        reply, contents = stored_reply.store(round_.reply.body, self._bodies.known)
        answered: list[Answered] = []
        for call, result in answers.results.items():
            stored, more = stored_reply.store(result, self._bodies.known)
            answered.append(Answered(call=storable.text(call), result=stored))
            contents += more
        event = RoundFinished(
            at=at,
            branch=address.branch,
            turn=address.turn,
            attempt=address.attempt,
            round=turn.round,
            reply=reply,
            model=storable.optional_text(round_.reply.model),
            stop_reason=storable.optional_text(round_.reply.stop_reason),
            usage=storable.facts(round_.reply.usage),
            answers=tuple(answered),
        )
        return event, contents, Round(_blocks_of(round_.reply.body), answers.results)

    async def _send(
        self,
        address: Address,
        turn: _Turn,
        messages: Sequence[bytes],
        events: tuple[Event, ...],
        contents: Contents,
        at: int,
        correlation_id: str,
    ) -> Upstream:
        """Record the next round and say what goes upstream in it."""
        tools = memory_tools.TOOLS_JSON if turn.mode is Mode.MANAGE else ()
        body = wire_history.body(turn.read, turn.wire.history, tools, messages, hour=turn.hour)
        branch = self._state().branches[address.branch]
        known = self._bodies.known.union(digest for digest, _ in contents) if contents else self._bodies.known
        reading = transcript.read(body, turn.wire.sent, lane=branch.lane, known=known)
        sent = reading.transcript
        before = branch.wire.ends if branch.wire is not None else ()
        ends = turn.wire.history.ends
        kept = wire_history.common(before, ends)
        began = RoundBegan(
            at=at,
            branch=address.branch,
            turn=address.turn,
            attempt=address.attempt,
            round=turn.round,
            epoch=turn.wire.history.epoch,
            base=branch.wire.body_version if branch.wire is not None else branch.body_version,
            body=recipe.encode(reading.change),
            size=len(body),
            sha256=sent.sha256,
            stored_sha256=sent.stored_sha256 if sent.stored_sha256 != sent.sha256 else None,
            kept=kept,
            ends=ends[kept:],
        )
        command = "Begin" if turn.round == 1 else "AnswerCalls"
        ticket = await self._append((*events, began), command, correlation_id, contents + reading.contents)
        self._turns[address] = turn
        branch = self._state().branches[address.branch]
        if branch.wire is not None and branch.wire.body_version == self._state().version:
            turn.wire.sent = attrs.evolve(sent, recipe=branch.wire.body)
            self._hold(address.branch, turn.wire)
        return Upstream(turn.mode, body, ticket)

    # What is held, and what is read from the log

    def _hold(self, branch: str, wire: _Wire) -> None:
        self._held[branch] = wire
        self._held.move_to_end(branch)
        while len(self._held) > HELD:
            self._held.popitem(last=False)

    async def _wire_of(self, name: str) -> _Wire | None:
        """A branch's wire history; None if it has none. Raises LogFailed and ContentForgotten."""
        branch = self._state().branches[name]
        if branch.wire is None:
            return None
        held = self._held.get(name)
        if held is not None:
            return _Wire(held.history, held.sent)
        raw = await self._bodies.assembled(branch.wire.body)
        sent = attrs.evolve(transcript.read(raw, lane=branch.lane).transcript, recipe=branch.wire.body)
        reach = branch.wire.ends[-1] if branch.wire.ends else 0
        messages = tuple(wire_messages.bare(sent.message_bytes(number)) for number in range(reach))
        replies = {
            attempt: tuple([await self._round(each) for each in rounds if each.usage or each.stop_reason])
            for attempt, rounds in self._finished.get(name, {}).items()
        }
        history = WireHistory(messages=messages, ends=branch.wire.ends, epoch=branch.wire.epoch, replies=replies)
        return _Wire(history, sent)

    async def _round(self, event: RoundFinished) -> Round:
        body = await self._bodies.assembled(recipe.apply(Recipe(), recipe.decode(event.reply)))
        results = {
            each.call: await self._bodies.assembled(recipe.apply(Recipe(), recipe.decode(each.result)))
            for each in event.answers
        }
        return Round(_blocks_of(body), results)


def _continued(history: WireHistory, began: TurnBegan, client: Sequence[bytes]) -> WireHistory:
    kept = min(began.kept, len(history.ends))
    return wire_history.continued(history, kept, client[kept:], memory_tools.NAMES)


def _blocks_of(body: bytes) -> tuple[Block, ...]:
    content = json_object(body).get("content")
    return tuple(block for block in content if isinstance(block, dict)) if isinstance(content, list) else ()
