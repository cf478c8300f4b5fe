"""A person's pins, releases and restores of objects."""

from collections.abc import Callable
from uuid import UUID

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Pin, Release, Request, Unpin
from mnemosyne.domain.objects.faults import RecallBudget
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.lookup import bare, living
from mnemosyne.domain.objects.protection import find_no_room
from mnemosyne.domain.recall import memory_calls
from mnemosyne.domain.recall.memory_calls import GrantedRestore
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.tools.memory_tools import MemoryRelease, MemoryRestore, RefusedCall
from mnemosyne.errors import BadEntry, NotFound
from mnemosyne.services import memories
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.memories import Decided
from mnemosyne.services.sessions import Archive


@attrs.frozen(kw_only=True)
class Pinning:
    """The result of a decision: ``recorded`` is False if it changed nothing."""

    stream: UUID
    object: str
    recorded: bool


async def pin(
    archive: Archive,
    object_id: str,
    *,
    session: str | None = None,
    branch: str | None = None,
    reason: str,
    turns: int | None = None,
    stamp: WriteStamp,
) -> Pinning:
    """Keep an object at its fidelity in a ``branch`` or in every one, permanently or for ``turns`` turns of that branch
    (of its own for every one) from now. Raises NotFound, and BadEntry if pins would hold too much of a window.
    """

    def command(state: Session) -> Pin:
        found = living(state.memory, object_id)
        last = _count_turns(state, branch or found.branch)
        _check_reach(state, branch, found)
        if (full := find_no_room(state.memory, found.id, branch, state.size)) is not None:
            raise BadEntry(full)
        until = None if turns is None else last + turns
        return Pin(at=stamp.at, object=found.id, branch=branch, reason=reason, until_turn=until)

    return await _decide(archive, object_id, session, command, stamp)


async def unpin(
    archive: Archive,
    object_id: str,
    *,
    session: str | None = None,
    branch: str | None = None,
    reason: str,
    stamp: WriteStamp,
) -> Pinning:
    """Unpin an object in a ``branch`` or in every one. Raises NotFound."""

    def command(state: Session) -> Unpin:
        found = living(state.memory, object_id)
        _check_reach(state, branch, found)
        return Unpin(at=stamp.at, object=found.id, branch=branch, reason=reason)

    return await _decide(archive, object_id, session, command, stamp)


async def release(
    archive: Archive, object_id: str, *, session: str, branch: str, reason: str, stamp: WriteStamp
) -> Pinning:
    """Let a branch evict an object at its next compaction, by the rules of the model's own release. Raises NotFound,
    and BadEntry if the object must stay.
    """

    def command(state: Session) -> Release:
        each = state.memory.view_of(branch).own(living(state.memory, object_id))
        if not each.released and (why := explain_retention(state, branch, each)) is not None:
            raise BadEntry(why)
        return Release(at=stamp.at, object=each.id, branch=branch, turn=_count_turns(state, branch), reason=reason)

    return await _decide(archive, object_id, session, command, stamp)


async def restore(
    archive: Archive, object_id: str, *, session: str, branch: str, reason: str, stamp: WriteStamp
) -> Pinning:
    """Show an object again in a branch's next request, at the fidelity at which the model itself could restore it.
    Raises NotFound, and BadEntry if it cannot be restored.
    """

    def command(state: Session) -> Request:
        each = living(state.memory, object_id)
        granted = find_restorable(state, branch, each)
        if isinstance(granted, RefusedCall):
            raise BadEntry(granted.text)
        turn = _count_turns(state, branch)
        return Request(at=stamp.at, object=each.id, branch=branch, turn=turn, after=granted.after, reason=reason)

    return await _decide(archive, object_id, session, command, stamp)


async def _decide(
    archive: Archive, object_id: str, session: str | None, command: Callable[[Session], Decided], stamp: WriteStamp
) -> Pinning:
    found = await memories.find(archive, object_id, session)
    decided = await memories.decide(archive, found.stream, command, stamp.id)
    return Pinning(stream=found.stream, object=bare(object_id), recorded=bool(decided))


def explain_retention(state: Session, branch: str, each: MemoryObject) -> str | None:
    """Why a branch may not evict an object; None if it may. Raises NotFound for an unknown branch."""
    now = memory_calls.now_of(state, branch, _count_turns(state, branch))
    released = memory_calls.release(state.memory, branch, now, MemoryRelease((each.id,), ""))
    return None if released.released else released.kept[0][1]


def find_restorable(state: Session, branch: str, each: MemoryObject) -> GrantedRestore | RefusedCall:
    """The restore at the fullest fidelity that a branch may have; otherwise the refusal of the full one."""
    calls = (MemoryRestore(each.id, after, "") for after in (Fidelity.FULL, Fidelity.DETAILED, Fidelity.COMPACT))
    scales = state.stated_scales
    answers = [memory_calls.restore(state.memory, branch, call, RecallBudget(), scales=scales) for call in calls]
    return next((answer for answer in answers if isinstance(answer, GrantedRestore)), answers[0])


def _check_reach(state: Session, branch: str | None, found: MemoryObject) -> None:
    if branch is not None and all(each.id != found.id for each, _ in state.memory.within_reach(branch)):
        raise NotFound(f"Branch {branch} has no object {found.id}.")


def _count_turns(state: Session, branch: str) -> int:
    if branch not in state.branches:
        raise NotFound(f"The session has no branch {branch!r}.")
    return state.branches[branch].turns
