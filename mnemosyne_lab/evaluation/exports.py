"""An exported session as conversations, in the format that `mnemosyne evaluate` reads."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import Attempt, BranchTurns, History, history_of
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.wire import json_values, recipe
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.services.billed_replies import BilledReplies, ReplyEvent
from mnemosyne.services.export_format import ExportCodec, Reader
from mnemosyne.services.savings import Balance, balance_of_replies, balance_of_turn
from mnemosyne.times import utc

_CONVERSATIONS = frozenset({BranchKind.MAIN, BranchKind.FORK, BranchKind.AGENT, BranchKind.SUCCESSOR})


def conversations(path: Path, codec: ExportCodec) -> Iterator[dict[str, Any]]:
    """Each branch of an export that is an agent's conversation: its name, the cost of its own turns without Mnemosyne,
    model, system prompt, tools and messages of the client's last request, in the Messages API's format, and its turns.
    A fork begins with its parent's turns. Raises DamagedFile.
    """
    reader = Reader(path, codec)
    stream = reader.header.session
    events = [Recorded(stream, part.version, part.version, part.envelope) for part in reader.parts()]
    history = history_of(str(stream), events)
    name = history.started.external_id if history.started is not None else str(stream)
    balances = _balances(events)
    for line in history.lines.values():
        if line.opened.kind in _CONVERSATIONS and line.turns:
            balance = balances.get(line.name, Balance())
            cost = balance.nanodollars_unmanaged if balance.is_priced else None
            yield {"name": f"{name} {line.name}", "nanodollars": cost, **_conversation(reader, history, line)}


def _balances(events: Iterable[Recorded[Any]]) -> Mapping[str, Balance]:
    """The balance of each branch's own turns, as `mnemosyne savings` adds it up."""
    known: dict[Address, BilledReplies] = {}
    balances: defaultdict[str, Balance] = defaultdict(Balance)
    for recorded in events:
        event = recorded.envelope.event
        if isinstance(event, ReplyEvent):
            known.setdefault(event.address, BilledReplies()).note(event)
        elif isinstance(event, TurnAccounted):
            balances[event.branch] += balance_of_turn(event, known.pop(event.address, BilledReplies()).replies)
    for address, attempt in known.items():  # unaccounted ones
        balances[address.branch] += balance_of_replies(attempt)
    return balances


def _conversation(reader: Reader, history: History, line: BranchTurns) -> dict[str, Any]:
    attempts = [history.turn(line.name, turn)[-1] for turn in range(1, line.last + 1)]
    last = attempts[-1]
    made_of = time_travel.body_of(history, last.body_version)
    contents = reader.fetch(list(time_travel.digests_in(made_of.pieces)))
    body = json_values.read(recipe.assemble(made_of.pieces, contents.__getitem__))
    dialect = history.dialect_of(line.name)
    converted = _Converted(dialect, {each.messages for each in attempts})
    elements = body.get(dialect.array)
    for element in elements if isinstance(elements, list) else ():
        converted.add(element)
    system = body.get(dialect.system) if dialect.system is not None else None
    return {
        "model": last.began.model,
        "head": {"system": [*content_blocks(system), *converted.system] or None, "tools": body.get("tools")},
        "messages": converted.messages,
        "turns": [_turn(each, converted.count(each.messages)) for each in attempts],
    }


@attrs.define
class _Converted:
    """Converts a conversation in a ``dialect`` to the Messages API: the operator's first message becomes the system
    prompt, and adjacent messages of one role are merged unless a request ``ends`` between them.
    """

    dialect: Dialect
    ends: Collection[int]
    system: list[Any] = attrs.field(factory=list)
    messages: list[dict[str, Any]] = attrs.field(factory=list)
    _counts: list[int] = attrs.field(factory=lambda: [0])

    def add(self, element: Any) -> None:
        message = self.dialect.read_message(element) if isinstance(element, dict) else {}
        before = self.messages[-1] if self.messages else None
        if before is None and message.get("role") == "system":
            self.system += content_blocks(message.get("content"))
        elif before and before.get("role") == message.get("role") and len(self._counts) - 1 not in self.ends:
            content = [*content_blocks(before.get("content")), *content_blocks(message.get("content"))]
            self.messages[-1] = {**before, "content": content}
        else:
            self.messages.append(message)
        self._counts.append(len(self.messages))

    def count(self, elements: int) -> int:
        """The number of messages made of the first ``elements`` elements."""
        return self._counts[min(elements, len(self._counts) - 1)]


def _turn(attempt: Attempt, messages: int) -> dict[str, Any]:
    at = utc(attempt.began.at)
    used = attempt.used
    if used is None or attempt.rounds:  # a managed turn's usage counts the upstream request, not these messages
        return {"msg": messages, "ts": at.isoformat(), "usage": None, "output": used and used.output}
    usage = {"input": used.input, "cache_write": used.write_5m + used.write_1h, "cache_read": used.read}
    return {"msg": messages, "ts": at.isoformat(), "usage": usage, "output": used.output}
