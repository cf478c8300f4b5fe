"""Serve the application with Hypercorn and stop it: drain running replies, but do not wait for dead clients."""

import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import hypercorn
import trio
from hypercorn.trio import run as hypercorn_run
from hypercorn.trio import serve as hypercorn_serve
from hypercorn.trio import tcp_server

from mnemosyne.errors import BadConfiguration, MnemosyneError
from mnemosyne.http.app import Application
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.gateway import Receive, Scope, Send
from mnemosyne.http.plain_http import join_chunks, speak_plain_http
from mnemosyne.http.sharing import is_handed, take_over

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75

REQUESTS_PER_CONNECTION = 1_000_000
"""Requests after which the server closes a connection. Hypercorn's default of 1000 is too low for a busy day."""

LARGEST_HEAD = 256 * 1024
"""Maximum size of request line and headers, in bytes."""

RECEIVED_AT_ONCE = 256 * 1024
"""Maximum bytes read from a connection at once. Hypercorn's fixed 64 KB causes a dozen wake-ups for a long request,
each more expensive than the copy.
"""


def bind(host: str, port: int) -> socket.socket:
    """Listen on an address. Raises BadConfiguration if it is in use or not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise BadConfiguration(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. "
            "Another server may be using it; choose another port, or 0 for a free one."
        ) from None
    listener.listen(128)
    return listener


def listen_at(path: Path) -> socket.socket:
    """Listen on a Unix socket at ``path``, in place of an earlier one."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.setblocking(False)
    listener.bind(str(path))
    listener.listen(128)
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL at which clients on this machine reach the listener."""
    host, port = listener.getsockname()[:2]
    return _url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)


def bound_url_of(listener: socket.socket) -> str:
    """Return the URL of the bound address, which may be a wildcard address."""
    return _url(*listener.getsockname()[:2])


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: Application,
    listener: socket.socket,
    progress: RelayProgress,
    *,
    drain_seconds: float,
    stall_seconds: float,
    ready: Callable[[], object],
    hard_exit: Callable[[], Awaitable[None]],
    passed: socket.socket | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then let running replies finish. At ``passed`` arrive requests that other
    processes of this server pass on.

    ``hard_exit`` ends the process; it is called after ``drain_seconds``, after ``stall_seconds`` without progress
    because clients do not read, or at a second signal.
    """
    stopping = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_signals, signals, stopping, hard_exit)
            nursery.start_soon(watch_drain, stopping, progress, drain_seconds, stall_seconds, hard_exit)
            nursery.start_soon(_close_pages, stopping, app)
            async with trio.open_nursery() as server:
                await server.start(run_hypercorn, app, listener, stopping, drain_seconds)
                if passed is not None:
                    await server.start(run_hypercorn, app.answer_for_another, passed, stopping, drain_seconds)
                ready()
            nursery.cancel_scope.cancel()


async def run_hypercorn(
    app: Callable[[Scope, Receive, Send], Awaitable[None]],
    listener: socket.socket,
    stopping: trio.Event,
    drain_seconds: float,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stopping`` is set, then wait up to ``drain_seconds`` for running replies."""
    config = _configure(listener, drain_seconds)
    asgi: Any = app  # Hypercorn has its own types for the same messages
    await hypercorn_serve(asgi, config, shutdown_trigger=stopping.wait, task_status=task_status, mode="asgi")


class _Server(tcp_server.TCPServer):
    """Serves a connection, or the one that another process hands over on it (``http.sharing.hand_over``)."""

    async def run(self) -> None:
        stream: Any = self.stream  # Hypercorn's type is for TLS
        taken: Any = await take_over(stream) if is_handed(stream) else stream
        if taken is not None:
            self.stream = taken
            await super().run()


def _configure(listener: socket.socket, drain_seconds: float) -> hypercorn.Config:
    tcp_server.MAX_RECV = RECEIVED_AT_ONCE
    vars(hypercorn_run)["TCPServer"] = _Server
    speak_plain_http()
    join_chunks()
    config = hypercorn.Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = drain_seconds
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = REQUESTS_PER_CONNECTION
    config.h11_max_incomplete_size = LARGEST_HEAD
    # The provider's Date and Server headers pass through; the server must not add its own.
    config.include_date_header = False
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = _quiet_logger()
    return config


def _quiet_logger() -> logging.Logger:
    """Return Hypercorn's logger without tracebacks of replies that were broken on purpose (see ClientReply.body)."""
    logger = logging.getLogger("mnemosyne.hypercorn")
    logger.setLevel(logging.WARNING)
    logger.addFilter(lambda record: record.exc_info is None or not _is_ours(sys.exc_info()[1]))
    return logger


def _is_ours(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_ours(inner) for inner in error.exceptions)
    return isinstance(error, MnemosyneError)


async def _watch_signals(signals: Any, stopping: trio.Event, hard_exit: Callable[[], Awaitable[None]]) -> None:
    async for number in signals:
        if stopping.is_set():
            log.warning("a second %s: stopping at once", signal.Signals(number).name)
            await hard_exit()
        log.info("%s: no new connections; running replies may finish", signal.Signals(number).name)
        stopping.set()


async def _close_pages(stopping: trio.Event, app: Application) -> None:
    await stopping.wait()
    app.close_pages()


async def watch_drain(
    stopping: trio.Event,
    progress: RelayProgress,
    drain_seconds: float,
    stall_seconds: float,
    hard_exit: Callable[[], Awaitable[None]],
) -> None:
    """End the process when waiting has become pointless: Hypercorn shields its sends, and a dead client never reads."""
    await stopping.wait()
    started = moved = trio.current_time()
    delivered = progress.delivered
    while True:
        await trio.sleep(0.25)
        now = trio.current_time()
        if progress.delivered != delivered or progress.running > progress.waiting_for_client:
            delivered, moved = progress.delivered, now
        if now - moved > stall_seconds:
            log.warning("clients have read nothing for %g s; stopping without waiting for them", stall_seconds)
            await hard_exit()
        if now - started > drain_seconds + 1:
            log.warning("replies still running after %g s are cut", drain_seconds)
            await hard_exit()
