"""An object's page: its history, its versions, and the forms to pin, unpin, release or restore it. Each form runs the
same command as the CLI and is recorded before the page shows it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from quart import Response

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.errors import NotFound
from mnemosyne.http.inspector.happenings import describe_object
from mnemosyne.http.inspector.page_context import Decide, LongPage, LongView, PageContext
from mnemosyne.services import object_view, pins
from mnemosyne.services.knowledge import WriteStamp

_OBJECT = "/-/session/<session>/object/<object_id>"

REASON = "on the page"
LONGEST_REASON = 200


async def show_object(page_context: PageContext, stream: UUID, object_id: str) -> LongPage:
    made = await object_view.read_birth(page_context.archive, page_context.models, stream, object_id)
    return LongPage(
        stream=stream,
        template="object.html",
        values={
            "stream": stream,
            "object": made.object,
            "branch": made.branch,
            "title": made.source_key or made.stub or made.object,
        },
        rest="object_body.html",
        read=partial(_read_life, page_context, stream, made.object),
    )


async def _read_life(page_context: PageContext, stream: UUID, object_id: str) -> Mapping[str, Any]:
    view = await object_view.read_object_view(page_context.archive, str(stream), object_id)
    return {
        "view": view,
        "biography": [(change, *describe_object(change.event, sized=True)) for change in view.history],
    }


async def download_text(page_context: PageContext, stream: UUID, object_id: str, level: str) -> Response:
    """Return an object's full text at a fidelity, as plain text."""
    fidelity = next((each for each in Fidelity if each.label == level), Fidelity.EVICTED)
    text = await object_view.read_text(page_context.archive, str(stream), object_id, fidelity)
    if text is None:
        raise NotFound(f"Object {object_id} has no text at level {level}.")
    response = Response(text, content_type="text/plain; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{object_id}-{level}.txt"'
    return response


def _deciding(command: Any, branch: str | None) -> Decide:
    """Return the handler of a form that runs ``command`` on an object, in ``branch`` unless the form names one."""

    async def decide(page_context: PageContext, form: Mapping[str, str], stream: UUID, object_id: str) -> str:
        await command(
            page_context.archive,
            object_id,
            session=str(stream),
            reason=form.get("reason", "").strip()[:LONGEST_REASON] or REASON,
            stamp=WriteStamp(page_context.now(), page_context.new_id()),
            branch=form.get("branch", branch),
        )
        return f"/-/session/{stream}/object/{object_id}"

    return decide


LONG_VIEWS: Mapping[str, LongView] = {_OBJECT: show_object}

DOWNLOADS = {f"{_OBJECT}/<level>": download_text}

DECISIONS: Mapping[str, Decide] = {
    f"{_OBJECT}/pin": _deciding(pins.pin, None),
    f"{_OBJECT}/unpin": _deciding(pins.unpin, None),
    f"{_OBJECT}/release": _deciding(pins.release, "main"),
    f"{_OBJECT}/restore": _deciding(pins.restore, "main"),
}
