"""What is known beyond sessions, put together: the log, and the project that a folder belongs to."""

from pathlib import Path

import trio

from mnemosyne.actors.knowledge_source import FindProject, KnowledgeSource
from mnemosyne.adapters.git_folder import find_project
from mnemosyne.app.process import new_id, now
from mnemosyne.config import Config
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.ports import EventLog, Journal
from mnemosyne.errors import FolderSilent
from mnemosyne.services.knowledge import KnowledgeService, Meaning


def open_knowledge(
    store: KnowledgeStore,
    tenant: str,
    folder: Path | None,
    source: EntrySource = EntrySource.USER,
    meaning: Meaning | None = None,
) -> KnowledgeService:
    """What is known as it is seen from a folder; without one, what holds everywhere."""
    if folder is None:
        return KnowledgeService(store, tenant, source=source, meaning=meaning)
    folder = folder.absolute()
    return KnowledgeService(store, tenant, find_project(folder), str(folder), source, meaning)


def open_knowledge_source(events: EventLog[object], journal: Journal, config: Config) -> KnowledgeSource:
    """What tells the sessions of a server what is known, and learns from them."""
    store = KnowledgeStore(events, journal)
    return KnowledgeSource(store, limit_folders(), now, new_id, tokens=config.memory_tokens)


FOLDER_SECONDS = 2.0
"""How long a folder may take to say which project it belongs to: it may lie on a disk that is away."""

FOLDERS_AT_ONCE = 4
"""Threads that may wait for such folders; each stays with its folder, and the next ones wait for it in vain."""


def limit_folders() -> FindProject:
    """``find_project`` in a thread, for folders that requests name. Raises FolderSilent where one takes too long."""
    limiter = trio.CapacityLimiter(FOLDERS_AT_ONCE)

    async def find(folder: str) -> str:
        with trio.move_on_after(FOLDER_SECONDS):
            return await trio.to_thread.run_sync(
                lambda: find_project(Path(folder)), abandon_on_cancel=True, limiter=limiter
            )
        raise FolderSilent(f"The folder {folder} did not say within {FOLDER_SECONDS:g} s to which project it belongs.")

    return find
