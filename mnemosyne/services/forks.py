"""The point at which a client can continue a recorded session under another name."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from mnemosyne.domain.history.time_travel import Attempt, History, history_of
from mnemosyne.domain.session.directory import UNNAMED
from mnemosyne.domain.session.events import BranchKind, BranchOpened, SessionStarted, TurnFinished
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.reply import is_whole
from mnemosyne.errors import NotFound
from mnemosyne.services import sessions
from mnemosyne.services.contexts import read_reply, rebuild
from mnemosyne.services.sessions import Archive


@attrs.frozen
class ForkPoint:
    """The reply to a ``turn``, by its message id, in the ``client``'s ``session`` (both as the log names them).
    ``wanted`` is the requested turn, or a later one without a complete reply.

    ``request`` is the client's request, ``reply`` the reply as it saw it, in the client's own ``dialect``.
    """

    client: str
    session: str
    wanted: int
    turn: int
    message_id: str
    dialect: Dialect
    request: Mapping[str, Any]
    reply: Mapping[str, Any]


async def find_fork_point(archive: Archive, wanted: str, turn: int | str | None) -> ForkPoint:
    """The last complete reply up to a turn of a session's main branch, of the branch that the client calls ``wanted``,
    or up to a checkpoint; None: the last of all.

    Raises NotFound if there is no such turn or no complete reply, or the client gave the session no name;
    ContentForgotten if the content is erased; ContentMissing, LogFailed.
    """
    stream = await sessions.find(archive, wanted)
    recorded = await archive.events.read(stream)
    events = [each.envelope.event for each in recorded]
    started = next(event for event in events if isinstance(event, SessionStarted))
    alias = next((each for each in await archive.directory.aliases(wanted) if each.stream == stream), None)
    if alias is not None:
        name, branch = wanted, alias.branch
    else:
        name = started.external_id
        opened = (each for each in events if isinstance(each, BranchOpened) and each.kind is BranchKind.MAIN)
        branch = next((each.branch for each in opened), "")
    if name.startswith(UNNAMED):
        raise NotFound(f"Session {stream} cannot be continued, because its client gave it no id.")
    history = history_of(str(stream), recorded)
    if isinstance(turn, str):
        began = history.find(branch, turn).began
        name, branch, turn = _name_of(history, began.branch) or name, began.branch, began.turn
    if branch not in history.lines:
        raise NotFound(f"Session {stream} has no agent conversation to fork.")
    if turn is not None:
        history.turn(branch, turn)
    last = history.line(branch).last if turn is None else turn
    dialect = history.dialect_of(branch)
    for attempt, ended in _whole_before(history, branch, last):
        body = await read_reply(archive, stream, attempt)
        reply = json_values.read(body) if body is not None else {}
        if body is not None and not any(map(is_call, dialect.reply_content(reply))):
            request = json_values.read((await rebuild(archive, stream, history, attempt)).body)
            place = attempt.began.turn, ended.message_id or ""
            return ForkPoint(started.client, name, last, *place, dialect, request, reply)
    raise NotFound(f"Session {stream} has no complete reply up to turn {last}, so it cannot be forked there.")


def _name_of(history: History, branch: str) -> str | None:
    """The client's name for the branch in its last request there."""
    spoken = (each.began.speaker for each in reversed(list(history.line(branch).attempts)))
    return next((each.external_id for each in spoken if each is not None), None)


def _whole_before(history: History, branch: str, turn: int) -> Iterator[tuple[Attempt, TurnFinished]]:
    """The turns of a branch up to ``turn``, including its parent's, with complete replies; the last one first."""
    line = history.line(branch)
    for number in range(turn, 0, -1):
        known = number in line.turns or number <= line.inherited
        for attempt in reversed(history.turn(branch, number) if known else ()):
            ended = attempt.ended
            if isinstance(ended, TurnFinished) and is_whole(ended.stop_reason) and ended.message_id:
                yield attempt, ended
