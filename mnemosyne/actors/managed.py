"""The managed branches of one session: what goes upstream instead of the client's own bytes, round by round.

What was sent is recorded before anything of the reply reaches the client, and the wire history goes on from there.
"""

from collections.abc import Callable, Sequence
from functools import reduce

from mnemosyne.actors.answering import Answers, Find, FromMemory
from mnemosyne.actors.appending import Append, Contents
from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.bringing import BringingAhead
from mnemosyne.actors.cleanup import CleanupTags
from mnemosyne.actors.first_round import First, FirstRounds, request_of, too_late
from mnemosyne.actors.messages import Begin
from mnemosyne.actors.patience import USUAL, Patience
from mnemosyne.actors.round_messages import AnswerCalls, RoundEnd, Strip, Upstream
from mnemosyne.actors.rounds import TurnUnderWay
from mnemosyne.actors.wires import Wires
from mnemosyne.domain.cost.prices import tokens_of
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode, RoundBegan
from mnemosyne.domain.session.state import Address, Session, evolve
from mnemosyne.domain.tools import memory_tools, tool_paging
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.window.planning import WINDOW
from mnemosyne.domain.wire import recipe, transcript
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import NotFound

MOST_ROUNDS = 8
"""Rounds of one turn. In the last of them the model's calls of memory tools end the reply."""


