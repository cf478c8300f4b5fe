"""The log within this process: sessions recorded as the server records them but without HTTP, and what that hashes."""

import hashlib
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import trio

from benchmarks.history import History
from benchmarks.load import CLAUDE_CODE, SESSION_HEADER
from benchmarks.replies import reply_of
from mnemosyne.actors.messages import (
    ArrivedRequest,
    Begin,
    Begun,
    Finish,
    Identity,
    Passages,
    Recognized,
    UpstreamPlan,
)
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.adapters.postgres import content_store
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.app.storage import LAST_COMMIT_SECONDS, event_codec, open_database
from mnemosyne.config import load
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.wire import normal_form, stored_reply, transcript
from mnemosyne.domain.wire.messages import MESSAGES

TURNS_IN_FLIGHT = 8
"""Turns recorded before we wait until one is durable: nobody waits for a provider here, so the queue must not grow."""


@attrs.frozen
class Log:
    """An open log, in the data directory of a server that may be running."""

    database: Database
    events: PostgresEventLog
    journal: GroupJournal
    registry: SessionRegistry
    tenant: str

    def identity(self, session: str) -> Identity:
        return Identity(stream=stream_of(self.tenant, session), tenant=self.tenant, external_id=session)


@asynccontextmanager
async def open_log(data_dir: Path) -> AsyncIterator[Log]:
    """The log of a data directory, for as long as the block runs."""
    config = load({"data_dir": str(data_dir)}, {})
    codec = event_codec()
    async with open_database(config) as database, trio.open_nursery() as storage:
        events = PostgresEventLog(database, codec)
        journal = GroupJournal(events, codec)
        await storage.start(journal.run)
        async with trio.open_nursery() as sessions:
            registry = SessionRegistry(
                sessions,
                event_log=events,
                contents=PostgresContentStore(database),
                journal=journal,
                new_salt=lambda: secrets.token_bytes(16),
            )
            yield Log(database, events, journal, registry, config.tenant)
            sessions.cancel_scope.cancel()
        await journal.close(LAST_COMMIT_SECONDS)


async def record(log: Log, history: History, session: str, first: int, last: int) -> None:
    """Record turns of a history as those of a session. Raises ValueError if one is not put where it belongs."""
    identity = log.identity(session)
    headers = ((SESSION_HEADER, session), ("User-Agent", CLAUDE_CODE))
    tickets: list[Ticket] = []
    for turn in range(first, last + 1):
        name = f"{session}-{turn}"
        raw = history.body(turn)
        request = ArrivedRequest(at=_now(), headers=headers, raw=raw, correlation_id=name, dialect=MESSAGES)
        _, asked = log.registry.ask(identity, Begin(request=request))
        begun = await asked.wait()
        if not isinstance(begun, Begun) or begun.address != Address("main", turn, 1):
            raise ValueError(f"turn {turn} was recorded as {begun}")
        reply = reply_of(history.reply(turn), turn)
        finish = Finish(at=_now(), address=begun.address, status=200, reply=reply, correlation_id=name)
        _, asked = log.registry.ask(identity, finish)
        ended = await asked.wait()
        assert not isinstance(ended, Begun | UpstreamPlan | Recognized | Passages | None)
        tickets.append(ended)
        if len(tickets) >= TURNS_IN_FLIGHT:
            await tickets[-TURNS_IN_FLIGHT].durable()
    if tickets:
        await tickets[-1].durable()


def _now() -> int:
    return time.time_ns() // 1000


@attrs.define
class Hashes:
    """How often SHA-256 was begun, over how many bytes, and over how many different ones, by the function that did."""

    calls: Counter[str] = attrs.field(factory=Counter)
    size: Counter[str] = attrs.field(factory=Counter)
    seen: dict[str, set[bytes]] = attrs.field(factory=dict)

    def sha256(self, data: bytes = b"") -> Any:
        # A comprehension may be a function of its own, within the one that counts.
        caller = sys._getframe(1).f_code.co_qualname.partition(".<locals>")[0].rpartition(".")[2]
        self.calls[caller] += 1
        self.size[caller] += len(data)
        state = hashlib.sha256(data)
        if not data:
            return _Counted(self, caller, state)
        self.seen.setdefault(caller, set()).add(state.digest())
        return state

    def different(self, *callers: str) -> int:
        """Over how many different contents these functions hashed, together."""
        return len(set[bytes]().union(*(self.seen.get(caller, ()) for caller in callers)))

    def begun(self, *callers: str) -> int:
        return sum(self.calls[caller] for caller in callers)


class _Counted:
    """A SHA-256 that goes on: what it is fed counts for whoever began it."""

    def __init__(self, hashes: Hashes, caller: str, state: Any) -> None:
        self._hashes, self._caller, self._state = hashes, caller, state

    def update(self, data: bytes | memoryview) -> None:
        self._hashes.size[self._caller] += len(data)
        self._state.update(data)

    def copy(self) -> "_Counted":
        return _Counted(self._hashes, self._caller, self._state.copy())

    def digest(self) -> bytes:
        return bytes(self._state.digest())


@contextmanager
def counted_hashes() -> Iterator[Hashes]:
    """Within, what the modules on a turn's way hash is counted, by putting a counter in ``sha256``'s place."""
    hashes = Hashes()
    replaced: list[tuple[Any, str, object]] = [
        (transcript, "sha256", hashes.sha256),
        (normal_form, "sha256", hashes.sha256),
        (stored_reply, "sha256", hashes.sha256),
        (content_store, "hashlib", SimpleNamespace(sha256=hashes.sha256)),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    try:
        for module, name, counter in replaced:
            setattr(module, name, counter)
        yield hashes
    finally:
        for module, name, value in before:
            setattr(module, name, value)


async def recorded_turns(log: Log, session: str) -> int:
    """How many turns of a session are in the log."""
    events = await log.events.read(log.identity(session).stream)
    return sum(isinstance(recorded.envelope.event, TurnBegan) for recorded in events)
