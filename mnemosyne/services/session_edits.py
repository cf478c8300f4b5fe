"""A person names, closes or reopens a session, chooses its grounding, or undoes the last change."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from mnemosyne.domain.history.change_actors import Actor, actor_of
from mnemosyne.domain.objects.decide import Pin, Unpin
from mnemosyne.domain.objects.events import ObjectPinned, ObjectUnpinned
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.protection import find_no_room
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decide import EditSession, StartManaging, SwitchManaging
from mnemosyne.domain.session.events import SessionForgotten, TurnBegan
from mnemosyne.domain.session.round_events import ManagingSwitched, SessionEdited
from mnemosyne.domain.session.state import Session
from mnemosyne.errors import BadEntry, ContentForgotten, NotFound
from mnemosyne.services import memories
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.memories import Decided
from mnemosyne.services.sessions import Archive, find_own

LONGEST_TITLE = 100
"""Characters of a session's name."""


async def edit(
    archive: Archive,
    wanted: str,
    *,
    title: str | None = None,
    closed: bool | None = None,
    grounding: str | None = None,
    stamp: WriteStamp,
) -> tuple[UUID, bool]:
    """Edit a session; None leaves a value as it is. ``title``: empty if it has none of its own. ``closed``: until its
    next turn. ``grounding``: of its next requests, empty for the server's. Return its id, and whether anything changed.
    Raises NotFound, ContentForgotten, and BadEntry for a name that is too long.
    """
    line = None if title is None else " ".join(sanitize.text(title).split())
    if line is not None and len(line) > LONGEST_TITLE:
        raise BadEntry(f"A session's name has at most {LONGEST_TITLE} characters, not {len(line)}.")
    stream = await find_own(archive, wanted)
    recorded = await archive.events.select(stream, {SessionForgotten, TurnBegan})
    if recorded and isinstance(recorded[-1].envelope.event, SessionForgotten):
        raise ContentForgotten(f"Session {stream} was forgotten: it has no name any more.")
    command = EditSession(at=stamp.at, title=line, closed=closed, grounding=grounding)
    return stream, bool(await memories.decide(archive, stream, lambda _: command, stamp.id))


def describe_edit(closed: bool | None, grounding: str | None) -> str:
    """The effect of an edit: the session was closed or reopened, its grounding chosen, or else its name changed."""
    if grounding is not None:
        return f"grounding: {grounding or 'as the server'}"
    return {True: "closed", False: "opened", None: "renamed"}[closed]


async def undo(archive: Archive, wanted: str, stamp: WriteStamp) -> tuple[UUID, str]:
    """Undo the last change of a session's name, closing, grounding, managing or pins; a second call redoes it. Return
    the session's id and the name of the change, empty if that has been undone already. Raises NotFound, and BadEntry
    if a pin has no room any more.
    """
    stream = await find_own(archive, wanted)
    events = await archive.events.read(stream)
    changes = [each for each in events if isinstance(each.envelope.event, _UNDOABLE) and actor_of(each) is Actor.USER]
    if not changes:
        raise NotFound(f"Session {stream} has no change to undo.")
    last = changes[-1].envelope
    first = next(each for each in changes if each.envelope.correlation_id == last.correlation_id)
    before = memories.fold(events[: events.index(first)])
    now = memories.fold(events)
    commands, what = _invert(last.event, before, now, stamp.at)
    for each in commands:
        if isinstance(each, Pin) and (full := find_no_room(now.memory, each.object, each.branch, now.size)) is not None:
            raise BadEntry(full)
    decided = [await memories.decide(archive, stream, partial(_give, each), stamp.id) for each in commands]
    return stream, what if any(decided) else ""


_UNDOABLE = (SessionEdited, ManagingSwitched, ObjectPinned, ObjectUnpinned)


def _give(command: Decided, _: Session) -> Decided:
    return command


def _invert(event: object, before: Session, now: Session, at: int) -> tuple[Sequence[Decided], str]:
    """The commands that restore the state ``before`` a change, and the name of the change."""
    match event:
        case SessionEdited():
            old = {name: getattr(before, name) for name in _EDITED if getattr(event, name) is not None}
            return [EditSession(at=at, **old)], describe_edit(event.closed, event.grounding)
        case ManagingSwitched():
            states = {True: "managing on", False: "managing off", None: "managing as the server"}
            return _switch_to(before.switched, at), states[now.switched]
        case ObjectPinned() | ObjectUnpinned():
            commands: list[Pin | Unpin] = [Unpin(at=at, object=event.object, branch=None, reason=_UNDONE)]
            for branch, pin in before.memory.pins_of(event.object).items():
                place: dict[str, Any] = {"at": at, "object": event.object, "branch": branch or None}
                if pin is None:
                    commands.append(Unpin(**place, reason=_UNDONE))
                else:
                    commands.append(Pin(**place, reason=pin.reason, until_turn=pin.until_turn))
            return commands, f"{'pin' if isinstance(event, ObjectPinned) else 'unpin'} {MARK}{event.object}"
        case _:
            raise AssertionError(event)


def _switch_to(switched: bool | None, at: int) -> Sequence[Decided]:
    """The commands after which managing is switched on, off, or as the server is set."""
    why = "the last change was undone"
    if switched:
        return [StartManaging(at=at, why=why)]
    off, as_set = (SwitchManaging(at=at, on=on, why=why) for on in (False, True))
    return [off] if switched is False else [off, as_set]


_EDITED = ("title", "closed", "grounding")
_UNDONE = "undone"


async def read_grounding(archive: Archive, stream: UUID) -> str:
    """The grounding that a person chose for a session; empty for the server's."""
    edits = [each.envelope.event for each in await archive.events.select(stream, {SessionEdited})]
    chosen = [each.grounding for each in edits if isinstance(each, SessionEdited) and each.grounding is not None]
    return chosen[-1] if chosen else ""
