"""What is known beyond sessions, put together: the log, and the project that a folder belongs to."""

from pathlib import Path

from mnemosyne.adapters.git_folder import find_project
from mnemosyne.domain.knowledge.book import KnowledgeBook
from mnemosyne.domain.knowledge.kinds import EntrySource
from mnemosyne.services.knowledge import KnowledgeDesk
from mnemosyne.services.sessions import Archive


def open_desk(
    archive: Archive, tenant: str, folder: Path | None, source: EntrySource = EntrySource.USER
) -> KnowledgeDesk:
    """What is known as it is seen from a folder; without one, what holds everywhere."""
    book = KnowledgeBook(archive.events, archive.journal)
    if folder is None:
        return KnowledgeDesk(book, tenant, source=source)
    folder = folder.absolute()
    return KnowledgeDesk(book, tenant, find_project(folder), str(folder), source)
