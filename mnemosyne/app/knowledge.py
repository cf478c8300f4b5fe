"""The composition of memory across sessions: the log, and the project of a folder."""

import os
from pathlib import Path

import trio

from mnemosyne.actors.knowledge_source import FindProject, KnowledgeSource
from mnemosyne.adapters.claude_transcripts import list_folders, was_typed
from mnemosyne.adapters.embedding.embedder import EntryMeaning, LocalModel
from mnemosyne.adapters.git_folder import find_project
from mnemosyne.app.process import new_id, now
from mnemosyne.config import Config
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.knowledge.recalling import Meaning
from mnemosyne.domain.ports import EventLog, Journal
from mnemosyne.errors import FolderSilent
from mnemosyne.services.knowledge import FindFacts, KnowledgeService


def open_knowledge(
    store: KnowledgeStore,
    tenant: str,
    folder: Path | None,
    source: EntrySource = EntrySource.USER,
    meaning: Meaning | None = None,
    find_facts: FindFacts | None = None,
) -> KnowledgeService:
    """Return the memory visible from a folder; without a folder, only global entries."""
    if folder is None:
        return KnowledgeService(store, tenant, source=source, meaning=meaning)
    folder = folder.absolute()
    return KnowledgeService(store, tenant, find_project(folder), str(folder), source, meaning, find_facts)


def open_knowledge_source(
    events: EventLog[object], journal: Journal, config: Config, model: LocalModel
) -> KnowledgeSource:
    """Return the source that adds memory to a server's sessions and learns from them."""
    return KnowledgeSource(
        KnowledgeStore(events, journal),
        limit_folders(),
        now,
        new_id,
        tokens=config.memory_tokens,
        words=config.remember_words,
        meaning=EntryMeaning(model),
        was_typed=_was_typed,
    )


async def _was_typed(session: str, text: str) -> bool:
    """Whether Claude Code's transcript of a session says that a person typed a prompt."""
    return await trio.to_thread.run_sync(was_typed, list_folders(os.environ), session, text, abandon_on_cancel=True)


FOLDER_SECONDS = 2.0
"""Time limit for finding a folder's project: its disk may be unavailable."""

FOLDERS_AT_ONCE = 4
"""Number of threads that may wait for folders; a thread stays blocked by an unresponsive folder."""


def limit_folders() -> FindProject:
    """Return ``find_project`` as an async function with a time limit, for folders named by requests. It raises
    FolderSilent.
    """
    limiter = trio.CapacityLimiter(FOLDERS_AT_ONCE)

    async def find(folder: str) -> str:
        with trio.move_on_after(FOLDER_SECONDS):
            return await trio.to_thread.run_sync(
                lambda: find_project(Path(folder)), abandon_on_cancel=True, limiter=limiter
            )
        raise FolderSilent(f"The project of folder {folder} could not be found within {FOLDER_SECONDS:g} s.")

    return find
