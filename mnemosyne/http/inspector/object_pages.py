"""The page of an object: its biography, its texts, and what may be decided about it."""

from collections.abc import Mapping
from typing import Any

from quart import Response

from mnemosyne.domain.history.memory_travel import ObjectChange
from mnemosyne.domain.objects import events as happened
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.errors import NotFound
from mnemosyne.http.inspector.library import Library, View
from mnemosyne.http.inspector.telling import tokens_text
from mnemosyne.services import object_view, read_models


async def show_object(library: Library, session: str, object_id: str) -> tuple[str, Mapping[str, Any]]:
    """One object of a session."""
    stream = await read_models.find(library.models, session)
    view = await object_view.read_object_view(library.archive, str(stream), object_id)
    told = [(change, *tell(change)) for change in view.history]
    return "object.html", {"view": view, "biography": told}


async def download_text(library: Library, session: str, object_id: str, level: str) -> Response:
    """All that an object holds at a fidelity, as plain text."""
    stream = await read_models.find(library.models, session)
    fidelity = next((each for each in Fidelity if each.label == level), Fidelity.EVICTED)
    text = await object_view.read_text(library.archive, str(stream), object_id, fidelity)
    if text is None:
        raise NotFound(f"There is no text of {object_id} at {level}.")
    response = Response(text, content_type="text/plain; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{object_id}-{level}.txt"'
    return response


def tell(change: ObjectChange) -> tuple[str, str]:
    """What happened to an object, and why."""
    match change.event:
        case happened.ObjectCreated() as event:
            admitted = "worth the index" if event.admission.admitted else "routine: not in the index"
            return f"born with {tokens_text(event.tokens)} tokens", admitted
        case happened.ObjectSummarized() as event:
            return f"{event.fidelity.label} written, {tokens_text(event.tokens)} tokens", f"by {event.helper}"
        case happened.ObjectDegraded() as event:
            return f"shortened from {event.before.label} to {event.after.label}", event.cause.value
        case happened.ObjectRestored() as event:
            return f"brought back from {event.before.label} to {event.after.label}", event.cause.value
        case happened.ObjectFaulted() as event:
            return f"missed ({event.kind.value}), {tokens_text(event.tokens)} tokens", event.reason
        case happened.ObjectPinned() as event:
            until = "" if event.until_turn is None else f" through turn {event.until_turn}"
            return f"pinned{until}", event.reason
        case happened.ObjectUnpinned() as event:
            return "unpinned", event.reason
        case happened.ObjectReleased() as event:
            return "released", event.reason
        case happened.ObjectRequested() as event:
            return f"wanted back at {event.after.label}", event.reason
        case happened.ObjectSuperseded() as event:
            return "out of date" + (f", replaced by {event.by}" if event.by else ""), event.how.value
        case happened.ObjectForgotten() as event:
            return "forgotten", event.reason


VIEWS: Mapping[str, View] = {"/-/session/<session>/object/<object_id>": show_object}

DOWNLOADS = {"/-/session/<session>/object/<object_id>/<level>": download_text}
