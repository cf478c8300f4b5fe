"""The recorded conversations, read from the data directory as a command does."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import trio

from mnemosyne.app.storage import Storage, open_storage
from mnemosyne.config import load
from mnemosyne.domain.history.time_travel import Attempt, History, body_of, history_of, reply_of
from mnemosyne.domain.session.events import TurnFinished, TurnInterrupted
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece, Recipe

OPEN = "open"
"""The outcome of a turn of which no end is on record."""


@attrs.frozen
class Turn:
    """One request and its end, with the rebuilt bodies of both directions."""

    branch: str
    turn: int
    attempt: int
    outcome: str
    """``200 tool_use``, ``interrupted: …`` or ``open``."""
    body: bytes = attrs.field(repr=False)
    reply: Any = attrs.field(repr=False)

    @property
    def text(self) -> str:
        return "\n".join(block["text"] for block in self.reply["content"] if block["type"] == "text")


@attrs.frozen
class Conversation:
    """A session of the log. ``turns`` are in the order in which they began."""

    history: History = attrs.field(repr=False)
    turns: Sequence[Turn]

    @property
    def external_id(self) -> str:
        assert self.history.started is not None
        return self.history.started.external_id

    @property
    def client(self) -> str:
        """The client's name and version."""
        assert self.history.started is not None
        return f"{self.history.started.client} {self.history.started.client_version}"

    @property
    def branches(self) -> Mapping[str, int]:
        """The number of turns of each branch."""
        return {name: len(line.turns) for name, line in self.history.lines.items()}

    def on(self, branch: str) -> list[Turn]:
        """The turns of a branch."""
        return [turn for turn in self.turns if turn.branch == branch]


def conversations(data_dir: Path, *, since: int) -> list[Conversation]:
    """The sessions that started at ``since`` (µs of UTC) or later, oldest first. A server may be using the log."""

    async def read() -> list[Conversation]:
        found = []
        async with open_storage(load({"data_dir": str(data_dir)}, {})) as storage:
            for stream in await storage.events.streams():
                history = history_of(str(stream), await storage.events.read(stream))
                if history.first_at >= since:
                    found.append(await _conversation(storage, stream, history))
        return sorted(found, key=lambda conversation: conversation.history.first_at)

    return trio.run(read)


async def _conversation(storage: Storage, stream: UUID, history: History) -> Conversation:
    async def assembled(made: Recipe) -> bytes:
        digests = [piece.digest for piece in made.pieces if isinstance(piece, Piece)]
        return recipe.assemble(made.pieces, (await storage.contents.fetch(stream, digests)).__getitem__)

    turns = []
    for attempt in history.attempts:
        reply = reply_of(attempt)
        turns.append(
            Turn(
                attempt.began.branch,
                attempt.began.turn,
                attempt.began.attempt,
                _outcome(attempt),
                await assembled(body_of(history, attempt.body_version)),
                json.loads(await assembled(reply)) if reply is not None else None,
            )
        )
    return Conversation(history, turns)


def _outcome(attempt: Attempt) -> str:
    match attempt.ended:
        case TurnFinished(status=status, stop_reason=stop_reason, error_type=error_type):
            return f"{status} {stop_reason or error_type}"
        case TurnInterrupted(reason=reason):
            return f"interrupted: {reason}"
        case None:
            return OPEN