class ManagedBranches:
    """Prepares what goes upstream, and answers the calls of memory tools."""

    def __init__(
        self,
        state: Callable[[], Session],
        bodies: Bodies,
        append: Append,
        find: Find | None = None,
        window: int = WINDOW,
        tool_budget: int | None = None,
        *,
        strict: bool = False,
        patience: Patience = USUAL,
    ) -> None:
        self._state = state
        self._window = window
        self._bodies = bodies
        self._append = append
        self._memory = FromMemory(bodies, find, strict=strict, patience=patience)
        self._ahead = BringingAhead(bodies, find, strict=strict, patience=patience)
        self._wires = Wires(state, bodies)
        self._first_rounds = FirstRounds(self._wires, bodies, window, tool_budget, patience)
        self._tags = CleanupTags(state, bodies, append, patience)
        self._turns: dict[Address, TurnUnderWay] = {}

    def note(self, event: Event) -> None:
        """Remember what the rounds of each branch's last turn were."""
        self._wires.note(event)

    # The first round

    async def begin(self, message: Begin, events: Sequence[Event], read: Transcript) -> Upstream:
        """What goes upstream for a request whose turn has just begun with these events. Raises LogFailed and
        ContentForgotten.
        """
        assert message.offer is not None
        request = request_of(message, events, read, self._state())
        first = await self._first_rounds.of(request)
        if not message.offer.take() and first.wire is not None:
            first = First(mode=Mode.OBSERVE, events=too_late(request, first))
        if first.wire is None:
            ticket = await self._append(first.events, "Begin", message.correlation_id, ()) if first.events else None
            return Upstream(self._state().branches[request.began.branch].mode, None, ticket)
        began, happened = request.began, first.events
        if first.mode is Mode.MANAGE:
            history, brought = await self._ahead.brought(
                request.session, happened, message.at, began, read, first.wire.history
            )
            first.wire.history, happened = history, (*happened, *brought)
        turn = TurnUnderWay(read, first.wire, first.mode, first.hour, first.tool_budget)
        address = Address(began.branch, began.turn, began.attempt)
        messages = first.wire.history.messages
        return await self._send(address, turn, messages, happened, (), message.at, message.correlation_id)

    async def preview(self, message: Begin, events: Sequence[Event], read: Transcript) -> Upstream:
        """What would go upstream for a request that would lead to these events, but for what would be brought for it.
        Raises as ``begin`` does.
        """
        after = reduce(evolve, events, self._state())
        first = await self._first_rounds.of(request_of(message, events, read, after))
        if first.wire is None:
            return Upstream(first.mode, None)
        turn = TurnUnderWay(read, first.wire, first.mode, first.hour, first.tool_budget)
        return Upstream(first.mode, turn.body(first.wire.history.messages))

    # Later rounds

    async def answer(self, message: AnswerCalls) -> Upstream:
        """Answer the calls of a round; what goes upstream next, or no body if there is to be no other round."""
        turn = await self._taken_up(message.address, message.round.request)
        if turn is None:
            raise NotFound(f"turn {message.address.turn} of branch {message.address.branch} is not under way.")
        answers = await self._answer(message.address, turn, message.round, message.at)
        known = self._bodies.known
        finished, contents = turn.finished(message.address, message.round, answers, known, message.at)
        events: tuple[Event, ...] = (finished, *answers.events)
        events += self._tags.hear(message.address, message.round.reply, message.at, message.correlation_id, events)
        if turn.round >= MOST_ROUNDS or not message.wish.take():
            ticket = await self._append(events, "AnswerCalls", message.correlation_id, contents)
            return Upstream(turn.mode, None, ticket)
        turn.round += 1
        messages = turn.wire.history.next_round(message.address.attempt, memory_tools.NAMES)
        return await self._send(message.address, turn, messages, events, contents, message.at, message.correlation_id)

    async def strip(self, message: Strip) -> Upstream:
        """Begin a new epoch without any thinking; no body if there was none to leave out, or it was done already."""
        turn = self._turns.get(message.address)
        if turn is None:
            raise NotFound(f"turn {message.address.turn} of branch {message.address.branch} is not under way here.")
        if turn.round > 1 or not upstream_history.holds_thinking(turn.wire.history) or not message.wish.take():
            return Upstream(turn.mode, None)
        end, known = RoundEnd(reply=message.refusal), self._bodies.known
        stripped = upstream_history.stripped(turn.wire.history)
        finished, contents = turn.finished(message.address, end, Answers(), known, message.at)
        turn.wire.history = stripped
        turn.round += 1
        return await self._send(
            message.address, turn, turn.wire.history.messages, (finished,), contents, message.at, message.correlation_id
        )

    async def _taken_up(self, address: Address, request: bytes) -> TurnUnderWay | None:
        """A turn under way, if need be as the log tells of it: when another process writes to the session, the actor
        that began the turn is gone. None if its last round is over, or another turn followed.
        """
        known = self._turns.get(address)
        branch = self._state().branches[address.branch]
        began = self._wires.open_round(address)
        if known is not None or branch.wire is None or branch.turns != address.turn or began is None:
            return known
        wire = await self._wires.of(address.branch)
        assert wire is not None
        read = transcript.read(request, lane=branch.lane).transcript
        self._turns[address] = TurnUnderWay(read, wire, branch.mode, branch.wire.hour, branch.tool_budget, began)
        return self._turns[address]

    async def finish(self, address: Address, last: RoundEnd, at: int, correlation_id: str) -> None:
        """The last round of a turn is over. Its hidden calls, if it has any, are answered with the next request."""
        turn = await self._taken_up(address, last.request)
        if turn is None:
            return
        answers = await self._answer(address, turn, last, at)
        finished, contents = turn.finished(address, last, answers, self._bodies.known, at)
        events: tuple[Event, ...] = (finished, *answers.events)
        if turn.mode is Mode.MANAGE:
            events += self._tags.hear(address, last.reply, at, correlation_id, events)
        await self._append(events, "Finish", correlation_id, contents)
        self.over(address)

    async def obey_tags(self) -> None:
        """Look at the texts in cleanup tags of the replies that came whole since the last time."""
        await self._tags.obey()

    def sent(self, address: Address) -> Transcript | None:
        """What went upstream last for a turn under way; None if nothing of ours did."""
        turn = self._turns.get(address)
        return turn.wire.sent if turn is not None else None

    def over(self, address: Address) -> None:
        """A turn is over, however it ended."""
        turn = self._turns.pop(address, None)
        self._memory.over(address)
        if turn is not None:
            self._wires.replied(address.branch, turn.wire.history)

    async def _answer(self, address: Address, turn: TurnUnderWay, round_: RoundEnd, at: int) -> Answers:
        if not round_.calls:
            return Answers()
        used = tokens_of(round_.reply.usage)
        room = self._window - used.prompt - used.output if used is not None else None
        tools = tool_paging.tools_of(turn.read) if turn.tool_budget is not None else b""
        return await self._memory.answer(self._state(), address, round_.calls, at, room, tools)

    async def _send(
        self,
        address: Address,
        turn: TurnUnderWay,
        messages: Sequence[bytes],
        events: tuple[Event, ...],
        contents: Contents,
        at: int,
        correlation_id: str,
    ) -> Upstream:
        """Record the next round and say what goes upstream in it."""
        body = turn.body(messages)
        await self._wires.catch_up(address.branch, turn.wire)
        branch = self._state().branches[address.branch]
        known = self._bodies.known.union(digest for digest, _ in contents) if contents else self._bodies.known
        reading = transcript.read(body, turn.wire.sent, lane=branch.lane, known=known)
        sent = reading.transcript
        before = branch.wire.ends if branch.wire is not None else ()
        ends = turn.wire.history.ends
        kept = upstream_history.common(before, ends)
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
        self._wires.sent(address.branch, turn.wire, sent)
        return Upstream(turn.mode, body, ticket)
