"""The files of a folder under git, kept as commits that no branch of the user's names, and brought back from one.

An index of our own stands beside the user's, so `git status`, the index and the branches stay as they are. What
`.gitignore` leaves out is not kept, and not touched. Hooks and the file system monitor of the repository do not run.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from mnemosyne.errors import NotFound, WorktreeFailed

REFS = "refs/mnemosyne"
"""Below it are all commits of ours."""

IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "mnemosyne"), ("EMAIL", "mnemosyne@localhost"))
}
QUIET = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "advice.addEmbeddedRepo=false")
"""Settings under which git runs no program that the repository names, but for its filters."""

ELSEWHERE = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"})
"""Variables that would lead git to another repository than the folder's."""


@attrs.frozen
class RestoredFiles:
    """How many files were written and removed, and the ``ref`` that has all of them as they were before."""

    written: int
    removed: int
    ref: str


@attrs.frozen
class GitWorktree:
    """A working tree: its ``top`` folder, and a folder of ``ours`` within its repository."""

    top: Path
    ours: Path

    @classmethod
    def around(cls, folder: Path) -> "GitWorktree":
        """The working tree that a folder is in. Raises NotFound where it is in none."""
        try:
            top, own = _run(folder, {}, "rev-parse", "--show-toplevel", "--absolute-git-dir").splitlines()
        except (WorktreeFailed, ValueError):
            raise NotFound(f"{folder} is in no working tree of git, so its files are not kept.") from None
        return cls(Path(top), Path(own) / "mnemosyne")

    def keep(self, name: str, why: str) -> str:
        """Keep all files under a ``name``; its ref. Raises WorktreeFailed."""
        with self._alone():
            self._add_all()
            return self._commit(name, why)

    def list_kept(self, group: str) -> dict[str, str]:
        """The refs under which files are kept, by what their names have behind ``group/``."""
        below = f"{REFS}/{group}/"
        return {ref.removeprefix(below): ref for ref in self._git("for-each-ref", "--format=%(refname)", below).split()}

    def restore_files(self, ref: str, before: str) -> RestoredFiles:
        """Make all files what they are in a ref, and remove those that it has not, but for those that were left out
        then. How they were is kept first, under the name ``before``. Raises WorktreeFailed.
        """
        with self._alone():
            self._add_all()
            self._add_hidden(ref)
            kept = self._commit(before, f"Before {ref} was brought back")
            gone = self._list_changed("D", kept, ref)
            written = self._list_changed("d", kept, ref)
            self._git("read-tree", "--reset", "-u", ref)
            left_out = self._put_back(gone, kept)
        return RestoredFiles(len(written), len(gone) - left_out, kept)

    def _add_all(self) -> None:
        try:
            self._git("add", "--all", "--ignore-errors", "--", ":/")
        except WorktreeFailed:
            self._git("ls-files", "--error-unmatch", ":/")  # what could be read is there, or nothing is

    def _add_hidden(self, ref: str) -> None:
        """Files that are left out today, and that a ref would write over."""
        hidden = [path for path in self._list_changed("D", "--cached", ref) if os.path.lexists(self.top / path)]
        if hidden:
            self._git("add", "--force", "--", *map(_literal, hidden))

    def _put_back(self, gone: Sequence[str], kept: str) -> int:
        """Put back what was removed and is left out by the rules that came with the other files; how many that are."""
        found = self._git("check-ignore", "--no-index", "-z", "--stdin", given="\0".join(gone), well=(0, 1))
        left_out = [path for path in _split(found) if not any(map(os.path.isfile, _parents(self.top / path)))]
        if left_out:
            self._git("restore", "--worktree", f"--source={kept}", "--", *map(_literal, left_out))
        return len(left_out)

    def _list_changed(self, how: str, *between: str) -> list[str]:
        """The paths that git's filter ``how`` names, of what changes from one tree to another."""
        return _split(self._git("diff", "--no-renames", f"--diff-filter={how}", "--name-only", "-z", *between))

    def _commit(self, name: str, why: str) -> str:
        tree = self._git("write-tree").strip()
        commit = self._git("commit-tree", tree, "-m", why).strip()
        self._git("update-ref", f"{REFS}/{name}", commit)
        return f"{REFS}/{name}"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else has our index meanwhile: a client's calls may run side by side."""
        self.ours.mkdir(exist_ok=True)
        with (self.ours / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (self.ours / "index.lock").unlink(missing_ok=True)  # left by one that was killed: no other is alive
            theirs = self.ours.parent / "index"
            if not self._index.exists() and theirs.exists():
                shutil.copy2(theirs, self._index)  # so that git need not read again what it knows
            yield

    @property
    def _index(self) -> Path:
        return self.ours / "index"

    def _git(self, *arguments: str, given: str = "", well: Collection[int] = (0,)) -> str:
        return _run(self.top, {"GIT_INDEX_FILE": str(self._index)}, *arguments, given=given, well=well)


def _split(paths: str) -> list[str]:
    return paths.split("\0")[:-1]


def _literal(path: str) -> str:
    return f":(top,literal){path}"


def _parents(path: Path) -> list[str]:
    return [str(each) for each in path.parents]


def _run(
    folder: Path, variables: dict[str, str], *arguments: str, given: str = "", well: Collection[int] = (0,)
) -> str:
    """What git prints, ``given`` its stdin. Raises WorktreeFailed unless it ends ``well``."""
    environ = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    settings = [word for setting in QUIET for word in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=folder,
            env=environ | IDENTITY | {"LC_ALL": "C"} | variables,
            input=given,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
    except OSError as error:
        raise WorktreeFailed(f"git cannot be run in {folder}: {error.strerror}.") from None
    if done.returncode not in well:
        said = (done.stderr.strip().splitlines() or ["it does not say why"])[-1]
        raise WorktreeFailed(f"git {arguments[0]} failed in {folder}: {said}")
    return done.stdout
