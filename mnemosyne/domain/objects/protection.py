"""Which objects must stay as a branch shows them, whoever would have them go and however full the window is.

What the conversation stands on, the operator's words before all, what has just been used, the plan that is being
followed and what somebody pinned stays. What was needed again after it had left is protected for longer each time.
"""

from collections.abc import Sequence

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.followed_plan import LARGEST
from mnemosyne.domain.objects.kinds import REFERENCED, is_operators


@attrs.frozen
class Resident:
    """An object, and at which fidelity the branch shows it."""

    object: MemoryObject
    fidelity: Fidelity

    @property
    def tokens(self) -> int:
        """How many tokens it takes now; 0 where it has no such rendition."""
        return self.object.tokens_at(self.fidelity) or 0


@attrs.frozen(kw_only=True)
class Now:
    """Where a branch's conversation stands.

    ``turn`` is the one that is being prepared and ``message_count`` the length of its history. The current exchange
    begins with the message ``exchange_first_message``; ``last_user_messages`` are those that the user typed last.
    ``plan`` are the objects that hold the plan that is being followed (``followed_plan.find_followed_plan``).
    """

    turn: int
    message_count: int
    exchange_first_message: int
    last_user_messages: tuple[int, ...]
    plan: frozenset[str] = frozenset()


RECENT_ROUNDS = 3
"""How many of the current exchange's last rounds are always kept: an assistant's message and what answers it."""

FAULT_PROTECTION = 8
"""For how many turns an object is kept after it was missed; each further time doubles it, up to eight times as much."""

_DOUBLINGS = 3


def idle_turns(each: MemoryObject, turn: int) -> int:
    """For how many turns nothing has shown that the object is needed."""
    return max(0, turn - each.last_use)


def is_kept(standing: Resident, now: Now) -> str | None:
    """Why an object must stay as it is; None if it is free to go. Nothing overrules it, an emergency neither."""
    each = standing.object
    if is_operators(each.tags):
        return "the operator's words"
    if each.is_pinned(now.turn):
        return "pinned"
    if REFERENCED in each.tags:
        return "known to the provider by a reference"
    if each.id in now.plan and each.tokens <= LARGEST:
        return "part of the plan that is being followed"
    recent = why_recent(each.places, now)
    if recent is not None:
        return recent
    protected = last_protected_turn(each)
    if protected is not None and now.turn <= protected:
        return "needed again lately"
    return None


def why_recent(places: Sequence[BlockPlace], now: Now) -> str | None:
    """Why what stands at these places is too new to go; None if it is not."""
    recent = max(now.exchange_first_message, now.message_count - 2 * RECENT_ROUNDS)
    for place in places:
        if place.message >= recent:
            return "in the exchange's recent rounds"
    for place in places:
        if place.message in now.last_user_messages:
            return "among the user's last messages"
    return None


def last_protected_turn(each: MemoryObject) -> int | None:
    """The last turn in which an object that faulted is protected; None if it never did, or is not needed any more.

    A released object is free again; of a superseded one, the object in its place is what is needed.
    """
    if each.last_fault is None or each.released or each.superseded_by is not None:
        return None
    return each.last_fault + (FAULT_PROTECTION << min(max(0, each.faults - 1), _DOUBLINGS))
