"""Run the provider of a replay in a thread, while the main thread runs the client."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import attrs
import trio

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.storage import open_storage
from mnemosyne.config import Config
from mnemosyne.errors import alone
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.gateway import Gateway
from mnemosyne.http.recorded import NoTurns, RecordedUpstream, ReplayServer
from mnemosyne.http.serving import bind, run_hypercorn, url_of
from mnemosyne.services.recorded_replies import Replay, open_replay

DRAIN_SECONDS = 1.0
"""How long a reply may go on after its client has ended."""


@attrs.frozen(kw_only=True)
class ReplayOptions:
    """The ``session`` to replay, as a person names it, ``until`` which turn (None: all), and the server that gets the
    requests after that (``live_url``, None: none). ``at_speed``: replies take as long as they did.
    """

    session: str
    until: int | None = None
    live_url: str | None = None
    at_speed: bool = False


@attrs.frozen
class RunningReplay:
    """A provider at ``url``."""

    url: str
    replay: Replay
    server: ReplayServer


@contextmanager
def serve_replay(
    config: Config, options: ReplayOptions, progress: Callable[[int, int], None]
) -> Iterator[RunningReplay]:
    """Serve until the context ends. Raises what ``open_replay`` raises."""
    begun: queue.Queue[RunningReplay | Exception] = queue.Queue()
    stopping = trio.Event()
    tokens: list[trio.lowlevel.TrioToken] = []

    async def main() -> None:
        tokens.append(trio.lowlevel.current_trio_token())
        await _serve(config, options, progress, stopping, begun.put)

    def run() -> None:
        try:
            trio.run(main)
        except Exception as error:
            begun.put(alone(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    running = begun.get()
    if isinstance(running, Exception):
        raise running
    try:
        yield running
    finally:
        tokens[0].run_sync_soon(stopping.set)
        thread.join(DRAIN_SECONDS + 5)


async def _serve(
    config: Config,
    options: ReplayOptions,
    progress: Callable[[int, int], None],
    stopping: trio.Event,
    begin: Callable[[RunningReplay], None],
) -> None:
    logging.getLogger("mnemosyne").setLevel(logging.ERROR)  # the client has the terminal
    async with AsyncExitStack() as stack:
        storage = await stack.enter_async_context(open_storage(config))
        replay = await open_replay(storage, options.session, options.until, progress)
        live = None
        if options.live_url is not None:
            live = await stack.enter_async_context(HttpUpstream(options.live_url))
        relays = await stack.enter_async_context(trio.open_nursery())
        upstream = RecordedUpstream(replay, live, options.at_speed)
        gateway = Gateway(upstream, relays, RelayProgress(), config.max_body_bytes, NoTurns())
        server = ReplayServer(gateway)
        listener = bind("127.0.0.1", 0)
        begin(RunningReplay(url_of(listener), replay, server))
        await run_hypercorn(server, listener, stopping, DRAIN_SECONDS)
        relays.cancel_scope.cancel()
