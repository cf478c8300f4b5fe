"""Which objects should leave the window, how far, and why: a value that changes nothing.

Nobody is asked in NORMAL. Above it, ``wishes`` goes through what each zone asks for (``pressure.ASKS``), the best
victims first, until the pressure is off. A victim is what has not been used for long, is out of date, is easily had
again and frees much; what the conversation stands on, what has just been used and what somebody pinned never is one.
What was needed again after it had left is protected for longer each time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from mnemosyne.domain.objects import pressure
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import Supersession
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.kinds import Kind, Role
from mnemosyne.domain.objects.pressure import ASKS, THRESHOLDS, Ask, Thresholds, Window, Zone


@attrs.frozen
class Standing:
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
    """

    turn: int
    message_count: int
    exchange_first_message: int
    last_user_messages: tuple[int, ...]


@attrs.frozen
class Score:
    """How good a victim an object is, the larger the better, and what makes it so: names and shares of the total."""

    total: float
    parts: tuple[tuple[str, float], ...]


@attrs.frozen(kw_only=True)
class Wish:
    """What should be shown of an object, why, and how many tokens that frees."""

    object_id: str
    before: Fidelity
    after: Fidelity
    cause: Cause
    why: str
    tokens_freed: int


RECENT_ROUNDS = 3
"""How many of the current exchange's last rounds are always kept: an assistant's message and what answers it."""

FAULT_PROTECTION = 8
"""For how many turns an object is kept after it was missed; each further time doubles it, up to eight times as much."""

_DOUBLINGS = 3

# The scale of the score is ours: no part was learned. Idle time weighs most, because counting age from the last use
# prevented most faults on recorded sessions; a superseded read alone freed little there, so it weighs less.
_IDLE = 4.0
_IDLE_HALF = 14  # turns: nine of ten quotations of earlier text are younger
_RELEASED = 4.0
_SUPERSEDED = {Supersession.REREAD: 2.0, Supersession.REVISED: 2.0, Supersession.EDITED: 0.5}  # an edit quotes the rest
_SIZE = 1.0
_SIZE_HALF = 2_000  # tokens
_ACCESS = -0.25
_ACCESSES = 4  # more of them say no more
_FAULT = -1.0
_FAULTS = 3
_KIND: Mapping[Kind, float] = {
    Kind.TOOL_RESULT: 1.0,
    Kind.EXTERNAL_REFERENCE: 0.8,
    Kind.FILE_CONTEXT: 0.7,
    Kind.ERROR_CONTEXT: 0.5,
    Kind.DEBUGGING_SESSION: 0.4,
    Kind.CONVERSATION_PHASE: 0.2,
    Kind.PLAN: 0.0,
    Kind.DESIGN_DECISION: 0.0,
}
_ROLE: Mapping[Role, float] = {
    Role.TRANSCRIPT: 0.0,
    Role.DERIVED: -1.0,
    Role.PROCEDURE: -2.0,
    Role.INDEX: -3.0,
    Role.CLAIM: -3.0,
}
# What it takes to have it again: a file is read for nothing, a page may be gone, a sub-agent is dear, and what
# somebody said (no tool at all) will not be said again.
_REFETCH = {
    **dict.fromkeys(("read", "glob", "grep", "ls", "list"), 0.0),
    **dict.fromkeys(("webfetch", "websearch"), -0.7),
    **dict.fromkeys(("task", "agent"), -1.5),
}
_REFETCH_OTHER_TOOL = -0.5
_REFETCH_SPEECH = -1.5


def victim_score(standing: Standing, now: Now) -> Score:
    """How good a victim an object is, part by part. Never rises with use or faults, never falls with idle time."""
    parts = _parts(standing, now.turn)
    return Score(sum(parts), tuple((name, part) for name, part in zip(_PARTS, parts, strict=True) if part))


_PARTS = ("idle", "released", "superseded", "size", "kind", "role", "accesses", "faults", "cost to fetch again")


def _parts(standing: Standing, turn: int) -> tuple[float, ...]:
    each, tokens = standing.object, standing.tokens
    idle = idle_turns(each, turn)
    return (
        _IDLE * idle / (idle + _IDLE_HALF),
        _RELEASED if each.released else 0.0,
        _SUPERSEDED[each.superseded] if each.superseded else 0.0,
        _SIZE * tokens / (tokens + _SIZE_HALF),
        _KIND[each.kind],
        _ROLE[each.role],
        _ACCESS * min(each.accesses, _ACCESSES),
        _FAULT * min(each.faults, _FAULTS),
        _refetch(each.source_tool),
    )


def _refetch(tool: str | None) -> float:
    return _REFETCH_SPEECH if tool is None else _REFETCH.get(tool.lower(), _REFETCH_OTHER_TOOL)


def idle_turns(each: MemoryObject, turn: int) -> int:
    """For how many turns nothing has shown that the object is needed."""
    return max(0, turn - each.last_use)


