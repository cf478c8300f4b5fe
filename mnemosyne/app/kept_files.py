"""The files of a git working tree at the arrival of each request, for `run --record-worktree`.

A client sends a request after all earlier calls have ended, and starts no call of a reply before the reply begins. So
the saved files contain the effects of all earlier calls, and of no call of the reply.
"""

import logging
import time
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

LONGEST_WAIT = 20.0
"""Seconds that a reply waits for git. Then the files of its request are not saved, and git goes on for the next one."""


def find_keeper(environ: Mapping[str, str]) -> Callable[[UUID, int, trio.Event], Awaitable[None]] | None:
    """The function that saves files for a server with these variables; None if it saves none. Raises NotFound."""
    folder = environ.get(FOLDER_VARIABLE)
    return partial(keep_files, GitWorktree.around(Path(folder)), trio.CapacityLimiter(1)) if folder else None


async def keep_files(
    worktree: GitWorktree, limiter: trio.CapacityLimiter, session: UUID, at: int, done: trio.Event
) -> None:
    """Save the files for the session's request that arrived ``at`` this time, in µs of UTC, and then set ``done``. If
    saving fails or takes too long, the session continues without these files.
    """
    name, why, until = f"{session}/{at}", f"At a request of session {session}", time.monotonic() + LONGEST_WAIT
    try:
        with trio.fail_after(LONGEST_WAIT):
            keep = partial(worktree.keep, name, why, until)
            await trio.to_thread.run_sync(keep, abandon_on_cancel=True, limiter=limiter)
    except Exception as error:
        reason = str(error) or f"git takes longer than {LONGEST_WAIT:g} s"
        log.warning("the files at a request of session %s could not be saved: %s", session, reason)
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
