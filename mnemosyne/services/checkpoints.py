"""Checkpoints: turns of a session that a person named."""

from collections.abc import Sequence
from uuid import UUID

import attrs

from mnemosyne.domain.history.time_travel import CHECKPOINT
from mnemosyne.domain.session.decide import NameCheckpoint
from mnemosyne.domain.session.events import CheckpointNamed
from mnemosyne.domain.session.state import Session
from mnemosyne.errors import BadEntry, NotFound
from mnemosyne.services import memories, sessions
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.sessions import Archive


@attrs.frozen
class Naming:
    """The result of naming a turn: ``recorded`` is False if it had that name already."""

    stream: UUID
    checkpoint: CheckpointNamed
    recorded: bool


async def name(
    archive: Archive, session: str, called: str, *, branch: str, turn: int | None, stamp: WriteStamp
) -> Naming:
    """Name a turn of a branch, by default the last one. Raises NotFound, and BadEntry for an invalid name or another
    turn's.
    """
    if (fits := CHECKPOINT.fullmatch(called)) is None or fits["round"]:
        raise BadEntry(
            f"{called!r} is not a valid name: use at most 64 letters, digits, '.', '_' and '-', a letter first."
        )

    def command(state: Session) -> NameCheckpoint:
        place = branch, _find_turn(state, branch, turn)
        held = state.checkpoints.get(called, place)
        if held != place:
            raise BadEntry(f"{called} is already the name of turn {held[1]} of {held[0]}. Choose another name.")
        return NameCheckpoint(at=stamp.at, name=called, branch=branch, turn=place[1])

    stream = await sessions.find(archive, session)
    decided = await memories.decide(archive, stream, command, stamp.id)
    _, held = await read_all(archive, str(stream))
    return Naming(stream, next(each for each in held if each.name == called), recorded=bool(decided))


async def read_all(archive: Archive, session: str) -> tuple[UUID, Sequence[CheckpointNamed]]:
    """The checkpoints of a session, in the order of naming. Raises NotFound."""
    stream, history = await sessions.read_history(archive, session)
    return stream, tuple(history.checkpoints.values())


def _find_turn(state: Session, branch: str, turn: int | None) -> int:
    if branch not in state.branches:
        raise NotFound(f"The session has no branch {branch!r}; its branches: {', '.join(state.branches)}.")
    last = state.branches[branch].turns
    if turn is not None and turn > last:
        raise NotFound(f"Branch {branch} has turns 1 to {last}, and not {turn}.")
    return last if turn is None else turn
