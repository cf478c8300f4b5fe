"""The pages under ``/-/`` of a server that has just been started: is it well, and what is it."""

from collections.abc import Awaitable, Callable, Mapping

import attrs
from quart import Blueprint, Response, jsonify

from mnemosyne import __version__
from mnemosyne.http.client_reply import RelayProgress


def pages(
    *,
    settings: Mapping[str, str],
    progress: RelayProgress,
    unrecorded: Mapping[str, int],
    off_since: Callable[[], Awaitable[int | None]],
    worker: Callable[[], Awaitable[Mapping[str, object]]],
) -> Blueprint:
    """The blueprint of our own pages. ``unrecorded``, ``off_since`` and ``worker`` are as in
    ``app.discovery.FoundServer``.
    """
    blueprint = Blueprint("inspector", __name__, url_prefix="/-")

    @blueprint.get("/health")
    async def health() -> Response:
        return jsonify({"status": "ok"})

    @blueprint.get("/ready")
    async def ready() -> Response:
        # Whatever the worker does: a turn never waits for it.
        return jsonify({"status": "ready", "worker": dict(await worker())})

    @blueprint.get("/status")
    async def status() -> Response:
        return jsonify(
            {
                "version": __version__,
                "upstream": settings["upstream"],
                "tenant": settings["tenant"],
                "settings": dict(settings),
                "off_since": await off_since(),
                "unrecorded": dict(unrecorded),
                "untold": attrs.asdict(progress.untold),
                "relays": attrs.asdict(progress, filter=attrs.filters.exclude(attrs.fields(RelayProgress).untold)),
                "worker": dict(await worker()),
            }
        )

    return blueprint
