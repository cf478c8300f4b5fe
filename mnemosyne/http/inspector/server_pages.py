"""The pages of total savings and of the server: its database, read models and settings."""

from collections.abc import Mapping
from typing import Any

from quart import request

from mnemosyne.http.inspector.page_context import PageContext, View
from mnemosyne.http.inspector.session_pages import SHOWN_SESSIONS
from mnemosyne.services import overviews
from mnemosyne.services.savings import list_caveats, read_savings


async def show_savings(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """Show each session's cost with and without managing, last active first; ``?all`` shows all sessions."""
    found = await read_savings(page_context.models)
    limit = None if "all" in request.args else SHOWN_SESSIONS
    listed = await overviews.list_overviews(
        page_context.archive, page_context.models, openings=page_context.openings, limit=limit
    )
    return "savings.html", {
        "found": found,
        "total": found.total,
        "caveats": list_caveats(found.total),
        "titles": {each.stream: each.label for each in listed if each.stream in found.sessions},
    }


async def show_server(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """Show database, index, disk, versions and settings."""
    return "server.html", {"health": await page_context.health(), "settings": page_context.shown}


VIEWS: Mapping[str, View] = {"/-/savings": show_savings, "/-/server": show_server}
