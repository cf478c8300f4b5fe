"""The project of a folder is the same for all its clones and worktrees."""

import os
import subprocess
from pathlib import Path

import pytest

from mnemosyne.adapters.git_folder import find_project, name_remote

URL = "git@github.com:ada/app.git"


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


def repository(folder: Path, remote: str | None = URL) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "commit", "--allow-empty", "--quiet", "-m", "first")
    if remote is not None:
        git(folder, "remote", "add", "origin", remote)
    return folder


def test_clones_and_subfolders_are_one_project(tmp_path: Path) -> None:
    one, other = repository(tmp_path / "one"), repository(tmp_path / "other", "https://github.com/ada/app")
    (one / "src").mkdir()
    assert find_project(one) == find_project(one / "src") == find_project(other) == "github.com/ada/app"


@pytest.mark.parametrize("remote", [URL, None])
def test_a_worktree_belongs_to_the_project_of_its_repository(tmp_path: Path, remote: str | None) -> None:
    main = repository(tmp_path / "main", remote)
    git(main, "worktree", "add", "--quiet", str(tmp_path / "beside"))
    assert find_project(tmp_path / "beside") == find_project(main) == ("github.com/ada/app" if remote else str(main))


@pytest.mark.parametrize("name", ["team/app", "two words; and #more"])
def test_configured_project_name_takes_precedence_over_the_remote_in_each_worktree(tmp_path: Path, name: str) -> None:
    main = repository(tmp_path / "main")
    git(main, "config", "mnemosyne.project", name)
    git(main, "worktree", "add", "--quiet", str(tmp_path / "beside"))
    assert find_project(tmp_path / "beside") == find_project(main) == name
    git(main, "config", "mnemosyne.project", "")
    assert find_project(main) == "github.com/ada/app"


def test_a_folder_without_git_is_its_own_project(tmp_path: Path) -> None:
    assert find_project(tmp_path) == str(tmp_path)
    assert find_project(tmp_path / "gone" / "away") == str(tmp_path / "gone" / "away")


@pytest.mark.parametrize("damage", ["[remote", "\xff\xfe", '[remote "origin"]\nurl\n', ""])
def test_a_damaged_configuration_names_the_project_by_its_folder(tmp_path: Path, damage: str) -> None:
    folder = repository(tmp_path / "app")
    (folder / ".git" / "config").write_text(damage, encoding="latin-1")
    assert find_project(folder) == str(folder)


@pytest.mark.parametrize("pointer", ["", "gitdir: /nowhere/at/all", "nonsense"])
def test_an_invalid_pointer_is_ignored(tmp_path: Path, pointer: str) -> None:
    (tmp_path / ".git").write_text(pointer)
    assert isinstance(find_project(tmp_path), str)


@pytest.mark.parametrize("name", [".git", ".git/config", ".git/commondir"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_read(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    assert find_project(tmp_path) == str(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_worktree_with_special_files_does_not_block(tmp_path: Path, kind: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / ".git").write_text(f"gitdir: {own}")
    if kind == "pipe":
        os.mkfifo(own / "commondir")
    else:
        (own / "config").symlink_to("/dev/zero")
    assert isinstance(find_project(tmp_path), str)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/ada/app.git",
        "https://github.com/ada/app",
        "https://ada:token@GitHub.com/ada/app.git/",
        "ssh://git@github.com:22/ada/app.git",
        "git@github.com:ada/app.git",
        "github.com:ada/app",
    ],
)
def test_all_urls_of_a_repository_give_the_same_name(url: str) -> None:
    assert name_remote(url) == "github.com/ada/app"


@pytest.mark.parametrize("url", ["", "/srv/git/app.git", "../app", "file:///srv/app", "nothing"])
def test_a_local_folder_gives_no_name(url: str) -> None:
    assert name_remote(url) is None
