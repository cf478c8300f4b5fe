"""Entries are visible by the project and the folder of a session."""

import threading
from pathlib import Path

import pytest

from mnemosyne.app import knowledge
from mnemosyne.app.knowledge import limit_folders, open_knowledge
from mnemosyne.domain.knowledge.kinds import EntrySource, Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.errors import FolderSilent
from tests.adapters.test_git_folder import repository
from tests.services.talking import plain
from tests.waiting import DEADLINE


def open_store() -> KnowledgeStore:
    archive = plain()
    return KnowledgeStore(archive.events, archive.journal)


def test_two_clones_share_a_project_and_each_is_a_sandbox(tmp_path: Path) -> None:
    store = open_store()
    one, other = (
        open_knowledge(store, "local", repository(tmp_path / name), EntrySource.AGENT) for name in ("one", "other")
    )
    assert one.place_of(Scope.PROJECT) == other.place_of(Scope.PROJECT)
    assert one.place_of(Scope.SANDBOX) != other.place_of(Scope.SANDBOX)
    assert one.source is EntrySource.AGENT


def test_without_a_folder_only_global_entries_are_visible() -> None:
    assert [each.scope for each in open_knowledge(open_store(), "local", None).places] == [Scope.USER, Scope.GLOBAL]


async def test_an_unresponsive_folder_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    away = threading.Event()

    def find(folder: Path) -> str:
        if folder.name == "away":
            away.wait()
        return folder.name

    monkeypatch.setattr(knowledge, "find_project", find)
    monkeypatch.setattr(knowledge, "FOLDER_SECONDS", 0.01)
    find_project = limit_folders()
    try:
        for _ in range(2):
            with pytest.raises(FolderSilent):
                await find_project("/mnt/away")
        monkeypatch.setattr(knowledge, "FOLDER_SECONDS", DEADLINE)  # on a busy machine a thread starts late
        assert await find_project("/home/ada/app") == "app"
    finally:
        away.set()
