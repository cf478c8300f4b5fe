"""The real application on a real socket, in the test's own trio run."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.config import Config, load
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.exchange import Reachability, ReplyHead
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.http.app import Application, create_app
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.decoded_room import DecodedRoom
from mnemosyne.http.gateway import Gateway, Traffic
from mnemosyne.http.inspector.status import ServerParts
from mnemosyne.http.routing import RoutedUpstream
from mnemosyne.http.serving import bind, run_hypercorn, url_of
from mnemosyne.http.turn_log import TurnLog, Unrecorded
from mnemosyne.http.unfinished import Unfinished
from mnemosyne.upstreams import NamedUpstream

TOKEN = "the-token"


def settings(upstream: str, **options: Any) -> Config:
    """Settings without a file or an environment."""
    return load({"upstream": upstream, "port": 0, "data_dir": "/nowhere", **options}, {})


class NoTurns:
    """Records nothing."""

    def open_turn(self, *_: Any, **__: Any) -> TurnLog:
        return Unrecorded()

    async def read_history(self, *_: Any) -> tuple[str, list[bytes]]:
        return "", []

    async def may_be_managed(self, *_: Any) -> bool:
        return False


@attrs.define
class RecordedTurns(Unrecorded):
    """A turn log that keeps its calls, and can be made to wait (``gate``) or to fail."""

    calls: list[str] = attrs.field(factory=list)
    replies: list[Reply | None] = attrs.field(factory=list)
    gates: dict[str, trio.Event] = attrs.field(factory=dict)
    waits_for: str = ""
    """The gate at which a turn waits, or waited last."""
    failing: bool = False

    def open_turn(self, *_: Any, **__: Any) -> TurnLog:
        return self

    async def read_history(self, *_: Any) -> tuple[str, list[bytes]]:
        return "", []

    async def may_be_managed(self, *_: Any) -> bool:
        return False

    def note_sent(self) -> None:
        self.calls.append("sent")

    async def note_begun(self) -> None:
        await self._note("begun")

    async def note_finished(self, head: ReplyHead, reply: Reply) -> None:
        self.replies.append(reply)
        await self._note(f"finished {head.status}")

    async def note_interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None:
        self.replies.append(reply)
        await self._note(f"interrupted: {reason}")

    async def _note(self, what: str) -> None:
        name = what.split()[0].rstrip(":")
        if name in self.gates:
            self.waits_for = name
            await self.gates[name].wait()
        self.calls.append(what)
        if self.failing:
            raise RuntimeError("the log is broken")


async def _no_worker() -> dict[str, object]:
    return {}


async def _never_off() -> None:
    """Managing was never switched off."""


async def _no_metrics() -> str:
    return ""


def _present_nothing(session: str, prompt: str | None = None, *, interactive: bool = False) -> None:
    """Ignore a prompt that a hook reports."""


async def _no_probe(_dialect: str) -> list[Reachability]:
    return []


_NO_PARTS = ServerParts(
    off_since=_never_off,
    worker=_no_worker,
    database=dict,
    metrics=_no_metrics,
    probe=_no_probe,
    present=_present_nothing,
    end=lambda session: None,
)


def app_of(config: Config, gateway: Gateway) -> Application:
    """The application around a gateway, without pages."""
    return create_app(config, gateway, TOKEN, _NO_PARTS)


@attrs.define
class Proxy:
    url: str
    progress: RelayProgress
    stopping: trio.Event
    traffic: Traffic
    decoded: DecodedRoom = attrs.field(factory=DecodedRoom)


@asynccontextmanager
async def open_proxy(
    upstream: str,
    turns: Any = None,
    *,
    ca_bundle: Path | None = None,
    mode: Mode = Mode.OBSERVE,
    unfinished: Unfinished | None = None,
    others: Sequence[NamedUpstream] = (),
    **options: Any,
) -> AsyncIterator[Proxy]:
    """The proxy in front of ``upstream``, for as long as the block runs; ``others`` are further names of the same
    provider.
    """
    config = settings(upstream, **options)
    listener = bind(config.host, config.port)
    proxy = Proxy(url_of(listener), RelayProgress(), trio.Event(), Traffic())
    async with HttpUpstream(upstream, ca_bundle=ca_bundle) as provider, trio.open_nursery() as relays:
        room = unfinished or Unfinished()
        routed = RoutedUpstream(provider, tuple((each, provider) for each in others))
        gateway = Gateway(routed, relays, proxy.progress, config.max_body_bytes, turns or NoTurns(), mode, room)
        gateway = attrs.evolve(gateway, traffic=proxy.traffic, decoded=proxy.decoded)
        async with trio.open_nursery() as server:
            await server.start(run_hypercorn, app_of(config, gateway), listener, proxy.stopping, 5)
            try:
                yield proxy
            finally:
                server.cancel_scope.cancel()
        relays.cancel_scope.cancel()
