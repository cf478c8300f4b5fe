"""Where a recorded session can be left, so that its client goes on from there under another name."""

import attrs

from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.session.directory import UNNAMED
from mnemosyne.domain.session.events import BranchKind, BranchOpened, SessionStarted, TurnFinished
from mnemosyne.domain.wire.reply import is_whole
from mnemosyne.errors import NotFound
from mnemosyne.services import sessions
from mnemosyne.services.sessions import Archive


@attrs.frozen
class ForkPoint:
    """The reply to a ``turn``, by the id of its message, in what the client calls ``session``."""

    session: str
    turn: int
    message_id: str


async def find_fork_point(archive: Archive, wanted: str, turn: int | str | None) -> ForkPoint:
    """The last whole reply up to a turn of a session's main branch, or of the branch that ``wanted`` is the client's
    name of, or up to a checkpoint; None: the last of all.

    Raises NotFound where there is none, or the client gave the session no name.
    """
    stream = await sessions.find(archive, wanted)
    recorded = await archive.events.read(stream)
    events = [each.envelope.event for each in recorded]
    alias = next((each for each in await archive.directory.aliases(wanted) if each.stream == stream), None)
    if alias is not None:
        name, branch = wanted, alias.branch
    else:
        name = next(event.external_id for event in events if isinstance(event, SessionStarted))
        opened = (each for each in events if isinstance(each, BranchOpened) and each.kind is BranchKind.MAIN)
        branch = next((each.branch for each in opened), "")
    if name.startswith(UNNAMED):
        raise NotFound(f"The client of session {stream} gave it no name, so it cannot be told to go on with it.")
    history = history_of(str(stream), recorded)
    if isinstance(turn, str):
        began = history.find(branch, turn).began
        branch, turn = began.branch, began.turn
    replies = [
        (each.began.turn, each.ended.message_id)
        for each in history.attempts
        if each.began.branch == branch
        and isinstance(each.ended, TurnFinished)
        and is_whole(each.ended.stop_reason)
        and each.ended.message_id
    ]
    found = [each for each in replies if turn is None or each[0] <= turn]
    if not found:
        where = "" if turn is None else f" up to turn {turn}"
        raise NotFound(f"Session {stream} has no whole reply{where} to go on from.")
    at, message_id = found[-1]
    assert message_id is not None
    return ForkPoint(name, at, message_id)
