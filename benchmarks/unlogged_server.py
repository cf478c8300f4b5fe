"""Mnemosyne without its log: the same application, whose turns nobody writes down.

``python -m benchmarks.unlogged_server http://127.0.0.1:PORT DIRECTORY``. What it costs is the relay's; what the whole
server costs beyond it is the log's.
"""

import os
import sys
from pathlib import Path

import trio

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.logs import start_logging
from mnemosyne.config import load
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import Reachability
from mnemosyne.http.app import create_app
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.gateway import Gateway
from mnemosyne.http.inspector.status import ServerParts
from mnemosyne.http.serving import bind, serve, url_of
from mnemosyne.http.turn_log import TurnLog, Unrecorded


class NoTurns:
    """Records nothing."""

    def open_turn(
        self,
        headers: tuple[tuple[str, str], ...],
        body: bytes,
        dialect: Dialect,
        wanted: Mode | None,
        default: Mode,
        *,
        lease: object = None,
        lacks_room: bool = False,
    ) -> TurnLog:
        return Unrecorded()

    async def may_be_managed(
        self, headers: tuple[tuple[str, str], ...], dialect: Dialect, wanted: Mode | None, default: Mode
    ) -> bool:
        return False


async def _no_worker() -> dict[str, object]:
    return {}


async def _never_off() -> None:
    """Since when managing is off."""


async def _no_metrics() -> str:
    return ""


async def _no_probe(_dialect: str) -> list[Reachability]:
    return []


_NO_PARTS = ServerParts(
    off_since=_never_off,
    worker=_no_worker,
    database=dict,
    metrics=_no_metrics,
    probe=_no_probe,
    present=lambda _: None,
)


async def main(upstream: str, directory: Path) -> None:
    config = load({"upstream": upstream, "port": 0, "data_dir": str(directory)}, {})
    start_logging(config.log_level)
    listener = bind(config.host, config.port)
    url = url_of(listener)
    progress = RelayProgress()
    async with HttpUpstream(config.upstream, ca_bundle=config.ca_bundle) as provider, trio.open_nursery() as turns:
        gateway = Gateway(provider, turns, progress, config.max_body_bytes, NoTurns())
        await serve(
            create_app(config, gateway, "no pages are asked for", _NO_PARTS),
            listener,
            progress,
            drain_seconds=config.drain_seconds,
            stall_seconds=config.stall_seconds,
            ready=lambda: _say(f"mnemosyne without its log listening on {url}"),
            hard_exit=_exit,
        )
        turns.cancel_scope.cancel()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def _exit() -> None:
    os._exit(1)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]))
