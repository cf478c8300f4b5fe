"""Run the provider of a replay in a thread, while the main thread runs the client."""

import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import attrs
import trio

from mnemosyne.adapters.git_worktree import GitWorktree
from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.kept_files import find_files
from mnemosyne.app.process import now
from mnemosyne.app.storage import open_storage
from mnemosyne.app.threads import in_a_thread
from mnemosyne.config import Config
from mnemosyne.errors import NotFound, WorktreeFailed
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.gateway import Gateway
from mnemosyne.http.recorded import FolderCopy, NoTurns, RecordedUpstream, ReplayServer
from mnemosyne.http.serving import bind, run_hypercorn, url_of
from mnemosyne.services.recorded_replies import Replay, open_replay

DRAIN_SECONDS = 1.0
"""How long a reply may go on after its client has ended."""


@attrs.frozen(kw_only=True)
class ReplayOptions:
    """The ``session`` to replay, as a person names it, ``until`` which turn (None: all), and the server that gets the
    requests after that (``live_url``, None: none). ``at_speed``: replies take as long as they did. ``copies``: the
    client works in a copy of the session's folder.
    """

    session: str
    until: int | None = None
    live_url: str | None = None
    at_speed: bool = False
    copies: bool = False


@attrs.frozen
class RunningReplay:
    """A provider at ``url``, for a client that runs in ``folder``."""

    url: str
    replay: Replay
    server: ReplayServer
    folder: Path


def serve_replay(
    config: Config, options: ReplayOptions, progress: Callable[[int, int], None]
) -> AbstractContextManager[RunningReplay]:
    """Serve until the context ends. Raises what ``open_replay`` and ``copy_folder`` raise."""
    return in_a_thread(partial(_serve, config, options, progress), "replay")


def copy_folder(replay: Replay) -> FolderCopy:
    """Copy the working tree of a session's folder, with its files as they were at the session's first request. Raises
    NotFound, WorktreeFailed.
    """
    if replay.folder is None:
        raise NotFound(f"No request of session {replay.session} names its folder, so it cannot be copied.")
    top = GitWorktree.around(Path(replay.folder)).top
    if not Path(replay.folder).is_relative_to(top):  # the client would change the recorded files, whose name differs
        raise WorktreeFailed(f"{replay.folder} is a link to {top} or below, so it cannot be copied.")
    at = replay.history.attempts[0].began.at
    find_files(top, replay.session, at)
    if not (top / ".git").is_dir():
        raise WorktreeFailed(f"{top} shares its repository with another folder, so it cannot be copied.")
    copy = Path(mkdtemp(prefix="mnemosyne-replay-")).resolve() / top.name
    try:
        shutil.copytree(top, copy, symlinks=True)
    except OSError as error:
        raise WorktreeFailed(f"{top} cannot be copied: {error.strerror or 'some files cannot be read'}.") from None
    find_files(copy, replay.session, at)(now())
    return FolderCopy(str(top), str(copy), str(Path.home()))


@asynccontextmanager
async def _serve(
    config: Config, options: ReplayOptions, progress: Callable[[int, int], None]
) -> AsyncIterator[RunningReplay]:
    logging.getLogger("mnemosyne").setLevel(logging.ERROR)  # the client has the terminal
    async with AsyncExitStack() as stack:
        storage = await stack.enter_async_context(open_storage(config))
        replay = await open_replay(storage, options.session, options.until, progress)
        live = None
        if options.live_url is not None:
            live = await stack.enter_async_context(HttpUpstream(options.live_url))
        copy = copy_folder(replay) if options.copies else FolderCopy()
        replay.rename = copy.rename_for_record
        folder = copy.rename_for_client(os.fsencode(replay.folder or "")) if options.copies else b"."
        upstream = RecordedUpstream(replay, live, options.at_speed, copy)
        async with trio.open_nursery() as relays:
            gateway = Gateway(upstream, relays, RelayProgress(), config.max_body_bytes, NoTurns())
            server, listener, stopping = ReplayServer(gateway), bind("127.0.0.1", 0), trio.Event()
            url = url_of(listener)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_hypercorn, server, listener, stopping, DRAIN_SECONDS)
                yield RunningReplay(url, replay, server, Path(os.fsdecode(folder)))
                stopping.set()
            relays.cancel_scope.cancel()
