"""The search page."""

from collections.abc import Mapping
from typing import Any

from quart import request

from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.http.inspector.page_context import PageContext, View
from mnemosyne.services import read_models, search

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


VIEWS: Mapping[str, View] = {"/-/search": show_search}
