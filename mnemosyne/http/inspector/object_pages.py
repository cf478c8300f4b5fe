"""An object's page: its history, its versions, and the forms to pin, release or restore it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from quart import Response

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.errors import NotFound
from mnemosyne.http.inspector.happenings import describe_object
from mnemosyne.http.inspector.page_context import LongPage, LongView, PageContext
from mnemosyne.services import object_view, read_models


async def show_object(page_context: PageContext, session: str, object_id: str) -> LongPage:
    """Show one object of a session."""
    stream = await read_models.find(page_context.models, session)
    made = await object_view.read_birth(page_context.archive, page_context.models, stream, object_id)
    return LongPage(
        stream=stream,
        template="object.html",
        told={
            "stream": stream,
            "object": made.object,
            "branch": made.branch,
            "title": made.source_key or made.stub or made.object,
        },
        rest="object_body.html",
        read=partial(_read_life, page_context, str(stream), made.object),
    )


async def _read_life(page_context: PageContext, session: str, object_id: str) -> Mapping[str, Any]:
    view = await object_view.read_object_view(page_context.archive, session, object_id)
    return {
        "view": view,
        "biography": [(change, *describe_object(change.event, sized=True)) for change in view.history],
    }


async def download_text(page_context: PageContext, session: str, object_id: str, level: str) -> Response:
    """Return an object's full text at a fidelity, as plain text."""
    stream = await read_models.find(page_context.models, session)
    fidelity = next((each for each in Fidelity if each.label == level), Fidelity.EVICTED)
    text = await object_view.read_text(page_context.archive, str(stream), object_id, fidelity)
    if text is None:
        raise NotFound(f"Object {object_id} has no text at level {level}.")
    response = Response(text, content_type="text/plain; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{object_id}-{level}.txt"'
    return response


LONG_VIEWS: Mapping[str, LongView] = {"/-/session/<session>/object/<object_id>": show_object}

DOWNLOADS = {"/-/session/<session>/object/<object_id>/<level>": download_text}
