"""What a call of a memory tool may do: a decision on what the branch shows, and the events that it leads to.

Ids are the branch's own, or of the windows that it succeeds, or they are unknown: nothing is told of another session's
objects, nor of another branch's.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Fault, Release, Restore, decide_all
from mnemosyne.domain.objects.events import FaultKind, ObjectEvent
from mnemosyne.domain.objects.faults import LIMITS, EvictionTurns, FaultLimits, Spent
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.followed_plan import find_followed_plan
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.kinds import UNCHANGED
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.protection import Now, Resident, is_kept
from mnemosyne.domain.session.counted_sizes import ESTIMATED, Scales, size_object
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.text.stubs import plain, render_types
from mnemosyne.domain.tools import tool_paging
from mnemosyne.domain.tools.memory_tools import (
    LEAST_ANSWER,
    LONGEST_REASON,
    QUERY,
    SEARCH,
    MemoryQuery,
    MemoryRelease,
    MemoryRestore,
    MemoryTool,
    RefusedCall,
)


def is_all_shown(memory: Memory, branch: str) -> bool:
    """Whether a branch shows all that it could ask about, in full: nothing has left it, and no window came before."""
    return all(fidelity is Fidelity.FULL for _, fidelity in memory.within_reach(branch))


@attrs.frozen
class AttachedSize:
    """An image or document that belongs to an object: its type, and about how many tokens it has."""

    type: str
    tokens: int


@attrs.frozen(kw_only=True)
class GrantedRestore:
    """An object is to be shown again, at the end of the window: at ``after``, where it stood at ``before``; or, where
    ``part`` is the number of one of its images and documents, that one alone, and the object stays where it stands.
    """

    object: MemoryObject
    before: Fidelity
    after: Fidelity
    tokens: int
    reason: str
    part: int | None = None

    def within(
        self, spent: Spent, limits: FaultLimits, attached: Sequence[AttachedSize] = (), part: int | None = None
    ) -> "GrantedRestore | RefusedCall":
        """The same with what is attached to it, where a turn that had ``spent`` has room for all of it; or one ``part``
        of that alone.
        """
        left = max(0, limits.tokens - spent.tokens)
        if part is not None:
            return self._choose(part, attached, left)
        tokens = self.tokens + sum(each.tokens for each in attached)
        if tokens > left:
            return RefusedCall(_too_large(self, attached, left))
        return attrs.evolve(self, tokens=tokens)

    def _choose(self, number: int, attached: Sequence[AttachedSize], left: int) -> "GrantedRestore | RefusedCall":
        name = _name_part(self.object, number)
        if not 0 < number <= len(attached):
            types = render_types([each.type for each in attached]) or "no images or documents"
            return RefusedCall(f"There is no {name}: {MARK}{self.object.id} holds {types}.")
        tokens = attached[number - 1].tokens
        if tokens > left:
            later = "Restore it in a later turn, or look" if tokens <= LIMITS.tokens else "Look"
            return RefusedCall(
                f"{name} has about {tokens:,} tokens, and in this turn no more than {left:,} may still come back."
                f" {later} at the source again."
            )
        return attrs.evolve(self, tokens=tokens, part=number)

    def events(
        self, memory: Memory, *, at: int, branch: str, turn: int, left: int | None, latency: int
    ) -> tuple[ObjectEvent, ...]:
        """What happened, once it was done; ``left`` is ``EvictionTurns.find_turn`` of the object."""
        fault = Fault(
            at=at,
            object=self.object.id,
            branch=branch,
            turn=turn,
            left=left,
            kind=FaultKind.EXPLICIT,
            reason=self.reason,
            tokens=self.tokens,
            latency=latency,
        )
        memory = attrs.evolve(memory, objects={**memory.objects, self.object.id: self.object})
        if self.part is not None:
            return decide_all((fault,), memory)[0]
        shown = Restore(at=at, object=fault.object, branch=branch, turn=turn, after=self.after, cause=Cause.FAULT)
        return decide_all((fault, shown), memory)[0]


def restore(
    memory: Memory,
    branch: str,
    call: MemoryRestore,
    spent: Spent,
    limits: FaultLimits = LIMITS,
    *,
    scales: Scales = ESTIMATED,
) -> GrantedRestore | RefusedCall:
    """Whether an object may be shown again, and a turn has room for its words."""
    found = grant_restore(memory, branch, call, spent, limits, scales=scales)
    return found if isinstance(found, RefusedCall) else found.within(spent, limits)


def grant_restore(
    memory: Memory,
    branch: str,
    call: MemoryRestore,
    spent: Spent,
    limits: FaultLimits = LIMITS,
    *,
    scales: Scales = ESTIMATED,
) -> GrantedRestore | RefusedCall:
    """Whether an object may be shown again, if there is room for it (``GrantedRestore.within``). What is not there at
    the fidelity asked for is shown at the next fuller one that is. An object in full is never restored: the model sees
    it already. The object is granted, and charged, with its sizes by the ``scales``.
    """
    each = own(memory, branch, call.object_id)
    if isinstance(each, RefusedCall):
        return each
    if UNCHANGED in each.tags:
        return RefusedCall(
            f"{MARK}{each.id} says only that a file had not changed, and the content that this refers to is not on"
            " record. Print the file with a command."
        )
    each = size_object(each, scales)
    before = memory.view_of(branch).fidelity_of(each.id)
    if before is Fidelity.FULL:
        return RefusedCall(f"{MARK}{each.id} is in your context in full, since turn {each.last_turn}. Look there.")
    after = max(fidelity for fidelity in Fidelity if fidelity <= call.target and each.tokens_at(fidelity) is not None)
    if not is_legal(before, after, Cause.FAULT):
        return RefusedCall(f"{MARK}{each.id} stands at {before.label} already; target L0 shows all of it.")
    if spent.faults >= limits.faults:
        return RefusedCall(f"{limits.faults} {_USED_UP}")
    tokens = each.tokens_at(after) or 0
    return GrantedRestore(object=each, before=before, after=after, tokens=tokens, reason=call.reason)


_USED_UP = "objects or answers were brought back in this turn, and no more may be. Go on with what you have."


def _too_large(granted: GrantedRestore, attached: Sequence[AttachedSize], left: int) -> str:
    """Why it cannot come back, and what can be done instead: of images and documents no question finds a word."""
    of_them = sum(each.tokens for each in attached)
    whole = granted.tokens + of_them
    counted = f", {of_them:,} of them of its {render_types([each.type for each in attached])}" if attached else ""
    return (
        f"{MARK}{granted.object.id} has about {whole:,} tokens at {granted.after.label}{counted}, and in this turn no"
        f" more than {left:,} may still come back. {' '.join(_list_instead(granted, attached, left))}"
    )


def _list_instead(granted: GrantedRestore, attached: Sequence[AttachedSize], left: int) -> Iterator[str]:
    smaller = [
        f"{fidelity.label} ({size:,} tokens)"
        for fidelity in Fidelity
        if fidelity > granted.after and is_legal(granted.before, fidelity, Cause.FAULT)
        for size in [granted.object.tokens_at(fidelity)]
        if size is not None and size <= left
    ]
    has_words = granted.tokens > sum(each.tokens for each in attached)
    if smaller and has_words:
        yield f"Restore it with target {smaller[0]}, or ask about it with {QUERY}."
    elif smaller:
        yield f"Restore it with target {smaller[0]}."
    elif has_words:
        yield f"Ask about it with {QUERY}."
    single = [
        f"{_name_part(granted.object, number)} ({each.type}, {each.tokens:,} tokens)"
        for number, each in enumerate(attached, 1)
        if each.tokens <= left
    ]
    if single:
        more = f", and {len(single) - _MOST_PARTS} more" if len(single) > _MOST_PARTS else ""
        yield f"Restore one alone, of these in the order in which they came: {', '.join(single[:_MOST_PARTS])}{more}."
    if attached:
        yield f"{'Or look' if single else 'Look'} at the source again: what they show is not known here."


_MOST_PARTS = 10
"""Images and documents that are named one by one."""


def _name_part(each: MemoryObject, number: int) -> str:
    return f"{MARK}{each.id}.{number}"


def answer_tokens(call: MemoryQuery, spent: Spent, limits: FaultLimits = LIMITS) -> int | RefusedCall:
    """How many tokens the answer to a question may have."""
    if spent.faults >= limits.faults:
        return RefusedCall(f"{limits.faults} {_USED_UP}")
    left = limits.tokens - spent.tokens
    if left < LEAST_ANSWER:
        return RefusedCall(f"{limits.tokens:,} tokens {_USED_UP.replace('objects or answers ', '')}")
    return min(call.max_tokens, left)


def answer(
    memory: Memory,
    branch: str,
    call: MemoryQuery,
    cited: Iterable[tuple[str, int]],
    eviction_turns: EvictionTurns,
    *,
    at: int,
    turn: int,
    latency: int,
) -> tuple[ObjectEvent, ...]:
    """What happened when a question was answered from objects, each with the tokens that were quoted of it: a fault of
    each that the branch does not show in full. It stays where it is.
    """
    quoted: dict[str, int] = {}
    for object_id, tokens in cited:
        quoted[object_id] = quoted.get(object_id, 0) + tokens
    faults = (
        Fault(
            at=at,
            object=object_id,
            branch=branch,
            turn=turn,
            left=eviction_turns.find_turn(branch, object_id),
            kind=FaultKind.MICRO,
            reason=plain(call.question, LONGEST_REASON),
            tokens=tokens,
            latency=latency,
        )
        for object_id, tokens in quoted.items()
    )
    return decide_all(faults, memory)[0]


def now_of(state: Session, branch: str, turn: int) -> Now:
    """Where a branch's conversation stands for what is wanted of its objects in a turn."""
    shown = state.memory.view_of(branch)
    return Now(
        turn=turn,
        message_count=state.branches[branch].counts[-1],
        exchange_first_message=shown.typed[-1] if shown.typed else 0,
        last_user_messages=shown.typed,
        plan=find_followed_plan(each for each, _ in state.memory.standings(branch)),
    )