def is_kept(standing: Standing, now: Now) -> str | None:
    """Why an object must stay as it is; None if it is free to go. Nothing overrules it, an emergency neither."""
    each = standing.object
    if each.is_pinned(now.turn):
        return "pinned"
    recent = max(now.exchange_first_message, now.message_count - 2 * RECENT_ROUNDS)
    if any(place.message >= recent for place in each.places):
        return "in the exchange's recent rounds"
    if any(place.message in now.last_user_messages for place in each.places):
        return "among the user's last messages"
    protected = protected_through(each)
    if protected is not None and now.turn <= protected:
        return "needed again lately"
    return None


def protected_through(each: MemoryObject) -> int | None:
    """The last turn in which an object that faulted is protected; None if it never did, or is not needed any more.

    A released object is free again; of a superseded one, the object in its place is what is needed.
    """
    if each.last_fault is None or each.released or each.superseded_by is not None:
        return None
    return each.last_fault + (FAULT_PROTECTION << min(max(0, each.faults - 1), _DOUBLINGS))


def wishes(
    standings: Iterable[Standing], now: Now, tokens: int, window: Window, thresholds: Thresholds = THRESHOLDS
) -> tuple[Wish, ...]:
    """What should go to which fidelity so that a history of ``tokens`` fits its window with ease, best victims first.

    Each object comes at most once, by one legal step down the ladder, to a rendition that exists and is smaller. More
    tokens in the same window never free less. ``standings`` is not even begun in NORMAL; else each is scored once.
    """
    zone = pressure.zone(tokens, window, thresholds)
    if zone is Zone.NORMAL:
        return ()
    victims = _victims(standings, now)
    wished: dict[str, Wish] = {}
    left = tokens
    for stage in Zone:
        if left < thresholds.begin(stage, window):
            break
        for ask in ASKS[stage]:
            left = _lower(victims, now, stage, ask, left, pressure.goal(stage, window, thresholds), wished)
    return tuple(wished[each.object.id] for each in victims if each.object.id in wished)


def _victims(standings: Iterable[Standing], now: Now) -> list[Standing]:
    """What may go, best victims first; of equal ones the older."""
    free = [each for each in standings if _takes_room(each) and is_kept(each, now) is None]
    free.sort(key=lambda each: (-sum(_parts(each, now.turn)), each.object.places[0], each.object.id))
    return free


def _takes_room(standing: Standing) -> bool:
    """A derived object has no place of its own in the window, and a forgotten one is managed no longer."""
    each = standing.object
    return standing.fidelity is not Fidelity.EVICTED and bool(each.places) and not each.forgotten


def _lower(
    victims: Iterable[Standing], now: Now, stage: Zone, ask: Ask, left: int, goal: int, wished: dict[str, Wish]
) -> int:
    """Do what is asked until no more than ``goal`` tokens are left; returns how many are."""
    for standing in victims:
        if left <= goal:
            break
        if idle_turns(standing.object, now.turn) < ask.idle and not _is_done_with(standing.object):
            continue
        before = wished.get(standing.object.id)
        wish = _wish(standing, now, stage, ask.fidelity)
        freed = before.tokens_freed if before else 0
        if wish is not None and wish.tokens_freed > freed:
            wished[wish.object_id] = wish
            left -= wish.tokens_freed - freed
    return left


def _is_done_with(each: MemoryObject) -> bool:
    """Whether it is known that it is not needed any more, however young it is."""
    return each.released or each.superseded_by is not None


def _wish(standing: Standing, now: Now, stage: Zone, after: Fidelity) -> Wish | None:
    """The wish to lower it so far; None where the ladder has no such step or there is no such rendition."""
    each = standing.object
    cause = Cause.RELEASE if each.released else Cause.PRESSURE
    size = each.tokens_at(after)
    if size is None or not is_legal(standing.fidelity, after, cause):
        return None
    return Wish(
        object_id=each.id,
        before=standing.fidelity,
        after=after,
        cause=cause,
        why=_why(each, now, stage),
        tokens_freed=standing.tokens - size,
    )


def _why(each: MemoryObject, now: Now, stage: Zone) -> str:
    said = [f"unused for {idle_turns(each, now.turn)} turns"]
    if each.released:
        said.append("released")
    if each.superseded:
        said.append(each.superseded.value)
    return f"{stage.name.lower()}: {', '.join(said)}"


# How well it goes


@attrs.frozen
class Refault:
    """A fault in a branch: in which turn, and for what (a file's path, a command, else the object's id)."""

    turn: int
    topic: str


THRASH_TURNS = 5


def thrash_index(refaults: Iterable[Refault], turn: int) -> float:
    """Faults of the last ``THRASH_TURNS`` turns that were not the first for their topic, for each of these turns.

    From 0.5 on the window is too small for its task: every other turn fetches again what had been fetched already.
    """
    topics = Counter(each.topic for each in refaults if turn - THRASH_TURNS < each.turn <= turn)
    return sum(count - 1 for count in topics.values()) / THRASH_TURNS


def refault_distance(left: int, turn: int) -> int:
    """For how many turns an object that left the window in the turn ``left`` was not missed. Short ones say that it
    left too early."""
    return max(0, turn - left)
