"""The composition of ``mnemosyne mcp``: an open database, its tools, and the protocol."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from mnemosyne import __version__
from mnemosyne.adapters.embedding.embedder import EntryMeaning
from mnemosyne.adapters.mcp_sdk import make_http_app, make_server, serve_stdio
from mnemosyne.app.agent_tools import AgentTools
from mnemosyne.app.knowledge import open_knowledge
from mnemosyne.app.object_index import model_of
from mnemosyne.app.read_models import open_read_models
from mnemosyne.app.storage import LAST_COMMIT_SECONDS
from mnemosyne.config import Config
from mnemosyne.data_dir import local_token, prepare_data_dir
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.http.serving import bind, bound_url_of, run_hypercorn

DRAIN_SECONDS = 2.0
"""How long shutdown waits for running calls."""


@asynccontextmanager
async def open_tools(config: Config, folder: Path, say: Callable[[str], None]) -> AsyncIterator[AgentTools]:
    """Open the tools; all their writes are durable when the context ends."""
    async with open_read_models(config, say) as models, trio.open_nursery() as nursery:
        journal = models.archive.journal
        await nursery.start(journal.run)
        try:
            meaning = EntryMeaning(model_of(config))
            knowledge = open_knowledge(
                KnowledgeStore(models.archive.events, journal), config.tenant, folder, EntrySource.AGENT, meaning
            )
            yield AgentTools(models, knowledge, folder)
        finally:
            with trio.CancelScope(shield=True):
                await journal.close(LAST_COMMIT_SECONDS)


async def run_stdio(config: Config, folder: Path, say: Callable[[str], None]) -> None:
    """Serve one client over stdin and stdout."""
    async with open_tools(config, folder, say) as tools:
        await serve_stdio(make_server(tools, __version__))


async def run_http(config: Config, folder: Path, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve clients with the token until SIGTERM or SIGINT."""
    prepare_data_dir(config.data_dir)
    token, listener, stopping = local_token(config.data_dir), bind(host, port), trio.Event()
    url = f"{bound_url_of(listener)}/mcp"
    async with open_tools(config, folder, say) as tools:
        served = make_http_app(make_server(tools, __version__), token)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(run_hypercorn, served, listener, stopping, DRAIN_SECONDS))
                say(f"mnemosyne mcp listening on {url}")
                await anext(aiter(signals))
                stopping.set()
