"""Decisions on calls of the memory tools: whether a call is allowed, and the events that it leads to.

A valid id belongs to the branch itself or to a window that it succeeds. Any other id is unknown: results reveal nothing
about objects of other sessions or branches.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

import attrs

from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.decide import Fault, Release, Restore, decide_all
from mnemosyne.domain.objects.events import FaultKind, FaultReason, ObjectEvent
from mnemosyne.domain.objects.faults import LIMITS, EvictionTurns, RecallBudget
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
    ANSWER_TOKENS,
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
    """Whether a branch shows everything that it could query, in full: nothing is evicted, and there is no earlier
    window.
    """
    return all(fidelity is Fidelity.FULL for _, fidelity in memory.within_reach(branch))


@attrs.frozen
class AttachedSize:
    """An image or document of an object: its type and its estimated tokens."""

    type: str
    tokens: int


@attrs.frozen(kw_only=True)
class GrantedRestore:
    """An object to be restored at the end of the window, from fidelity ``before`` to ``after``. If ``part`` is the
    number of one of its images and documents, only that one is restored, and the object keeps its fidelity.
    """

    object: MemoryObject
    before: Fidelity
    after: Fidelity
    tokens: int
    reason: str
    part: int | None = None

    def within(
        self, budget: RecallBudget, attached: Sequence[AttachedSize] = (), part: int | None = None
    ) -> "GrantedRestore | RefusedCall":
        """The restore including all attachments, or only attachment number ``part``; refused if the turn's
        ``budget`` is too small for it.
        """
        remaining = budget.tokens_left
        if part is not None:
            return self._choose(part, attached, remaining)
        tokens = _count_whole(self, attached)
        if tokens > remaining:
            return RefusedCall(_too_large(self, attached, remaining))
        return attrs.evolve(self, tokens=tokens)

    def _choose(self, number: int, attached: Sequence[AttachedSize], remaining: int) -> "GrantedRestore | RefusedCall":
        name = _name_part(self.object, number)
        if not 0 < number <= len(attached):
            types = render_types([attachment.type for attachment in attached]) or "no images or documents"
            return RefusedCall(f"There is no {name}: {MARK}{self.object.id} holds {types}.")
        tokens = attached[number - 1].tokens
        if tokens > remaining:
            later = "Restore it in a later turn, or look" if tokens <= LIMITS.tokens else "Look"
            return RefusedCall(
                f"{name} has about {tokens:,} tokens, and in this turn no more than {remaining:,} may still come back."
                f" {later} at the source again."
            )
        return attrs.evolve(self, tokens=tokens, part=number)

    def events(
        self,
        memory: Memory,
        *,
        at: int,
        branch: str,
        turn: int,
        left: int | None,
        latency: int,
        why: FaultReason = FaultReason.REFERENCE,
    ) -> tuple[ObjectEvent, ...]:
        """The events of the completed restore; ``left`` is ``EvictionTurns.find_turn`` of the object."""
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
            why=why,
        )
        memory = attrs.evolve(memory, objects={**memory.objects, self.object.id: self.object})
        if self.part is not None:
            return decide_all((fault,), memory)[0]
        shown = Restore(at=at, object=fault.object, branch=branch, turn=turn, after=self.after, cause=Cause.FAULT)
        return decide_all((fault, shown), memory)[0]


def restore(
    memory: Memory, branch: str, call: MemoryRestore, budget: RecallBudget, *, scales: Scales = ESTIMATED
) -> GrantedRestore | RefusedCall:
    """Whether an object may be restored and the turn has room for its text."""
    granted = grant_restore(memory, branch, call, budget, scales=scales)
    return granted if isinstance(granted, RefusedCall) else granted.within(budget)


def grant_restore(
    memory: Memory, branch: str, call: MemoryRestore, budget: RecallBudget, *, scales: Scales = ESTIMATED
) -> GrantedRestore | RefusedCall:
    """Whether an object may be restored if there is room for it (``GrantedRestore.within``). If there is no rendition
    at the requested fidelity, the next fuller one is used. An object in full is never restored, because the model
    already sees it. Its sizes, also those charged, are scaled by ``scales``.
    """
    obj = own(memory, branch, call.object_id)
    if isinstance(obj, RefusedCall):
        return obj
    if UNCHANGED in obj.tags:
        return RefusedCall(
            f"{MARK}{obj.id} says only that a file had not changed, and the content that this refers to is not on"
            " record. Print the file with a command."
        )
    obj = size_object(obj, scales)
    before = memory.view_of(branch).fidelity_of(obj.id)
    if before is Fidelity.FULL:
        return RefusedCall(f"{MARK}{obj.id} is in your context in full, since turn {obj.last_turn}. Look there.")
    after = max(fidelity for fidelity in Fidelity if fidelity <= call.target and obj.tokens_at(fidelity) is not None)
    if not is_legal(before, after, Cause.FAULT):
        return RefusedCall(f"{MARK}{obj.id} stands at {before.label} already; target L0 shows all of it.")
    if not budget.faults_left:
        return RefusedCall(f"{budget.limits.faults} {_USED_UP}")
    tokens = obj.tokens_at(after) or 0
    return GrantedRestore(object=obj, before=before, after=after, tokens=tokens, reason=call.reason)


_USED_UP = "objects or answers were brought back in this turn, and no more may be. Go on with what you have."


def _count_whole(granted: GrantedRestore, attached: Sequence[AttachedSize]) -> int:
    """The tokens of a restore. Logs of earlier versions did not count images and documents in an object's tokens."""
    of_them = sum(attachment.tokens for attachment in attached)
    return granted.tokens if granted.tokens >= of_them else granted.tokens + of_them


