"""Changes of the log as server-sent events; a page refreshes itself at each."""

import json
from collections.abc import AsyncGenerator
from uuid import UUID

import trio
from quart import Response, request

from mnemosyne.errors import LogUnavailable
from mnemosyne.http.inspector.page_context import PageContext
from mnemosyne.services import read_models

QUIET_SECONDS = 15.0
"""Interval of keepalive comments, which reveal whether the client is still connected."""

PAUSE_SECONDS = 0.2
"""Changes within this time are sent as one event."""


async def follow(page_context: PageContext) -> Response:
    """Stream ``changed`` events, each with the ids of the changed sessions; ``?session=`` selects one session."""
    named = request.args.get("session")
    only = None if named is None else await read_models.find(page_context.models, named)
    response = Response(stream_changes(page_context, only), content_type="text/event-stream")
    response.timeout = None
    return response


async def stream_changes(page_context: PageContext, only: UUID | None) -> AsyncGenerator[bytes, None]:
    """Yield the events of all sessions or only one, and keepalives. The stream ends when the database becomes
    unavailable: the client then reconnects and gets the error.
    """
    position = page_context.position
    yield b"retry: 1000\n\n"
    while True:
        changed: frozenset[UUID] = frozenset()
        with trio.move_on_after(QUIET_SECONDS):
            try:
                position, changed = await page_context.beyond(position)
            except LogUnavailable:
                return
        if not changed:
            yield b": still here\n\n"
        elif only is None or only in changed:
            yield f"event: changed\ndata: {json.dumps(sorted(map(str, changed)))}\n\n".encode()
            await trio.sleep(PAUSE_SECONDS)
