"""What happens in the log, as server-sent events: pages show themselves again when one comes."""

import json
from collections.abc import AsyncGenerator
from uuid import UUID

import trio
from quart import Response, request

from mnemosyne.errors import LogUnavailable
from mnemosyne.http.inspector.page_context import PageContext
from mnemosyne.services import read_models

QUIET_SECONDS = 15.0
"""So often something is sent, so that it shows whether anybody is still there."""

PAUSE_SECONDS = 0.2
"""What happens within so short a time is told together."""


async def follow(page_context: PageContext) -> Response:
    """A stream of ``changed`` events, each with the sessions in which something happened; of ``?session=`` alone, or of
    all.
    """
    named = request.args.get("session")
    only = None if named is None else await read_models.find(page_context.models, named)
    response = Response(stream_changes(page_context, only), content_type="text/event-stream")
    response.timeout = None
    return response


async def stream_changes(page_context: PageContext, only: UUID | None) -> AsyncGenerator[bytes, None]:
    """The stream: what happened in any session, or in that one, and now and then that nothing did. It ends when the
    database goes away: whoever follows asks again, and is told why.
    """
    position = page_context.position
    yield b"retry: 1000\n\n"
    while True:
        found: frozenset[UUID] = frozenset()
        with trio.move_on_after(QUIET_SECONDS):
            try:
                position, found = await page_context.beyond(position)
            except LogUnavailable:
                return
        if not found:
            yield b": still here\n\n"
        elif only is None or only in found:
            yield f"event: changed\ndata: {json.dumps(sorted(map(str, found)))}\n\n".encode()
            await trio.sleep(PAUSE_SECONDS)
