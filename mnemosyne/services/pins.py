"""What a person says has to stay in the window, or may go again."""

from uuid import UUID

import attrs

from mnemosyne.domain.objects.decide import Pin, Unpin
from mnemosyne.domain.objects.lookup import bare, living
from mnemosyne.domain.session.state import Session
from mnemosyne.services import memories
from mnemosyne.services.sessions import Archive


@attrs.frozen(kw_only=True)
class Pinning:
    """What became of a pin: ``recorded`` is False where it was so already."""

    stream: UUID
    object: str
    recorded: bool


async def pin(
    archive: Archive,
    object_id: str,
    *,
    session: str | None = None,
    reason: str,
    turns: int | None = None,
    at: int,
    correlation_id: str,
) -> Pinning:
    """Keep an object at its fidelity in every branch, for so many turns of its branch from now, or for good.

    ``at`` is in µs of UTC. Raises NotFound.
    """

    def command(state: Session) -> Pin:
        found = living(state.memory, object_id)
        until = None if turns is None else state.branches[found.branch].turns + turns
        return Pin(at=at, object=found.id, reason=reason, until_turn=until)

    found = await memories.find(archive, object_id, session)
    decided = await memories.decide(archive, found.stream, command, correlation_id)
    return Pinning(stream=found.stream, object=bare(object_id), recorded=bool(decided))


async def unpin(
    archive: Archive, object_id: str, *, session: str | None = None, reason: str, at: int, correlation_id: str
) -> Pinning:
    """Let an object go again. ``at`` is in µs of UTC. Raises NotFound."""

    def command(state: Session) -> Unpin:
        return Unpin(at=at, object=living(state.memory, object_id).id, reason=reason)

    found = await memories.find(archive, object_id, session)
    decided = await memories.decide(archive, found.stream, command, correlation_id)
    return Pinning(stream=found.stream, object=bare(object_id), recorded=bool(decided))
