"""The pages about the whole log: search, total savings, and the server with its database, read models and settings."""

from collections.abc import Mapping
from typing import Any

from quart import request

from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.http.inspector.page_context import PageContext, View
from mnemosyne.http.inspector.session_pages import SHOWN_SESSIONS
from mnemosyne.services import overviews, read_models, search
from mnemosyne.services.savings import list_caveats, read_savings

RESULTS = 20


async def show_search(page_context: PageContext) -> tuple[str, Mapping[str, Any]]:
    """Search for ``?q=`` in all sessions, in ``?session=``, or in the sessions of ``?project=``."""
    question, session, project = (request.args.get(name, "").strip() for name in ("q", "session", "project"))
    shown: dict[str, Any] = {"question": question, "session": session, "project": project, "found": None}
    if not question:
        return "search.html", shown
    index = await page_context.index()
    if session:
        stream = await read_models.find(page_context.models, session)
        found = await search.search(page_context.archive, index, stream, question, Filter(), RESULTS)
    else:
        found = await search.search_sessions(
            page_context.archive, index, question, Filter(), RESULTS, folder=project or None
        )
    return "search.html", {**shown, "found": found}


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


VIEWS: Mapping[str, View] = {"/-/search": show_search, "/-/savings": show_savings, "/-/server": show_server}
