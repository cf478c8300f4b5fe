"""An object's page: its biography, its texts, and what may be decided about it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from quart import Response

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.errors import NotFound
from mnemosyne.http.inspector.happenings import tell_object
from mnemosyne.http.inspector.holdings import Holdings, LongPage, LongView
from mnemosyne.services import object_view, read_models


async def show_object(holdings: Holdings, session: str, object_id: str) -> LongPage:
    """One object of a session."""
    stream = await read_models.find(holdings.models, session)
    made = await object_view.read_birth(holdings.archive, holdings.models, stream, object_id)
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
        read=partial(_read_life, holdings, str(stream), made.object),
    )


async def _read_life(holdings: Holdings, session: str, object_id: str) -> Mapping[str, Any]:
    view = await object_view.read_object_view(holdings.archive, session, object_id)
    return {"view": view, "biography": [(change, *tell_object(change.event, sized=True)) for change in view.history]}


async def download_text(holdings: Holdings, session: str, object_id: str, level: str) -> Response:
    """All that an object holds at a fidelity, as plain text."""
    stream = await read_models.find(holdings.models, session)
    fidelity = next((each for each in Fidelity if each.label == level), Fidelity.EVICTED)
    text = await object_view.read_text(holdings.archive, str(stream), object_id, fidelity)
    if text is None:
        raise NotFound(f"There is no text of {object_id} at {level}.")
    response = Response(text, content_type="text/plain; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{object_id}-{level}.txt"'
    return response


LONG_VIEWS: Mapping[str, LongView] = {"/-/session/<session>/object/<object_id>": show_object}

DOWNLOADS = {"/-/session/<session>/object/<object_id>/<level>": download_text}
