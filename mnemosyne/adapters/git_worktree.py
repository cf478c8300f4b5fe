"""Saves the files of a git worktree as commits outside the user's branches, and restores them.

It uses its own index, so `git status`, the index and the branches do not change. Ignored files are not saved or
changed. Hooks and the file system monitor of the repository do not run.
"""

import fcntl
import math
import os
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from mnemosyne.errors import NotFound, WorktreeFailed

REFS = "refs/mnemosyne"
"""The prefix of our refs."""

IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "mnemosyne"), ("EMAIL", "mnemosyne@localhost"))
}
QUIET = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "advice.addEmbeddedRepo=false"),
    "core.safecrlf=false",
)
"""Settings with which git runs no programs of the repository except filters, and saves files with any line ends."""

LONGEST_SECONDS = 600.0
"""The time limit of a git command. The first one in a large folder reads all files."""

ELSEWHERE = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"})
"""Variables that select another repository."""


@attrs.frozen
class RestoredFiles:
    """The number of written and removed files, and the ``ref`` of their state before."""

    written: int
    removed: int
    ref: str


@attrs.frozen
class GitWorktree:
    """A working tree: its ``top`` folder, and our own folder within its repository."""

    top: Path
    ours: Path

    @classmethod
    def around(cls, folder: Path) -> "GitWorktree":
        """The working tree of a folder. Raises NotFound."""
        try:
            top, own = _run(folder, {}, "rev-parse", "--show-toplevel", "--absolute-git-dir").splitlines()
        except (WorktreeFailed, ValueError):
            raise NotFound(f"{folder} is not in a git working tree, so its files are not saved.") from None
        return cls(Path(top), Path(own) / "mnemosyne")

    def keep(self, name: str, why: str, until: float = math.inf) -> str:
        """Save all files under a ``name``; return the ref. Raises WorktreeFailed, also if that takes longer than
        ``until``, a time of ``time.monotonic``; what git has read by then, it need not read again.
        """
        with self._alone():
            self._add_all(until)
            if time.monotonic() > until:
                raise WorktreeFailed(f"git needed too long to read the files of {self.top}.")
            return self._commit(name, why)

    def list_kept(self, group: str) -> dict[str, str]:
        """The refs of saved files, by their names below ``group/``."""
        below = f"{REFS}/{group}/"
        return {ref.removeprefix(below): ref for ref in self._git("for-each-ref", "--format=%(refname)", below).split()}

    def restore_files(self, ref: str, before: str) -> RestoredFiles:
        """Restore all files from a ref and remove others, except files that were ignored then. First save the current
        state under the name ``before``. Raises WorktreeFailed.
        """
        with self._alone():
            self._add_all()
            self._add_hidden(ref)
            kept = self._commit(before, f"Before {ref} was restored")
            gone = self._list_changed("D", kept, ref)
            written = self._list_changed("d", kept, ref)
            self._git("read-tree", "--reset", "-u", ref)
            ignored = self._put_back(gone, kept)
        return RestoredFiles(len(written), len(gone) - ignored, kept)

    def _add_all(self, until: float = math.inf) -> None:
        add = ("add", "--all", "--ignore-errors", "--", ":/")
        try:
            self._git(*add, well=(0, 1))  # 1: some files cannot be read
        except WorktreeFailed:  # a file was removed meanwhile, or our index is damaged
            if time.monotonic() > until:
                raise
            self._copy_index()
            self._git(*add, well=(0, 1))

    def _add_hidden(self, ref: str) -> None:
        """Add ignored files that a ref would overwrite."""
        hidden = [path for path in self._list_changed("D", "--cached", ref) if os.path.lexists(self.top / path)]
        if hidden:
            self._git("add", "--force", "--", *map(_literal, hidden))

    def _put_back(self, gone: Sequence[str], kept: str) -> int:
        """Put back removed files that the restored rules ignore; return their number."""
        found = self._git("check-ignore", "--no-index", "-z", "--stdin", given="\0".join(gone), well=(0, 1))
        ignored = [path for path in _split(found) if not any(map(os.path.isfile, (self.top / path).parents))]
        if ignored:
            self._git("restore", "--worktree", f"--source={kept}", "--", *map(_literal, ignored))
        return len(ignored)

    def _list_changed(self, how: str, *between: str) -> list[str]:
        """The paths of changes between trees that pass git's filter ``how``."""
        return _split(self._git("diff", "--no-renames", f"--diff-filter={how}", "--name-only", "-z", *between))

    def _commit(self, name: str, why: str) -> str:
        tree = self._git("write-tree").strip()
        commit = self._git("commit-tree", tree, "-m", why).strip()
        self._git("update-ref", f"{REFS}/{name}", commit)
        return f"{REFS}/{name}"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock our index against concurrent calls."""
        self.ours.mkdir(exist_ok=True)
        with (self.ours / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (self.ours / "index.lock").unlink(missing_ok=True)  # stale: we hold the lock
            if not self._index.exists():
                self._copy_index()
            yield

    def _copy_index(self) -> None:
        """Make our index a copy of the user's, which saves git from reading all files."""
        self._index.unlink(missing_ok=True)
        copy = self.ours / "index.copy"  # our index is never a part of one
        with suppress(FileNotFoundError):
            shutil.copy2(self.ours.parent / "index", copy)
            copy.rename(self._index)

    @property
    def _index(self) -> Path:
        return self.ours / "index"

    def _git(self, *arguments: str, given: str = "", well: Collection[int] = (0,)) -> str:
        return _run(self.top, {"GIT_INDEX_FILE": str(self._index)}, *arguments, given=given, well=well)


def _split(paths: str) -> list[str]:
    return paths.split("\0")[:-1]


def _literal(path: str) -> str:
    return f":(top,literal){path}"


def _run(
    folder: Path, variables: dict[str, str], *arguments: str, given: str = "", well: Collection[int] = (0,)
) -> str:
    """Run git with ``given`` as stdin; return its output. Raises WorktreeFailed for an exit status not in ``well``."""
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
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except OSError as error:
        raise WorktreeFailed(f"git cannot be run in {folder}: {error.strerror}.") from None
    except subprocess.TimeoutExpired:
        raise WorktreeFailed(f"git {arguments[0]} took longer than {LONGEST_SECONDS:g} s in {folder}.") from None
    if done.returncode not in well:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise WorktreeFailed(f"git {arguments[0]} failed in {folder}: {reason}")
    return done.stdout
