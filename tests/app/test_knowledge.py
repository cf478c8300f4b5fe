"""What is known is seen from a folder: of its project wherever that was cloned, and of the folder itself."""

from pathlib import Path

from mnemosyne.app.knowledge import open_desk
from mnemosyne.domain.knowledge.kinds import EntrySource, Scope
from tests.adapters.test_git_folder import repository
from tests.services.talking import plain


def test_two_clones_share_a_project_and_each_is_a_sandbox(tmp_path: Path) -> None:
    archive = plain()
    one, other = (
        open_desk(archive, "local", repository(tmp_path / name), EntrySource.AGENT) for name in ("one", "other")
    )
    assert one.place_of(Scope.PROJECT) == other.place_of(Scope.PROJECT)
    assert one.place_of(Scope.SANDBOX) != other.place_of(Scope.SANDBOX)
    assert one.source is EntrySource.AGENT


def test_without_a_folder_only_what_holds_everywhere_is_seen() -> None:
    assert [each.scope for each in open_desk(plain(), "local", None).places] == [Scope.USER, Scope.GLOBAL]
