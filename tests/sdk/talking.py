"""Test kit: an agent without a proxy, and checks of its recorded session."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from mnemosyne import Session
from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.sdk import Context
from mnemosyne.services import contexts, sessions, verifying
from mnemosyne.services.verifying import Verification
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.http.raw_client import exchange

MODEL = "claude-opus-5-5"
LOOK = {"name": "Look", "description": "Looks.", "input_schema": {"type": "object"}}


@attrs.frozen
class Agent:
    """Sends a session's requests to a scripted provider that refuses invalid ones."""

    standin: Standin

    async def ask(self, session: Session, budget: int = 100_000, model: str = MODEL, **fields: Any) -> list[Context]:
        """Get one reply; return the requests it took."""
        contexts_sent = []
        context: Context | None = await session.context_for(model, budget, **fields)
        while context is not None:
            contexts_sent.append(context)
            reply = await exchange(self.standin.url, body=json.dumps(context.request).encode())
            said = json.loads(reply.body)
            if reply.status == 200:
                context = await session.assistant_says(said)
            else:
                context = await session.provider_fails(reply.status, said)
        return contexts_sent


@asynccontextmanager
async def open_agent(script: dict[str, Any]) -> AsyncIterator[Agent]:
    async with open_standin(script) as standin:
        yield Agent(standin)
        assert standin.violations == []


async def verify(dsn: str, folder: Path, name: str) -> Verification:
    """Rebuild every turn of a closed session, as `mnemosyne verify` does."""
    async with open_storage(load({"dsn": dsn, "data_dir": str(folder)}, {})) as storage:
        return await verifying.verify(storage, await sessions.find(storage, name))


async def rebuild(dsn: str, folder: Path, name: str, turn: str) -> bytes:
    """Rebuild the request of a round of a turn, as `mnemosyne context` does."""
    async with open_storage(load({"dsn": dsn, "data_dir": str(folder)}, {})) as storage:
        return (await contexts.rebuild_turn(storage, name, "main", turn)).body
