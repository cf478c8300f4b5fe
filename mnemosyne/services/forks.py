"""The point at which a client can continue a recorded session under another name."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.session.directory import UNNAMED
from mnemosyne.domain.session.events import BranchKind, TurnFinished
from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.blocks import call_id_of, is_call, is_result
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.reply import is_whole
from mnemosyne.errors import NotFound
from mnemosyne.services import sessions
from mnemosyne.services.contexts import read_reply, rebuild
from mnemosyne.services.sessions import Archive


@attrs.frozen
class ForkPoint:
    """The reply to a ``turn``, by its message id, in the ``client``'s ``session`` (both as the log names them).
    ``wanted`` is the requested turn, or a later one without a complete reply or with unanswered calls.

    ``request`` is the client's request, ``reply`` the reply as it saw it, in the client's own ``dialect``. ``calls``
    are the ids of the reply's calls, ``results`` the elements of the next request that answer them.

    ``reached`` is the time, in µs of UTC, at which the files were in their state after the turn: the arrival of the
    next request, or of the turn's own if its reply has no calls. ``stream`` is the session's id in the log.
    """

    client: str
    session: str
    wanted: int
    turn: int
    message_id: str
    dialect: Dialect
    request: Mapping[str, Any]
    reply: Mapping[str, Any]
    stream: UUID
    reached: int
    calls: tuple[str, ...] = ()
    results: tuple[Mapping[str, Any], ...] = ()


@attrs.frozen
class RecordedLine:
    """A conversation of the session ``stream``: its ``branch``, and the client's ``name`` for it."""

    stream: UUID
    history: History
    name: str
    branch: str

    @property
    def client(self) -> str:
        """The client of the session."""
        return self.history.started.client if self.history.started is not None else ""


async def find_line(archive: Archive, wanted: str, branch: str | None = None) -> RecordedLine:
    """The conversation that a person means: this branch, by default the one that the client calls ``wanted``, or the
    session's main one (``""`` without any). Raises NotFound.
    """
    stream, history = await sessions.read_history(archive, wanted)
    alias = next((each for each in await archive.directory.aliases(wanted) if each.stream == stream), None)
    if branch is None and alias is not None:
        return RecordedLine(stream, history, wanted, alias.branch)
    main = next((line.name for line in history.lines.values() if line.opened.kind is BranchKind.MAIN), "")
    own = history.started.external_id if history.started is not None else ""
    name = own if branch is None else name_of(history, branch) or own
    return RecordedLine(stream, history, name, main if branch is None else branch)


def name_of(history: History, branch: str) -> str | None:
    """The client's name for the branch in its last request there. Raises NotFound."""
    spoken = (each.began.speaker for each in reversed(list(history.line(branch).attempts)))
    return next((each.external_id for each in spoken if each is not None), None)


async def find_fork_point(archive: Archive, wanted: str, at: int | str | None, branch: str | None = None) -> ForkPoint:
    """The last complete reply whose calls are answered: up to a turn, up to a checkpoint's turn, or the reply with the
    call of this id; None: the last of all. It is looked for on ``branch``, by default on the one that the client calls
    ``wanted``, or the main one.

    Raises NotFound if there is no such turn, call or reply, or the client gave the session no name; ContentForgotten if
    the content is erased; ContentMissing, LogFailed.
    """
    line = await find_line(archive, wanted, branch)
    stream, history, name, branch = attrs.astuple(line, recurse=False)
    if name.startswith(UNNAMED):
        raise NotFound(f"Session {stream} cannot be continued, because its client gave it no id.")
    call = at if isinstance(at, str) and at.partition("/")[0] not in history.checkpoints else None
    if isinstance(at, str) and call is None:
        began = history.find(branch, at).began
        name, branch, at = name_of(history, began.branch) or name, began.branch, began.turn
    if branch not in history.lines:
        raise NotFound(f"Session {stream} has no agent conversation to fork.")
    last = at if isinstance(at, int) else history.line(branch).last
    if isinstance(at, int):
        history.turn(branch, at)
    dialect = history.dialect_of(branch)
    for attempt, ended in _list_finished(history, branch, last):
        body = await read_reply(archive, stream, attempt)
        reply = json_values.read(body) if body is not None else {}
        calls = tuple(str(block.get("id")) for block in dialect.reply_content(reply) if is_call(block))
        if body is None or (call is not None and call not in calls):
            continue
        results, reached = await _read_results(archive, stream, history, branch, attempt, calls)
        if results if calls else is_whole(ended.stop_reason):
            request = json_values.read((await rebuild(archive, stream, history, attempt)).body)
            turn = attempt.began.turn
            place = last if call is None else turn, turn, ended.message_id or ""
            return ForkPoint(line.client, name, *place, dialect, request, reply, stream, reached, calls, results)
        if call is not None:
            raise NotFound(f"Session {stream} has no result for each call of the reply that contains {call}.")
    if call is not None:
        there = f"its checkpoints: {', '.join(history.checkpoints)}" if history.checkpoints else "it has none"
        raise NotFound(
            f"Session {stream} has no checkpoint {call!r} ({there}), and branch {branch} no call with this id."
        )
    raise NotFound(f"Session {stream} has no complete reply up to turn {last}, so it cannot be forked there.")


async def _read_results(
    archive: Archive, stream: UUID, history: History, branch: str, attempt: Attempt, calls: Collection[str]
) -> tuple[tuple[Mapping[str, Any], ...], int]:
    """The elements that answer these calls of a reply, in the next request on the branch or its parent, and the time of
    that request; no elements, and the attempt's time, unless all calls are answered.
    """
    dialect, turn = history.dialect_of(branch), attempt.began.turn + 1
    lines = [history.line(each) for each in dict.fromkeys((branch, attempt.began.branch))]
    for following in (each for line in lines if calls for each in line.turns.get(turn, ())):
        request = json_values.read((await rebuild(archive, stream, history, following)).body)
        found = [
            (element, answered)
            for element in request.get(dialect.array, ())[attempt.messages :]
            if (answered := _answers(dialect.read_message(element)) & {*calls})
        ]
        if {*calls} == {each for _, answered in found for each in answered}:
            return tuple(_results_only(element) for element, _ in found), following.began.at
    return (), attempt.began.at


def _answers(message: Mapping[str, Any]) -> set[str | None]:
    """The ids of the calls that a message answers."""
    return {call_id_of(block) for block in content_blocks(message.get("content")) if is_result(block)}


def _results_only(element: Mapping[str, Any]) -> Mapping[str, Any]:
    """A request's element without the additions of the user or the client to the results."""
    results = [block for block in content_blocks(element.get("content")) if is_result(block)]
    return {**element, "content": results} if results else element


def _list_finished(history: History, branch: str, turn: int) -> Iterator[tuple[Attempt, TurnFinished]]:
    """The turns of a branch up to ``turn``, including its parent's, whose replies ended; the last one first."""
    line = history.line(branch)
    for number in range(turn, 0, -1):
        known = number in line.turns or number <= line.inherited
        for attempt in reversed(history.turn(branch, number) if known else ()):
            ended = attempt.ended
            if isinstance(ended, TurnFinished) and ended.message_id:
                yield attempt, ended
