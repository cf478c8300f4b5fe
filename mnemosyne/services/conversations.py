"""An exported session as conversations, in the form in which `mnemosyne evaluate` reads recorded ones."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemosyne.domain.cost.prices import window_of
from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import Attempt, BranchTurns, History, history_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.wire import recipe
from mnemosyne.services.export_format import ExportCodec, Reader
from mnemosyne.times import utc

_CONVERSATIONS = frozenset({BranchKind.MAIN, BranchKind.FORK, BranchKind.AGENT, BranchKind.SUCCESSOR})


def conversations(path: Path, codec: ExportCodec) -> Iterator[dict[str, Any]]:
    """Each branch of an export that is an agent's conversation: its name, model, system prompt, tools and messages as
    the client sent them last, and turns. A fork begins with the turns of its parent. Raises DamagedFile.
    """
    reader = Reader(path, codec)
    stream = reader.header.session
    events = [Recorded(stream, part.version, part.version, part.envelope) for part in reader.parts()]
    history = history_of(str(stream), events)
    name = history.started.external_id if history.started is not None else str(stream)
    for line in history.lines.values():
        if line.opened.kind in _CONVERSATIONS and line.turns:
            yield {"name": f"{name} {line.name}", **_conversation(reader, history, line)}


def _conversation(reader: Reader, history: History, line: BranchTurns) -> dict[str, Any]:
    attempts = [history.turn(line.name, turn)[-1] for turn in range(1, line.last + 1)]
    last = attempts[-1]
    made_of = time_travel.body_at(history, last)
    contents = reader.fetch(list(time_travel.digests_in(made_of.pieces)))
    body = json.loads(recipe.assemble(made_of.pieces, contents.__getitem__))
    return {
        "model": last.began.model,
        "head": {name: body.get(name) for name in ("system", "tools")},
        "messages": body.get("messages"),
        "turns": [_turn(each) for each in attempts],
    }


def _turn(attempt: Attempt) -> dict[str, Any]:
    at = utc(attempt.began.at)
    used = window_of(attempt.ended.usage) if attempt.ended is not None else None
    if used is None or attempt.rounds:  # of a managed turn it tells the size of what we sent, not of these messages
        return {"msg": attempt.messages, "ts": at.isoformat(), "usage": None, "output": used and used.output}
    usage = {"input": used.input, "cache_write": used.write_5m + used.write_1h, "cache_read": used.read}
    return {"msg": attempt.messages, "ts": at.isoformat(), "usage": usage, "output": used.output}
