"""Objects that must keep their fidelity, whatever requests their eviction and however full the window is.

Protected are operator text, recently used objects, the plan that is being followed, and pinned objects. An evicted
object that was needed again is protected for longer each time.
"""

from collections.abc import Callable, Sequence
from heapq import nlargest

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.followed_plan import LARGEST
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.kinds import REFERENCED, is_operators
from mnemosyne.domain.objects.memory import Memory


@attrs.frozen
class Resident:
    """An object and the fidelity at which the branch shows it."""

    object: MemoryObject
    fidelity: Fidelity

    @property
    def tokens(self) -> int:
        """Tokens at the current fidelity; 0 if there is no such rendition."""
        return self.object.tokens_at(self.fidelity) or 0


@attrs.frozen(kw_only=True)
class Now:
    """The current position of a branch's conversation.

    ``turn`` is the turn being prepared and ``message_count`` the length of its history. The current exchange begins
    with the last of the ``last_user_messages``, which the user typed. ``plan`` are the ids of the objects that hold the
    followed plan (``followed_plan.find_followed_plan``).
    """

    turn: int
    message_count: int
    last_user_messages: tuple[int, ...]
    plan: frozenset[str] = frozenset()


RECENT_ROUNDS = 3
"""Number of latest rounds in the current exchange that are always kept; a round is an assistant message and its answer.
"""

FAULT_PROTECTION = 8
"""Number of turns that a fault protects an object; each further fault doubles it, up to eight times as long."""

_DOUBLINGS = 3


def idle_turns(obj: MemoryObject, turn: int) -> int:
    """Number of turns without evidence that the object is needed."""
    return max(0, turn - obj.last_use)


def is_kept(resident: Resident, now: Now) -> str | None:
    """The reason why an object must keep its fidelity; None if it can be evicted. Nothing overrides it, not even an
    emergency.
    """
    obj = resident.object
    if is_operators(obj.tags):
        return "the operator's words"
    if obj.is_pinned(now.turn):
        return "pinned"
    if REFERENCED in obj.tags:
        return "known to the provider by a reference"
    if obj.id in now.plan and obj.tokens <= LARGEST:
        return "part of the plan that is being followed"
    recent = why_recent(obj.places, now)
    if recent is not None:
        return recent
    protected = last_protected_turn(obj)
    if protected is not None and now.turn <= protected:
        return "needed again lately"
    return None


def why_recent(places: Sequence[BlockPlace], now: Now) -> str | None:
    """The reason why content at these places is too recent to evict; None if it is not."""
    recent = max((*now.last_user_messages[-1:], now.message_count - 2 * RECENT_ROUNDS))
    for place in places:
        if place.message >= recent:
            return "in the exchange's recent rounds"
    for place in places:
        if place.message in now.last_user_messages:
            return "among the user's last messages"
    return None


def last_protected_turn(obj: MemoryObject) -> int | None:
    """The last turn in which a fault protects the object; None without a fault, or if it is no longer needed.

    A released object loses this protection, and so does a superseded one, because the object that replaced it is
    needed.
    """
    if obj.last_fault is None or obj.released or obj.superseded_by is not None:
        return None
    return obj.last_fault + (FAULT_PROTECTION << min(max(0, obj.faults - 1), _DOUBLINGS))


PINNABLE = 2
"""Pins may take the usable window divided by this, because a compaction can make room only in the rest."""

_NAMED = 5

Sizing = Callable[[MemoryObject], MemoryObject]
"""Returns an object with the sizes, in tokens, that a limit counts."""


def find_no_room(memory: Memory, object_id: str, branch: str | None, size: Sizing) -> str | None:
    """The reason why pinning an object, in a branch or in every one, would leave a compaction too little room; None if
    there is room, or if the object is pinned there already. Each object counts with its size in full according to
    ``size``, because a restore may bring it back in full.
    """
    for name in memory.branches if branch is None else (branch,):
        shown = memory.view_of(name)
        assessed = shown.measure.assessed or memory.last_assessed
        if assessed is None or object_id not in shown.objects:
            continue
        wanted = size(shown.own(memory.objects[object_id]))
        held = [size(each) for each, _ in memory.standings(name) if each.is_pinned(assessed.turn)]
        used, most = sum(each.tokens for each in held), assessed.usable // PINNABLE
        if not wanted.is_pinned(assessed.turn) and used + wanted.tokens > most:
            largest = nlargest(_NAMED, held, key=lambda each: each.tokens)
            holding = ", ".join(f"{MARK}{each.id} ({each.tokens:,})" for each in largest)
            return (
                f"{MARK}{object_id} has about {wanted.tokens:,} tokens. In branch {name}, pins may take {most:,}"
                f" tokens, half of its window; those there take {used:,}{f', the largest: {holding}' if held else ''}."
                f"{' Unpin others first.' if held else ''}"
            )
    return None
