"""Test kit: an agent without a proxy, on the vendor's library, and checks of its recorded session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from mnemosyne import Session
from mnemosyne.app.storage import open_storage
from mnemosyne.config import load
from mnemosyne.sdk import Context
from mnemosyne.services import contexts, sessions, verifying
from mnemosyne.services.verifying import Verification
from mnemosyne_lab.provider.server import Standin, open_standin

if TYPE_CHECKING:
    import anthropic

MODEL = "claude-opus-5-5"
LOOK = {"name": "Look", "description": "Looks.", "input_schema": {"type": "object"}}


@attrs.frozen
class Agent:
    """Sends a session's requests to a scripted provider that refuses invalid ones."""

    standin: Standin
    client: "anthropic.AsyncAnthropic"

    async def ask(self, session: Session, budget: int = 100_000, **fields: Any) -> list[Context]:
        """Get one reply; return the requests it took."""
        import anthropic  # slow

        contexts_sent = []
        context: Context | None = await session.context_for(MODEL, budget, **fields)
        while context is not None:
            contexts_sent.append(context)
            try:
                reply = await self.client.messages.create(**context.request)
            except anthropic.APIStatusError as error:
                context = await session.provider_fails(error.status_code, error.body)
            else:
                context = await session.assistant_says(reply)
        return contexts_sent


@asynccontextmanager
async def open_agent(script: dict[str, Any]) -> AsyncIterator[Agent]:
    import anthropic  # slow

    async with open_standin(script) as standin:
        async with anthropic.AsyncAnthropic(base_url=standin.url, api_key="k", max_retries=0) as client:
            yield Agent(standin, client)
        assert standin.violations == []


async def verify(dsn: str, folder: Path, name: str) -> Verification:
    """Rebuild every turn of a closed session, as `mnemosyne verify` does."""
    async with open_storage(load({"dsn": dsn, "data_dir": str(folder)}, {})) as storage:
        return await verifying.verify(storage, await sessions.find(storage, name))


async def rebuild(dsn: str, folder: Path, name: str, turn: str) -> bytes:
    """Rebuild the request of a round of a turn, as `mnemosyne context` does."""
    async with open_storage(load({"dsn": dsn, "data_dir": str(folder)}, {})) as storage:
        return (await contexts.rebuild_turn(storage, name, "main", turn)).body
