"""What a person decides on a page about an object: pin, unpin, release. Each is a command like any other's, and is on
record before the page shows it.
"""

from collections.abc import Mapping

from mnemosyne.http.inspector.library import Decide, Library
from mnemosyne.services import pins, read_models

REASON = "on the page"
LONGEST_REASON = 200


async def pin(library: Library, form: Mapping[str, str], session: str, object_id: str) -> str:
    """Keep an object as it is."""
    stream = str(await read_models.find(library.models, session))
    await pins.pin(
        library.archive,
        object_id,
        session=stream,
        reason=_reason(form),
        at=library.now(),
        correlation_id=library.new_id(),
    )
    return f"/-/session/{stream}/object/{object_id}"


async def unpin(library: Library, form: Mapping[str, str], session: str, object_id: str) -> str:
    """Let a pinned object go again."""
    stream = str(await read_models.find(library.models, session))
    await pins.unpin(
        library.archive,
        object_id,
        session=stream,
        reason=_reason(form),
        at=library.now(),
        correlation_id=library.new_id(),
    )
    return f"/-/session/{stream}/object/{object_id}"


def _reason(form: Mapping[str, str]) -> str:
    return form.get("reason", "").strip()[:LONGEST_REASON] or REASON


DECISIONS: Mapping[str, Decide] = {
    "/-/session/<session>/object/<object_id>/pin": pin,
    "/-/session/<session>/object/<object_id>/unpin": unpin,
}
