"""Objects and links that the tools of an agent's host make."""

from collections.abc import Sequence
from uuid import UUID

from mnemosyne.domain.objects import decide as objects
from mnemosyne.domain.objects.decide import LinkObject
from mnemosyne.domain.objects.events import Link, LinkRelation
from mnemosyne.domain.objects.lookup import living
from mnemosyne.domain.ports import Content
from mnemosyne.domain.segmentation.written import encode_text, write_object
from mnemosyne.domain.session.state import Session
from mnemosyne.services import memories
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.sessions import Archive


async def create(
    archive: Archive,
    stream: UUID,
    branch: str,
    text: str,
    *,
    name: str,
    tool: str | None,
    about: Sequence[str],
    stamp: WriteStamp,
) -> str:
    """Create an object as ``write_object`` does; return its id. Raises NotFound."""
    made = ""

    def command(state: Session) -> Sequence[objects.Command]:
        nonlocal made
        commands = write_object(state, branch, text, at=stamp.at, name=name, tool=tool, about=about)
        made = commands[0].object
        return commands

    await memories.decide(archive, stream, command, stamp.id, (Content(*encode_text(text)),))
    return made


async def link(archive: Archive, stream: UUID, source: str, relation: str, target: str, *, stamp: WriteStamp) -> None:
    """Link two objects. Raises NotFound, and ValueError for an unknown relation."""
    kind = LinkRelation(relation)

    def command(state: Session) -> LinkObject:
        other = living(state.memory, target).id
        return LinkObject(at=stamp.at, object=living(state.memory, source).id, link=Link(kind, other))

    await memories.decide(archive, stream, command, stamp.id)
