"""Small recordings, and functions to play them."""

from typing import Any
from uuid import UUID

import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode
from tests.plain.log import PlainLog
from tests.replay.playing import Played, RecordedClock, play
from tests.replay.tapes import Tape

LONG = "A long text that is a content of its own, whoever says it. " * 20


def session(name: str = "a-session", turns: int = 3, size: int = 1, **members: Any) -> dict[str, Any]:
    """A recorded session of JSON Lines: each turn calls a tool; ``size`` is the length of the results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Begin. " + LONG}]}]
    for number in range(1, turns + 1):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": f"ls {number}"}}
        thought = {"type": "thinking", "thinking": f"Thought {number}. ", "signature": "c2ln"}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"{number}: {LONG * size}"}
        messages += [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
    return {
        "name": name,
        "agent": "claude-code 2.1.22",
        "model": None,
        "system": None,
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
        "messages": messages[:-1],
        "turns": [{"msg": 2 * number + 1, "ts": None, "usage": None} for number in range(turns)],
        "resets": [],
        **members,
    }


def played(*tapes: Tape, mode: Mode = Mode.OBSERVE) -> tuple[PlainLog, list[Played]]:
    """The tapes in one log, each in a run of its own on the recorded clock."""
    log, clock = PlainLog(event_codec()), RecordedClock()

    async def run() -> list[Played]:
        return [await play(log, tape, clock, mode) for tape in tapes]

    return log, trio.run(run, clock=clock)


def read(log: PlainLog, stream: UUID) -> list[Envelope[Event]]:

    async def run() -> list[Envelope[Event]]:
        return [each.envelope for each in await log.read(stream)]

    return trio.run(run)


def streams(log: PlainLog) -> list[UUID]:

    async def run() -> list[UUID]:
        return list(await log.streams())

    return trio.run(run)
