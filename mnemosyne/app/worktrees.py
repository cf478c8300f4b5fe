"""The files of a project beside a session: kept before each call that may change them, and brought back for a fork."""

import re
from collections.abc import Sequence
from pathlib import Path

import attrs

from mnemosyne.adapters.git_worktree import GitWorktree, RestoredFiles
from mnemosyne.app.hooks import HookEvent
from mnemosyne.errors import BadOption, NotFound

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""What sessions and calls are called that can be part of a ref."""


@attrs.frozen
class KeptFiles:
    """Files as they were before a call, in the working tree that they are from."""

    worktree: GitWorktree
    ref: str

    def restore_files(self, at: int) -> RestoredFiles:
        """Make the files what they were. How they are now is kept under the time ``at``, in µs of UTC."""
        return self.worktree.restore_files(self.ref, f"before/{at}")


def keep_before_call(event: HookEvent) -> None:
    """Keep the files of the event's folder under its session and call. Raises BadOption, NotFound, WorktreeFailed."""
    if not _NAME.fullmatch(event.session) or not _NAME.fullmatch(event.call):
        raise BadOption("The event names no session and call under which files could be kept.")
    worktree = GitWorktree.around(event.folder)
    worktree.keep(f"{event.session}/{event.call}", f"Before call {event.call} of session {event.session}")


def find_files(folder: Path, session: str, calls: Sequence[str]) -> KeptFiles | None:
    """The files as they were before the first of these calls that was kept; None where the session's files were kept,
    and none of these calls changed any. Raises NotFound.
    """
    worktree = GitWorktree.around(folder)
    kept = worktree.list_kept(session)
    if not kept:
        raise NotFound(
            f"No files were kept with session {session} in {worktree.top}. They are from its next turn on with"
            f" `mnemosyne run --record-worktree`."
        )
    found = next((call for call in calls if call in kept), None)
    return None if found is None else KeptFiles(worktree, kept[found])