def _too_large(granted: GrantedRestore, attached: Sequence[AttachedSize], remaining: int) -> str:
    """The text for an object that is too large, with alternatives; a question cannot search images and documents."""
    of_them = sum(attachment.tokens for attachment in attached)
    whole = _count_whole(granted, attached)
    counted = (
        f", {of_them:,} of them of its {render_types([attachment.type for attachment in attached])}" if attached else ""
    )
    return (
        f"{MARK}{granted.object.id} has about {whole:,} tokens at {granted.after.label}{counted}, and in this turn no"
        f" more than {remaining:,} may still come back. {' '.join(_list_instead(granted, attached, remaining))}"
    )


def _list_instead(granted: GrantedRestore, attached: Sequence[AttachedSize], remaining: int) -> Iterator[str]:
    smaller = [
        f"{fidelity.label} ({size:,} tokens)"
        for fidelity in Fidelity
        if fidelity > granted.after and is_legal(granted.before, fidelity, Cause.FAULT)
        for size in [granted.object.tokens_at(fidelity)]
        if size is not None and size <= remaining
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
        if each.tokens <= remaining
    ]
    if single:
        more = f", and {len(single) - _MOST_PARTS} more" if len(single) > _MOST_PARTS else ""
        yield f"Restore one alone, of these in the order in which they came: {', '.join(single[:_MOST_PARTS])}{more}."
    if attached:
        yield f"{'Or look' if single else 'Look'} at the source again: what they show is not known here."


_MOST_PARTS = 10
"""Images and documents that are named individually."""


def _name_part(obj: MemoryObject, number: int) -> str:
    return f"{MARK}{obj.id}.{number}"


def answer_tokens(call: MemoryQuery, budget: RecallBudget) -> int | RefusedCall:
    """The maximum tokens of the answer to a question."""
    if not budget.faults_left:
        return RefusedCall(f"{budget.limits.faults} {_USED_UP}")
    if budget.tokens_left < LEAST_ANSWER:
        return RefusedCall(
            f"{budget.tokens:,} tokens were brought back in this turn, so an answer has no room. Go on without it."
        )
    return min(ANSWER_TOKENS if call.max_tokens is None else call.max_tokens, budget.tokens_left)


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
    why: FaultReason = FaultReason.REFERENCE,
) -> tuple[ObjectEvent, ...]:
    """The events after a question was answered from objects, given the quoted tokens by object id: a fault for each
    object that the branch does not show in full. Its fidelity stays.
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
            why=why,
        )
        for object_id, tokens in quoted.items()
    )
    return decide_all(faults, memory)[0]


def now_of(state: Session, branch: str, turn: int) -> Now:
    """The position of a branch's conversation in a turn."""
    shown = state.memory.view_of(branch)
    return Now(
        turn=turn,
        message_count=state.branches[branch].counts[-1],
        last_user_messages=shown.typed,
        plan=find_followed_plan(each for each, _ in state.memory.standings(branch)),
    )


