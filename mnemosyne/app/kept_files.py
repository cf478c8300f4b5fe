"""The files of a git working tree at the arrival of each request, for `run --record-worktree`.

A client sends a request after all earlier calls have ended, and starts no call of a reply before the reply begins. So
the saved files contain the effects of all earlier calls, and of no call of the reply.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from uuid import UUID

import trio

from mnemosyne.adapters.git_worktree import GitWorktree, RestoredFiles
from mnemosyne.errors import NotFound

log = logging.getLogger(__name__)

FOLDER_VARIABLE = "MNEMOSYNE_RECORD_WORKTREE"
"""The variable that names the working tree whose files a server of `run --record-worktree` saves."""


def find_keeper(environ: Mapping[str, str]) -> Callable[[UUID, int, trio.Event], Awaitable[None]] | None:
    """The function that saves files for a server with these variables; None if it saves none. Raises NotFound."""
    folder = environ.get(FOLDER_VARIABLE)
    return partial(keep_files, GitWorktree.around(Path(folder))) if folder else None


async def keep_files(worktree: GitWorktree, session: UUID, at: int, done: trio.Event) -> None:
    """Save the files for the session's request that arrived ``at`` this time, in µs of UTC, and then set ``done``. If
    saving fails, the session continues without these files.
    """
    try:
        await trio.to_thread.run_sync(worktree.keep, f"{session}/{at}", f"At a request of session {session}")
    except Exception as error:
        log.warning("the files at a request of session %s could not be saved: %s", session, error)
    finally:
        done.set()


def find_files(folder: Path, session: UUID, at: int) -> Callable[[int], RestoredFiles]:
    """Find the files saved for the session's request that arrived at this time. The returned function saves
    the current files under its argument, a time in µs, and restores the others. Both raise NotFound, WorktreeFailed.
    """
    worktree = GitWorktree.around(folder)
    ref = worktree.list_kept(str(session)).get(str(at))
    if ref is None:
        raise NotFound(
            f"No files of that turn of session {session} are saved in {worktree.top}. To save files from now on, start"
            f" the client there with `mnemosyne run --record-worktree`."
        )
    return lambda now: worktree.restore_files(ref, f"before/{now}")
