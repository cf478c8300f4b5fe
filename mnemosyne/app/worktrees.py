"""Save a project's files before each call that may change them, and restore them for a fork."""

import re
from collections.abc import Sequence
from pathlib import Path

import attrs

from mnemosyne.adapters.git_worktree import GitWorktree, RestoredFiles
from mnemosyne.app.hooks import HookEvent
from mnemosyne.errors import BadOption, NotFound

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""Session and call ids that are valid in a Git ref."""


@attrs.frozen
class KeptFiles:
    """The saved files of a working tree before a call."""

    worktree: GitWorktree
    ref: str

    def restore_files(self, at: int) -> RestoredFiles:
        """Restore the files; first save the current ones under the time ``at``, in µs of UTC."""
        return self.worktree.restore_files(self.ref, f"before/{at}")


def keep_before_call(event: HookEvent) -> None:
    """Save the files of the event's folder under its session and call. Raises BadOption, NotFound, WorktreeFailed."""
    if not _NAME.fullmatch(event.session) or not _NAME.fullmatch(event.call):
        raise BadOption("The files cannot be saved: the event lacks a valid session or call id.")
    worktree = GitWorktree.around(event.folder)
    worktree.keep(f"{event.session}/{event.call}", f"Before call {event.call} of session {event.session}")


def find_files(folder: Path, session: str, calls: Sequence[str]) -> KeptFiles | None:
    """Return the files saved before the first of these calls; None if the session has saved files but none for these
    calls. Raises NotFound if the session has none.
    """
    worktree = GitWorktree.around(folder)
    kept = worktree.list_kept(session)
    if not kept:
        raise NotFound(
            f"Session {session} has no saved files in {worktree.top}. To save them, start the client with"
            f" `mnemosyne run --record-worktree`."
        )
    first = next((call for call in calls if call in kept), None)
    return None if first is None else KeptFiles(worktree, kept[first])
