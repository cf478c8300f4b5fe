"""Reads from the event log what happened in the demo: every figure that is shown comes from here."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

import trio

from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.objects.events import FaultKind, ObjectCreated, ObjectDegraded, ObjectFaulted
from mnemosyne.domain.ports import EventLog, Recorded
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.errors import LogUnavailable
from mnemosyne.figures import count_text
from mnemosyne.services.billed_replies import BilledReplies, ReplyEvent
from mnemosyne.services.savings import Balance, balance_of_turn

PAGE = 100
WAIT_SECONDS = 10.0
POLL_SECONDS = 0.02

KINDS = {FaultKind.MICRO: "asked", FaultKind.EXPLICIT: "restored", FaultKind.IMPLICIT: "reread"}

Facts = dict[str, Any]


class Witness:
    """Follows the log from its beginning. ``facts`` are the figures of the last compaction and of each kind of fault,
    by name; ``balance`` is the cost of the accounted turns.
    """

    def __init__(self, log: EventLog[Any]) -> None:
        self.facts: Facts = {}
        self.balance = Balance()
        self.turn = 0
        """The last finished turn."""
        self.windows: dict[int, int] = {}
        """The counted prompt of each turn."""
        self._log = log
        self._position = 0
        self._objects: dict[str, ObjectCreated] = {}
        self._replies: dict[int, BilledReplies] = {}

    async def follow(self) -> None:
        """Read up to the end of one more turn. Raises LogUnavailable if it is not recorded."""
        before = self.turn
        await self._read_until(lambda: self.turn > before)

    async def settle(self) -> None:
        """Read until all turns are accounted. Raises LogUnavailable."""
        await self._read_until(lambda: self.balance.turns == self.turn)

    def render_facts(self) -> Mapping[str, str]:
        """The facts for people, with the counted prompts before and after the compaction and the repeated read."""
        sizes: dict[str, int] = {}
        for prefix, name in (("", "epoch_turn"), ("reread_", "reread_turn")):
            if (turn := self.facts.get(name)) is not None:
                sizes |= {f"{prefix}before": self.windows.get(turn - 1, 0), f"{prefix}after": self.windows[turn]}
        facts = {**self.facts, **sizes}
        counts = {name for name in facts if name.endswith("tokens")} | {"window", *sizes}
        return {name: count_text(value) if name in counts else str(value) for name, value in facts.items()}

    async def _read_until(self, is_there: Callable[[], bool]) -> None:
        with trio.move_on_after(WAIT_SECONDS):
            while not is_there():
                page = await self._log.tail(after=self._position, limit=PAGE)
                self._take(page)
                if not page:
                    await trio.sleep(POLL_SECONDS)
        if not is_there():
            raise LogUnavailable("A turn of the demo was not recorded. With --keep DIR, DIR/server.log says why.")

    def _take(self, page: Iterable[Recorded[Any]]) -> None:
        for recorded in page:
            self._position = recorded.position
            event = recorded.envelope.event
            if isinstance(event, ReplyEvent):
                self._replies.setdefault(event.turn, BilledReplies()).note(event)
            match event:
                case TurnFinished() as finished:
                    tokens = window_of(finished.usage)
                    self.turn, self.windows[finished.turn] = finished.turn, tokens.prompt if tokens is not None else 0
                    self.facts["window"] = self.windows[finished.turn]
                case TurnAccounted() as accounted:
                    self.balance += balance_of_turn(accounted, self._replies[accounted.turn].replies)
                case ObjectCreated() as made:
                    self._objects[made.object] = made
                    if "error" in made.tags or made.kind.value == "error_context":
                        self.facts.setdefault("printed", made.object)
                case EpochBegan() as epoch:
                    self._note_epoch(epoch)
                case ObjectDegraded() as degraded if degraded.turn == self.facts.get("epoch_turn"):
                    self._note_degraded(degraded)
                case ObjectFaulted() as fault if KINDS[fault.kind] not in self.facts:
                    kind = KINDS[fault.kind]
                    about = {kind: self._name(fault.object), f"{kind}_tokens": fault.tokens, f"{kind}_turn": fault.turn}
                    self.facts |= about

    def _note_epoch(self, epoch: EpochBegan) -> None:
        self.facts |= {"epoch_turn": epoch.turn, "reason": epoch.reason, "evicted": 0}
        self.facts |= {"break_even": epoch.turn + (epoch.payback or 0), "largest": "", "largest_tokens": 0}

    def _note_degraded(self, degraded: ObjectDegraded) -> None:
        self.facts["evicted"] += 1
        tokens = self._objects[degraded.object].tokens
        if tokens > self.facts["largest_tokens"]:
            self.facts |= {"largest": self._name(degraded.object), "largest_tokens": tokens}

    def _name(self, object_id: str) -> str:
        made = self._objects[object_id]
        return PurePath(made.source_key or made.source_tool or made.kind.value).name
