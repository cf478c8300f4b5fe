"""The one place that puts the parts together, reads the clock and makes secrets."""

import logging
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

import trio

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration
from mnemosyne.http.app import create_app
from mnemosyne.http.gateway import Gateway
from mnemosyne.http.relay import Progress
from mnemosyne.http.serving import bind, serve, url_of

log = logging.getLogger(__name__)

TOKEN_FILE = "token"


async def run_server(config: Config, ready: Callable[[str], None]) -> None:
    """Serve until told to stop. ``ready`` gets the server's URL once it takes requests."""
    prepare_data_dir(config.data_dir)
    token = local_token(config.data_dir)
    listener = bind(config.host, config.port)
    url = url_of(listener)
    progress = Progress()
    async with (
        HttpUpstream(config.upstream, ca_bundle=config.ca_bundle) as upstream,
        trio.open_nursery() as relays,
    ):
        gateway = Gateway(upstream, relays, progress, config.max_body_bytes)
        await serve(
            create_app(config, gateway, token),
            listener,
            progress,
            drain_seconds=config.drain_seconds,
            stall_seconds=config.stall_seconds,
            ready=lambda: ready(url),
            hard_exit=_hard_exit,
        )
        relays.cancel_scope.cancel()


async def _hard_exit() -> None:
    """End the process now. The server shields what it sends, so no cancellation would reach a client that is gone."""
    logging.shutdown()
    os._exit(0)


def prepare_data_dir(data_dir: Path) -> None:
    """Make the data directory, for its owner only."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadConfiguration(
            f"The data directory {data_dir} cannot be made: {error.strerror or error}. Choose another with --data-dir."
        ) from None


def local_token(data_dir: Path) -> str:
    """The token that opens the server's own pages: made once, readable by its owner only."""
    path = data_dir / TOKEN_FILE
    try:
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(32))
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise BadConfiguration(f"The token file {path} cannot be used: {error.strerror or error}.") from None


def _write_once(path: Path, text: str) -> None:
    """Write a private file that appears whole or not at all; if another process was first, its file stands."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def start_logging(level: str) -> None:
    """Log to stderr, one line an entry. Our own code logs no content and no header but those on the allow-list."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("mnemosyne").setLevel(level.upper())