@attrs.frozen
class GrantedRelease:
    """What the model lets go: the objects, which go when the window is next made smaller, and why others stay."""

    released: tuple[MemoryObject, ...]
    kept: tuple[tuple[str, str], ...]
    reason: str

    def events(self, memory: Memory, *, at: int, branch: str, turn: int) -> tuple[ObjectEvent, ...]:
        """What happened."""
        releases = (
            Release(at=at, object=each.id, branch=branch, turn=turn, reason=self.reason) for each in self.released
        )
        return decide_all(releases, memory)[0]


def release(memory: Memory, branch: str, now: Now, call: MemoryRelease) -> GrantedRelease:
    """Which of the objects may go. What is pinned, among the last rounds or what the user said last may not."""
    released: list[MemoryObject] = []
    kept: list[tuple[str, str]] = []
    for object_id in call.object_ids:
        each = own(memory, branch, object_id)
        if isinstance(each, RefusedCall):
            kept.append((object_id, each.text))
            continue
        why = _why_it_stays(each, memory.view_of(branch).fidelity_of(object_id), now)
        if why is None:
            released.append(each)
        else:
            kept.append((object_id, f"{MARK}{object_id} stays: {why}."))
    return GrantedRelease(tuple(released), tuple(kept), call.reason)


def _why_it_stays(each: MemoryObject, fidelity: Fidelity, now: Now) -> str | None:
    if each.released:
        return "it was released before"
    if fidelity >= Fidelity.STUB:
        return f"it stands at {fidelity.label} already"
    # That it was needed lately keeps it only from us: the model knows better.
    return is_kept(Resident(attrs.evolve(each, released=True), fidelity), now)


