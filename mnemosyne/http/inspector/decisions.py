"""The forms of an object's page: pin, unpin, release, restore. Each runs the same command as the CLI and is recorded
before the page shows it.
"""

from collections.abc import Mapping
from typing import Any

from mnemosyne.http.inspector.page_context import Decide, PageContext
from mnemosyne.services import pins, read_models

REASON = "on the page"
LONGEST_REASON = 200


def _deciding(command: Any, *, in_branch: bool) -> Decide:
    """Return the handler of a form that runs ``command`` on an object; ``in_branch``: the form names a branch."""

    async def decide(page_context: PageContext, form: Mapping[str, str], session: str, object_id: str) -> str:
        stream = str(await read_models.find(page_context.models, session))
        where = {"branch": form.get("branch", "main")} if in_branch else {}
        await command(
            page_context.archive,
            object_id,
            session=stream,
            reason=form.get("reason", "").strip()[:LONGEST_REASON] or REASON,
            at=page_context.now(),
            correlation_id=page_context.new_id(),
            **where,
        )
        return f"/-/session/{stream}/object/{object_id}"

    return decide


_OBJECT = "/-/session/<session>/object/<object_id>"

DECISIONS: Mapping[str, Decide] = {
    f"{_OBJECT}/pin": _deciding(pins.pin, in_branch=False),
    f"{_OBJECT}/unpin": _deciding(pins.unpin, in_branch=False),
    f"{_OBJECT}/release": _deciding(pins.release, in_branch=True),
    f"{_OBJECT}/restore": _deciding(pins.restore, in_branch=True),
}
