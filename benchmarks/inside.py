"""The log within this process: sessions recorded as by the server, without HTTP."""

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

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
from mnemosyne.domain.wire.messages import MESSAGES

TURNS_IN_FLIGHT = 8
"""Turns recorded before waiting for durability, so that the queue does not grow."""


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
    """Record turns of a history as a session. Raises ValueError if one is recorded at the wrong place."""
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


async def recorded_turns(log: Log, session: str) -> int:
    """How many turns of a session are in the log."""
    events = await log.events.read(log.identity(session).stream)
    return sum(isinstance(recorded.envelope.event, TurnBegan) for recorded in events)
