"""The log of a server from within this process: sessions recorded as by the server, without HTTP."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from benchmarks.history import History
from benchmarks.replies import reply_of
from mnemosyne.actors.loaded import Loaded
from mnemosyne.actors.messages import Identity
from mnemosyne.actors.session import SessionActor
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.app.storage import Storage, open_database, run_journal, storage_of
from mnemosyne.config import load
from mnemosyne.domain.session.directory import stream_of
from tests.services.talking import Talk, plain

TENANT = "local"


@asynccontextmanager
async def open_log(data_dir: Path) -> AsyncIterator[tuple[Database, Storage]]:
    """The log of a data directory, in which a server may be running."""
    async with (
        open_database(load({"data_dir": str(data_dir)}, {})) as database,
        run_journal(storage_of(database, TENANT)) as storage,
    ):
        yield database, storage


async def record(storage: Storage, history: History, session: str, turns: int) -> None:
    """Record the first turns of a history as a session."""
    identity = Identity(stream=stream_of(TENANT, session), tenant=TENANT, external_id=session)
    memory = Loaded(identity, storage.contents, storage.events, lambda: secrets.token_bytes(16))
    actor = SessionActor(memory, event_log=storage.events, journal=storage.journal)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        talk = Talk(plain(), identity.stream, actor)
        for turn in range(1, turns + 1):
            address = await talk.ask(history.body(turn), reply=None)
            await talk.finish_with(address, reply_of(history.reply(turn), turn))
        actor.stop()
