"""Reads the event log while it grows, and puts each event into a line or two."""

from collections.abc import Mapping
from typing import Any

import trio
from rich.text import Text

from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.objects.events import ObjectCreated, ObjectSuperseded, TurnAssessed
from mnemosyne.domain.ports import EventLog, Recorded, UnreadableEvent
from mnemosyne.domain.session.events import BranchOpened, Event, SessionStarted, TurnBegan, TurnFinished
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.errors import LogUnavailable

PAGE = 100
WAIT_SECONDS = 10.0
POLL_SECONDS = 0.02

CELL = 200
"""Tokens for one cell of the bar of a window."""

READ, NEW = "█", "░"


class Witness:
    """Follows the log from its beginning."""

    def __init__(self, log: EventLog[Event]) -> None:
        self._log = log
        self._position = 0
        self._expected = 0
        self.events = 0
        self.branches: list[str] = []
        self.turns = 0
        """How many have finished."""

    async def news(self) -> list[Text]:
        """Lines for the events since the last call."""
        lines: list[Text] = []
        while page := await self._log.tail(after=self._position, limit=PAGE):
            for recorded in page:
                self._count(recorded)
                lines += lines_for(recorded)
        return lines

    async def news_of_the_end(self) -> list[Text]:
        """The same, once one more turn has ended than at the last call. Raises LogUnavailable if it never does."""
        lines = await self.news()
        self._expected += 1
        with trio.move_on_after(WAIT_SECONDS):
            while self.turns < self._expected:
                await trio.sleep(POLL_SECONDS)
                lines += await self.news()
        if self.turns < self._expected:
            raise LogUnavailable("A turn of the demo was not recorded. With --keep DIR, DIR/server.log says why.")
        return lines

    def _count(self, recorded: Recorded[Event | UnreadableEvent]) -> None:
        self._position = recorded.position
        self.events += 1
        match recorded.envelope.event:
            case BranchOpened() as opened:
                self.branches.append(opened.branch)
            case TurnFinished():
                self.turns += 1


def lines_for(recorded: Recorded[Event | UnreadableEvent]) -> list[Text]:
    """An event for people."""
    number = Text.assemble((f"{recorded.version:>3} ", "dim"))
    match recorded.envelope.event:
        case SessionStarted() as started:
            return [number + Text(f"session {started.external_id}", "bold")]
        case BranchOpened() as opened:
            left = f" leaves {opened.parent} at {opened.forked_at}" if opened.inherits else " opens"
            return [number + Text.assemble((opened.branch, "bold magenta"), left)]
        case TurnBegan() as began:
            return [number + _turn(began) + Text(f" → {began.size / 1000:.1f} KB {began.sha256.hex()[:6]}")]
        case TurnFinished() as finished:
            return [number + _turn(finished) + Text(f" ← {finished.stop_reason}"), *_window(finished.usage)]
        case ObjectCreated() as made:
            return [number + Text(f"+ {made.kind.value}")]
        case ObjectSuperseded() as superseded:
            return [number + Text(f"~ {superseded.object} is {superseded.how.value}")]
        case TurnAssessed() | TurnAccounted():
            return []
    return [number + Text(type(recorded.envelope.event).__name__)]


def _turn(event: TurnBegan | TurnFinished) -> Text:
    return Text.assemble((f"{event.branch} {event.turn}", "magenta"))


def _window(usage: Mapping[str, Any]) -> list[Text]:
    """The prompt as a bar: cached and new tokens."""
    tokens = window_of(usage)
    if tokens is None:
        return []
    total = tokens.input + tokens.read + tokens.write_5m + tokens.write_1h
    cells = max(1, round(total / CELL))
    read = min(cells, round(tokens.read / CELL))
    bar = Text(" " * 4).append(READ * read, "green").append(NEW * (cells - read), "yellow")
    return [bar.append(f" {total} tokens", "dim")]