MOST_NAMED = 20
"""Tools that are named to who asks for one that there is not."""


@attrs.frozen
class Definition:
    """The client's own definition of a tool, as JSON, and about how many tokens it has."""

    tool: str
    text: str
    tokens: int


def definition(
    tools: Mapping[str, str], call: MemoryTool, spent: Spent, limits: FaultLimits = LIMITS
) -> Definition | RefusedCall:
    """The definition of a tool; ``tools`` are those of the client (``tool_paging.definitions``), none where all stand
    in full. It is no fault, so however many were had in a turn: only its tokens count.
    """
    if not tools:
        return RefusedCall("Every tool's definition is in full where your tools are defined. Call the tool.")
    text = tools.get(call.name)
    if text is None:
        names = {name.lower(): name for name in tools}
        near = [names[each] for each in get_close_matches(call.name.lower(), names, 3)]
        meant = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(list(tools)[:MOST_NAMED])}."
        return RefusedCall(f"Your client has no tool {plain(call.name, 80)}. {meant}")
    tokens = tool_paging.tokens(text)
    if spent.tokens + tokens > limits.tokens:
        left = max(0, limits.tokens - spent.tokens)
        return RefusedCall(
            f"The definition of {call.name} has about {tokens:,} tokens, and in this turn no more than {left:,} may"
            " still come back. Do something else first, then ask again."
        )
    return Definition(call.name, text, tokens)


_NEAR = 2
"""In so many letters a mistaken id may differ from the one that was meant."""


def own(memory: Memory, branch: str, object_id: str) -> MemoryObject | RefusedCall:
    """An object of the branch that can be shown; else why not. Nothing is told of what is not the branch's own."""
    own = {each.id for each, _ in memory.within_reach(branch)}
    if object_id not in own:
        near = [each for each in sorted(own) if _is_near(each, object_id)][:3]
        meant = f"Did you mean {', '.join(MARK + each for each in near)}?" if near else f"Find ids with {SEARCH}."
        return RefusedCall(f"There is no object {MARK}{object_id} in this conversation. {meant}")
    each = _follow(memory.objects[object_id], memory, own)
    if each.forgotten:
        return RefusedCall(f"{MARK}{object_id} was forgotten for good, because the user wanted that.")
    if not each.places:
        parts = ", ".join(MARK + link.target for link in each.links if link.target in own) or "none that is left"
        return RefusedCall(f"{MARK}{object_id} takes no room of its own; it was made of others: {parts}. Name those.")
    return each


def _follow(each: MemoryObject, memory: Memory, own: Collection[str]) -> MemoryObject:
    """What is meant by an object: of a read that was answered with a reference, what that refers to."""
    targets = [link.target for link in each.links if link.target in own] if UNCHANGED in each.tags else []
    return memory.objects[targets[0]] if targets else each


def _is_near(one: str, other: str) -> bool:
    return len(one) == len(other) and sum(a != b for a, b in zip(one, other.lower(), strict=True)) <= _NEAR