@attrs.frozen
class GrantedRelease:
    """The objects that the model released, to be evicted by the next rewrite, and the reasons why others stay."""

    released: tuple[MemoryObject, ...]
    kept: tuple[tuple[str, str], ...]
    reason: str

    def events(self, memory: Memory, *, at: int, branch: str, turn: int) -> tuple[ObjectEvent, ...]:
        """The events of this release."""
        releases = (
            Release(at=at, object=each.id, branch=branch, turn=turn, reason=self.reason) for each in self.released
        )
        return decide_all(releases, memory)[0]


def release(memory: Memory, branch: str, now: Now, call: MemoryRelease) -> GrantedRelease:
    """Decide which of the objects are released. Pinned objects, the last rounds, and the user's last messages stay."""
    released: list[MemoryObject] = []
    kept: list[tuple[str, str]] = []
    for object_id in call.object_ids:
        obj = own(memory, branch, object_id)
        if isinstance(obj, RefusedCall):
            kept.append((object_id, obj.text))
            continue
        why = _why_it_stays(obj, memory.view_of(branch).fidelity_of(object_id), now)
        if why is None:
            released.append(obj)
        else:
            kept.append((object_id, f"{MARK}{object_id} stays: {why}."))
    return GrantedRelease(tuple(released), tuple(kept), call.reason)


def _why_it_stays(obj: MemoryObject, fidelity: Fidelity, now: Now) -> str | None:
    if obj.released:
        return "it was released before"
    if fidelity >= Fidelity.STUB:
        return f"it stands at {fidelity.label} already"
    # Protection after a fault does not apply here: the model knows better whether it still needs the object.
    return is_kept(Resident(attrs.evolve(obj, released=True), fidelity), now)


MOST_NAMED = 20
"""Tools that are listed if a call names an unknown one."""


@attrs.frozen
class Definition:
    """The client's own definition of a tool, as JSON, and its estimated tokens."""

    tool: str
    text: str
    tokens: int


def definition(tools: Mapping[str, str], call: MemoryTool, budget: RecallBudget) -> Definition | RefusedCall:
    """The definition of a tool; ``tools`` are the client's (``tool_paging.definitions``), empty if all are sent in
    full. It counts as no fault, so only the turn's token limit applies.
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
    if tokens > budget.tokens_left:
        return RefusedCall(
            f"The definition of {call.name} has about {tokens:,} tokens, and in this turn no more than"
            f" {budget.tokens_left:,} may still come back. Do something else first, then ask again."
        )
    return Definition(call.name, text, tokens)


_NEAR = 2
"""Maximum number of letters by which a mistyped id may differ from the intended one."""


def own(memory: Memory, branch: str, object_id: str) -> MemoryObject | RefusedCall:
    """An object that the branch can show, or the refusal. The refusal reveals nothing about objects outside the
    branch.
    """
    own = {each.id for each, _ in memory.within_reach(branch)}
    if object_id not in own:
        near = [each for each in sorted(own) if _is_near(each, object_id)][:3]
        meant = f"Did you mean {', '.join(MARK + each for each in near)}?" if near else f"Find ids with {SEARCH}."
        return RefusedCall(f"There is no object {MARK}{object_id} in this conversation. {meant}")
    each = _follow(memory.objects[object_id], memory, own)
    if each.forgotten:
        return RefusedCall(f"{MARK}{object_id} was forgotten for good, because the user wanted that.")
    if not each.holds_content:
        parts = ", ".join(MARK + link.target for link in each.links if link.target in own) or "none that is left"
        return RefusedCall(f"{MARK}{object_id} takes no room of its own; it was made of others: {parts}. Name those.")
    return memory.view_of(branch).own(each)


def _follow(obj: MemoryObject, memory: Memory, own: Collection[str]) -> MemoryObject:
    """The target of an object: for a read that the client answered with a reference, the object that it refers to."""
    targets = [link.target for link in obj.links if link.target in own] if UNCHANGED in obj.tags else []
    return memory.objects[targets[0]] if targets else obj


def _is_near(one: str, other: str) -> bool:
    return len(one) == len(other) and sum(a != b for a, b in zip(one, other.lower(), strict=True)) <= _NEAR
