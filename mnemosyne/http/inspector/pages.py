"""The pages under ``/-/`` of a server that has just been started: is it well, and what is it."""

import attrs
from quart import Blueprint, Response, jsonify

from mnemosyne import __version__
from mnemosyne.http.relay import Progress


def pages(*, upstream: str, tenant: str, progress: Progress) -> Blueprint:
    """The blueprint of our own pages."""
    blueprint = Blueprint("inspector", __name__, url_prefix="/-")

    @blueprint.get("/health")
    async def health() -> Response:
        return jsonify({"status": "ok"})

    @blueprint.get("/status")
    async def status() -> Response:
        return jsonify(
            {"version": __version__, "upstream": upstream, "tenant": tenant, "relays": attrs.asdict(progress)}
        )

    return blueprint
