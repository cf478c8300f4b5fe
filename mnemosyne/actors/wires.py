"""The wire histories of one session's branches: held in memory, and read from the log where they are not.

The last body of a branch holds all of its history; what its last turn's rounds said and got follows from their events.
"""

from collections import OrderedDict
from collections.abc import Callable

import attrs

from mnemosyne.actors.bodies import Bodies
from mnemosyne.domain.session.events import Event, SessionForgotten
from mnemosyne.domain.session.round_events import RoundBegan, RoundFinished
from mnemosyne.domain.session.state import Address, Session
from mnemosyne.domain.window.upstream_history import Round, WireHistory
from mnemosyne.domain.wire import message_bytes, recipe, transcript
from mnemosyne.domain.wire.normal_form import Block, content_blocks
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.domain.wire.transcript import Transcript

HELD = 6
"""How many branches' wire histories are kept in memory."""


@attrs.define
class Wire:
    """A branch's wire history, and the last body that was sent of it, as its recipe in the log: that of the event with
    this ``version``.
    """

    history: WireHistory
    sent: Transcript
    version: int


class Wires:
    """What was sent of each branch. ``note`` tells it what happened."""

    def __init__(self, state: Callable[[], Session], bodies: Bodies) -> None:
        self._state = state
        self._bodies = bodies
        self._held: OrderedDict[str, Wire] = OrderedDict()
        self._began: dict[str, dict[int, int]] = {}
        """Of the last turn of each branch the number of the last round that began, by attempt."""
        self._finished: dict[str, dict[int, list[RoundFinished]]] = {}
        self._turns: dict[str, int] = {}
        """The last turn of each branch of which a round began."""

    def note(self, event: Event) -> None:
        """Remember what the rounds of each branch's last turn were."""
        match event:
            case RoundBegan():
                if event.turn > self._turns.get(event.branch, 0):
                    self._turns[event.branch] = event.turn
                    self._finished[event.branch], self._began[event.branch] = {}, {}
                if event.turn == self._turns[event.branch]:  # else an earlier turn once more
                    self._began[event.branch][event.attempt] = event.round
                self._bodies.known.update(recipe.decode(event.body).digests)
            case RoundFinished():
                if event.turn == self._turns.get(event.branch):
                    self._finished[event.branch].setdefault(event.attempt, []).append(event)
                for stored in (event.reply, *(each.result for each in event.answers)):
                    self._bodies.known.update(recipe.decode(stored).digests)
            case SessionForgotten():
                for kept in (self._held, self._began, self._finished, self._turns):
                    kept.clear()

    async def of(self, name: str) -> Wire | None:
        """A branch's wire history; None if it has none. Raises LogFailed and ContentForgotten."""
        branch = self._state().branches.get(name)
        if branch is None or branch.wire is None:
            return None
        held = self._held.get(name)
        if held is not None:
            return attrs.evolve(held)
        raw = await self._bodies.assembled(branch.wire.body)
        sent = attrs.evolve(transcript.read(raw, lane=branch.lane).transcript, recipe=branch.wire.body)
        reach = branch.wire.ends[-1] if branch.wire.ends else 0
        messages = tuple(message_bytes.bare(sent.message_bytes(number)) for number in range(reach))
        replies = {
            attempt: tuple([await self._round(each) for each in rounds if each.usage or each.stop_reason])
            for attempt, rounds in self._finished.get(name, {}).items()
        }
        history = WireHistory(messages=messages, ends=branch.wire.ends, epoch=branch.wire.epoch, replies=replies)
        return Wire(history, sent, branch.wire.body_version)

    async def _round(self, event: RoundFinished) -> Round:
        body = await self._bodies.assembled(recipe.apply(Recipe(), recipe.decode(event.reply)))
        results = {
            each.call: await self._bodies.assembled(recipe.apply(Recipe(), recipe.decode(each.result)))
            for each in event.answers
        }
        return Round(blocks_of(body), results)

    def open_round(self, address: Address) -> int | None:
        """The round of a turn that began last, if that has not finished."""
        began = self._began.get(address.branch, {}).get(address.attempt, 0)
        over = len(self._finished.get(address.branch, {}).get(address.attempt, ()))
        return began if began == over + 1 else None

    async def catch_up(self, branch: str, wire: Wire) -> None:
        """Go on from the body that was recorded last: another turn or attempt may have been sent since."""
        now = self._state().branches[branch].wire
        if now is not None and now.body_version != wire.version:
            last = await self.of(branch)
            assert last is not None
            wire.sent, wire.version = last.sent, last.version

    def sent(self, branch: str, wire: Wire, sent: Transcript) -> None:
        """A body was recorded just now; hold it, unless it is an earlier turn's: the branch goes on from its last."""
        now = self._state().branches[branch].wire
        if now is None or now.body_version != self._state().version:
            return
        wire.sent, wire.version = attrs.evolve(sent, recipe=now.body), now.body_version
        self._held[branch] = wire
        self._held.move_to_end(branch)
        while len(self._held) > HELD:
            self._held.popitem(last=False)

    def replied(self, branch: str, history: WireHistory) -> None:
        """A turn is over. Two attempts at one turn have the same messages: what either was told belongs to both."""
        held = self._held.get(branch)
        if held is not None:
            held.history = attrs.evolve(held.history, replies={**held.history.replies, **history.replies})


def blocks_of(body: bytes) -> tuple[Block, ...]:
    """The content blocks of a reply."""
    return tuple(content_blocks(json_object(body).get("content")))
