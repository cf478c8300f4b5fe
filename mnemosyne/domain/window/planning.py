"""When to rewrite a context, and to what: a pure function of what the window holds, what it costs and what time it is.

Memory is managed at three moments: at **birth**, when a block is sent for the first time; at the **tail**, where
something is appended; and by an **epoch**, one rewrite of everything older than now, after which the wire history only
grows again. Between epochs nothing changes, because the provider caches and signs the prefix that it was sent.

What to show is a matter of how an agent works, and of what was done to a file since (``keeping``). When to show it is a
matter of money: for next to nothing when the provider's cache has forgotten the session, else when what a rewrite would
have saved since the last one exceeds its price, and then only if that does not make the session dearer than without us.
But before the client would compact, or the prompt be refused, it comes whatever it costs, and leaves no more than can
be paid for. `docs/planning.md` tells what was tried.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.window.keeping import AGES, EDITED, WRITTEN, Ages, Candidate, WindowAges, slow_down
from mnemosyne.domain.window.window_size import WINDOW


@attrs.frozen(kw_only=True)
class CostSoFar:
    """What reads and writes weigh in a unit, and what the session has cost in it so far and would have unmanaged."""

    read: Fraction
    write: Fraction
    billed: Fraction
    shadow: Fraction


@attrs.frozen(kw_only=True)
class Situation:
    """What else a plan depends on.

    ``turn`` is the request that is about to be sent. ``prompt`` is its size if nothing is changed, ``fixed`` the part
    of it that is system prompt and tools, ``new`` the part that no earlier request held. ``idle`` is the time since the
    last request started and ``ttl`` the life of a cache entry, both in µs (``idle`` is None for the first request);
    ``write`` and ``read`` are prices relative to plain input. ``window`` is the most that a prompt should hold,
    ``limit`` the most that it can. ``billed`` and ``shadow`` are what the session has cost so far and
    what it would have cost unmanaged; ``last_epoch`` is the turn of the last rewrite. ``exchange`` is the turn in which
    the user last typed something. ``also`` are other units in which the session must not become dearer either.
    ``joining`` are the tokens of the memory tools where they come into a prompt that was sent without them: then all
    that is in front of the history is written again, too.
    """

    turn: int
    prompt: int
    fixed: int
    new: int
    idle: int | None
    ttl: int
    write: Fraction
    read: Fraction
    window: int
    limit: int
    billed: Fraction
    shadow: Fraction
    last_epoch: int | None
    exchange: int
    also: tuple[CostSoFar, ...] = ()
    joining: int = 0

    @property
    def cold(self) -> bool:
        """Whether the provider's cache has forgotten the session, so that a rewrite costs next to nothing."""
        return self.idle is not None and self.idle >= self.ttl

    def in_each_unit(self) -> Iterator["Situation"]:
        """The same as it is weighed in each unit in which the session must not become dearer."""
        yield self
        for other in self.also:
            yield attrs.evolve(self, **attrs.asdict(other))


@attrs.frozen(kw_only=True)
class Plan:
    """An epoch: the fidelity of each object that changes, why now, what it is expected to cost at once, in input-token
    equivalents, and in how many requests it is expected to have paid (None where that was not the reason).
    """

    fidelities: Mapping[str, Fidelity]
    reason: str
    price: Fraction = Fraction(0)
    payback: int | None = None


@attrs.frozen
class NoRewrite:
    """No epoch before this request, and why not."""

    reason: str


Candidates = Callable[[], Sequence[Candidate]]
"""The objects of the window in their order; made only when somebody asks, because most turns plan nothing."""

Planner = Callable[[Situation, Candidates], Plan | None]
"""An epoch before this request, or none."""

AtBirth = Callable[[Situation, Candidate], Fidelity]
"""The fidelity at which an object is sent for the first time."""


def in_full(situation: Situation, candidate: Candidate) -> Fidelity:
    """The birth rule that changes nothing."""
    return Fidelity.FULL


# The rule


@attrs.frozen(kw_only=True)
class Waiting:
    """How long what an edit may quote stays beyond its age, or as it is. Until so many ``changes`` were made since its
    last use, a file that was read whole ages half as fast (``slow_down``). What an edit took out of a file leaves after
    ``replaced`` turns, and what its result shows around that: it is shown in detail (L1), its new text whole.
    """

    changes: int
    replaced: int


@attrs.frozen(kw_only=True)
class Rule:
    """The numbers of the planner, in turns and tokens. They were chosen on recorded sessions, as `docs/planning.md`
    tells, and are round because nothing finer is known.
    """

    ages: Ages = AGES
    """For how long objects stay without use."""
    waiting: Waiting = Waiting(changes=3, replaced=8)
    """How long what may be edited again waits for that …"""
    waiting_by_the_hour: Waiting = Waiting(changes=0, replaced=3)
    """… and where entries are written for an hour: there each rewrite pays nearly twice for what stays."""
    gathered: int = 30
    """As long as the user's task is under way and nothing was written for it yet, what was read of files for it stays
    for so long: the agent gathers what it will answer from …
    """
    room: Fraction = Fraction(6, 10)
    """… and where the window is nearly full, as much of that, the newest first, as fits into this share of it."""
    missed: int = 8
    """What was missed is protected for so long."""
    regret: Fraction = Fraction(3, 2)
    """A warm rewrite once what it would have saved since the last one is so many times its price."""
    gain: int = 10_000
    """A warm rewrite frees at least so many tokens; in a window smaller than ``WINDOW``, as much less."""
    full: Fraction = Fraction(8, 10)
    """The share of the window from which on a rewrite does not wait for its regret: the client would soon compact …"""
    hurry: int = 2
    """… and drop everything, so it goes deeper: everything is old so many times sooner."""
    overflow: Fraction = Fraction(96, 100)
    """The share of the limit from which on a rewrite happens whatever it costs."""
    reread: int = 3_000
    """Where nothing costs but what is read anew, an overflow leaves so much of the history, if it may: about as much as
    a client's own compaction does.
    """
    told: Fraction = Fraction(1, 10)
    """The share of the window that may be lines which name what left, the newest first; what left before is counted."""
    margin: Fraction = Fraction(102, 100)
    """How much more than unmanaged a session may have cost once a warm rewrite is paid, should it end right then …"""
    soon: int = 3
    """… and in a session that has cost more already, a warm rewrite must have paid after so many requests."""


RULE = Rule()

DEEPER = (4, 8, 16)
"""By so much everything is old sooner where ``Rule.hurry`` makes no room: ages are of large windows, in a small one a
session has less time.
"""

HOUR = Fraction(2)
"""The price of a cache write that is held for an hour, relative to plain input; for five minutes it is 5/4."""


def planner(situation: Situation, candidates: Candidates, rule: Rule = RULE) -> Plan | None:
    """The epoch before a request, if it pays (``plan_epoch``)."""
    found = plan_epoch(situation, candidates, rule)
    return found if isinstance(found, Plan) else None


def plan_epoch(situation: Situation, candidates: Candidates, rule: Rule = RULE) -> Plan | NoRewrite:
    """The epoch before a request if it pays, else why it does not. Whatever the situation, a plan takes only legal
    steps down the ladder, to renditions that exist and are smaller, and never touches what is kept.
    """

    if any(each.write >= HOUR for each in situation.in_each_unit()):
        rule = attrs.evolve(rule, waiting=rule.waiting_by_the_hour)

    def there() -> Sequence[Candidate]:
        return slow_down(candidates(), situation.turn, rule.waiting.changes)

    if situation.idle is None:
        return NoRewrite("nothing was sent yet")
    if situation.prompt > rule.overflow * (situation.window if situation.cold else situation.limit):
        return _overflow(situation, there(), rule)
    if situation.cold:
        return _plan(want(situation, there(), rule), "the provider's cache has forgotten the session")
    return _warm(situation, there(), rule)


def _overflow(situation: Situation, objects: Sequence[Candidate], rule: Rule) -> Plan | NoRewrite:
    """The epoch without which the next prompt might be refused, or compacted by the client."""
    fidelities = _want_to_fit(situation, objects, rule)
    freed = _sum_freed(objects, fidelities)
    saves_the_turn = situation.prompt - freed <= situation.limit < situation.prompt
    if not (situation.cold or saves_the_turn or freed >= _gain(situation, rule)):
        # The next turn would be as near to the end, and pay for the next rewrite.
        return NoRewrite(f"the window overflows, but a rewrite would free only {freed} tokens")
    price = Fraction(0) if situation.cold else price_of_rewrite(situation, objects, fidelities)
    return _plan(fidelities, "the window overflows", price)


def _warm(situation: Situation, objects: Sequence[Candidate], rule: Rule) -> Plan | NoRewrite:
    """The epoch that breaks what the provider still holds, if that pays and can be paid."""
    full = situation.prompt > rule.full * situation.window
    fidelities = (_want_in_a_hurry if full else want)(situation, objects, rule)
    freed = _sum_freed(objects, fidelities)
    if freed < _gain(situation, rule):
        return NoRewrite(f"a rewrite would free {freed} tokens, and pays from {_gain(situation, rule)} on")
    price = price_of_rewrite(situation, objects, fidelities)
    saved = freed * situation.read
    if not saved:
        return NoRewrite("what is read again costs nothing, so a rewrite saves nothing before the window is full")
    payback = max(1, ceil(price / saved))
    refused = _find_refusal(situation, objects, fidelities, rule)
    if refused is not None:
        return refused
    behind = _is_behind(situation, rule)
    if full and not behind:
        return _plan(fidelities, "the window is nearly full", price, payback)
    wasted = regret(situation, objects, fidelities, rule)
    if wasted < rule.regret * price:
        return NoRewrite(
            f"keeping what may leave has cost {round(wasted)} tokens of input, a rewrite costs {ceil(price)}"
        )
    return _plan(fidelities, "keeping it has cost more than the rewrite does", price, payback)


def _is_behind(situation: Situation, rule: Rule) -> bool:
    """Whether the session is dearer than unmanaged, since the client would have compacted."""
    return situation.billed > rule.margin * situation.shadow


def _find_refusal(
    situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity], rule: Rule
) -> NoRewrite | None:
    """Why a warm rewrite cannot be paid, in one of the units; None if it can."""
    freed = _sum_freed(objects, fidelities)
    for each in situation.in_each_unit():
        price = price_of_rewrite(each, objects, fidelities)
        if _is_behind(each, rule):
            if price > rule.soon * freed * each.read:
                return NoRewrite(
                    f"the session is dearer than unmanaged, and a rewrite would not pay within {rule.soon} requests"
                )
        elif price > rule.margin * each.shadow - each.billed:
            return NoRewrite(
                f"a rewrite costs {ceil(price)} tokens of input: the session could end dearer than unmanaged"
            )
    return None


def _gain(situation: Situation, rule: Rule) -> int:
    return rule.gain * min(situation.window, WINDOW) // WINDOW


def _want_in_a_hurry(situation: Situation, objects: Sequence[Candidate], rule: Rule) -> dict[str, Fidelity]:
    """The same as ``want`` where room is needed: everything is old sooner, and ever sooner until there is room, and of
    what is being gathered only the newest stays.
    """
    for hurry in (rule.hurry, *DEEPER):
        found = want(situation, objects, attrs.evolve(rule, gathered=0), hurry=hurry)
        left = situation.prompt - _sum_freed(objects, found)
        if left <= rule.room * situation.window:
            break
    for each in sorted(_list_gathered(situation, objects), key=lambda each: each.born, reverse=True):
        if each.key in found:
            left += tokens_saved_by(each, found[each.key])
            if left > rule.room * situation.window:
                break
            del found[each.key]
    return found


def _want_to_fit(situation: Situation, objects: Sequence[Candidate], rule: Rule) -> dict[str, Fidelity]:
    """The same as in a hurry; and where the window would overflow still, or that could not be paid, whatever may go,
    what was used longest ago first, until there is room for the next rewrite to be worth its price: files and answers,
    then what was said. Where reading from the cache costs nothing, all that stays is paid for now and would cost
    nothing later, so little stays.
    """
    found = _want_in_a_hurry(situation, objects, rule)
    left = _size_after(situation, objects, found)
    limit = rule.overflow * situation.window
    room = limit - _gain(situation, rule)
    if not situation.read:
        limit = room = min(room, Fraction(situation.fixed + rule.reread))
    elif not situation.cold:
        limit = min(limit, _find_largest_paid(situation, rule))
        room = min(room, limit)
    if left <= limit:
        return found
    free = [each for each in objects if not _stays(situation, each, rule)]
    for each in sorted(free, key=lambda each: (KINDS[each.kind].is_conversation, each.last_use, each.born)):
        if left <= room:
            break
        before = found.get(each.key, each.fidelity)
        tokens, here = each.at(Fidelity.EVICTED), each.at(before)
        if before is not Fidelity.EVICTED and tokens is not None and here is not None and tokens < here:
            found[each.key] = Fidelity.EVICTED
            left -= here - tokens
    return found


def _find_largest_paid(situation: Situation, rule: Rule) -> Fraction:
    """The largest prompt, in tokens, that a warm rewrite may leave if the session is to be no dearer than it may be:
    its ``price_of_rewrite`` is what may still be spent, in each unit.
    """
    sizes = [
        (
            rule.margin * each.shadow
            - each.billed
            + (_count_held(each) + each.new) * (each.write - each.read)
            + (each.prompt - each.joining) * each.read
        )
        / each.write
        for each in situation.in_each_unit()
        if each.write
    ]
    return min(sizes, default=Fraction(situation.prompt))


def _size_after(situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity]) -> int:
    """The size of the prompt after a rewrite, which takes the thinking since the last one out, too."""
    return situation.prompt - _sum_freed(objects, fidelities) - _thinking(situation, objects)


def _thinking(situation: Situation, objects: Sequence[Candidate]) -> int:
    since = situation.last_epoch or 0
    return sum(each.thinking for each in objects if each.born > since)


def _plan(
    fidelities: Mapping[str, Fidelity], reason: str, price: Fraction = Fraction(0), payback: int | None = None
) -> Plan | NoRewrite:
    if not fidelities:
        return NoRewrite("nothing is old enough")
    return Plan(fidelities=fidelities, reason=reason, price=price, payback=payback)


def want(
    situation: Situation, objects: Sequence[Candidate], rule: Rule = RULE, *, hurry: int = 1
) -> dict[str, Fidelity]:
    """What every object should be shown at that should be shown at less than it is. In a ``hurry`` everything is old
    so many times sooner.
    """
    found = {}
    keeping = _keeping(situation, objects, rule, hurry)
    gathered = {
        each.key for each in _list_gathered(situation, objects) if situation.turn - each.last_use <= rule.gathered
    }
    for each in objects:
        stays = each.key in gathered or _stays(situation, each, rule)
        fidelity = each.fidelity if stays else _goal(situation, each, rule, keeping)
        tokens, here = each.at(fidelity), each.at(each.fidelity)
        if fidelity > each.fidelity and tokens is not None and here is not None and tokens < here:
            found[each.key] = fidelity
    return found


def _list_gathered(situation: Situation, objects: Sequence[Candidate]) -> list[Candidate]:
    """What was read of files for the user's last request, as long as nothing was written for it."""
    here = [each for each in objects if each.born >= situation.exchange]
    if any(WRITTEN & set(each.tags) for each in here):
        return []
    return [each for each in here if KINDS[each.kind].is_file and not each.stale]


def _stays(situation: Situation, each: Candidate, rule: Rule) -> bool:
    return each.kept or (each.last_fault is not None and situation.turn - each.last_fault <= rule.missed)


def _keeping(situation: Situation, objects: Sequence[Candidate], rule: Rule, hurry: int = 1) -> WindowAges:
    missed = sum(each.last_fault is not None for each in objects)
    return WindowAges(rule.ages, situation.exchange, missed, hurry)


def _goal(situation: Situation, each: Candidate, rule: Rule, keeping: WindowAges) -> Fidelity:
    """The fidelity at which an object belongs by its age. What the user said stays."""
    unused = situation.turn - each.last_use
    if unused > keeping.turns(each):
        if KINDS[each.kind].is_conversation:
            return Fidelity.DETAILED if each.at(Fidelity.COMPACT) is None else Fidelity.COMPACT
        return Fidelity.EVICTED
    if EDITED in each.tags and situation.turn - each.born > rule.waiting.replaced:
        return Fidelity.DETAILED
    return each.fidelity


def _sum_freed(objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity]) -> int:
    return sum(tokens_saved_by(each, fidelities[each.key]) for each in objects if each.key in fidelities)


def tokens_saved_by(each: Candidate, after: Fidelity) -> int:
    """The tokens that showing an object at less frees."""
    return (each.at(each.fidelity) or 0) - (each.at(after) or 0)


def price_of_rewrite(
    situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity]
) -> Fraction:
    """What a warm rewrite costs at once, in input-token equivalents: what stays of the history is written instead of
    read, and what goes, the thinking since the last epoch included, is not even read. Below 0 where that is more.

    All of the history is written again, wherever it changes first: no marker is left in front of that, and what the
    provider holds without one it does not find. What is new is written in any case.
    """
    goes = _sum_freed(objects, fidelities) + _thinking(situation, objects)
    stays = max(0, situation.prompt - _count_held(situation) - situation.new - goes)
    return stays * (situation.write - situation.read) + (situation.joining - goes) * situation.read


def _count_held(situation: Situation) -> int:
    """The tokens of system prompt and tools that the provider still holds after a rewrite."""
    return 0 if situation.joining else situation.fixed


def regret(
    situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity], rule: Rule = RULE
) -> Fraction:
    """What has been paid since the last epoch for reading what might have left already, in input-token equivalents."""
    since = situation.last_epoch or 0
    wasted = 0
    keeping = _keeping(situation, objects, rule)
    for each in objects:
        if each.key in fidelities:
            turns = situation.turn - max(_due(each, fidelities[each.key], rule, keeping), since)
            wasted += tokens_saved_by(each, fidelities[each.key]) * max(0, turns)
    return wasted * situation.read


def _due(each: Candidate, after: Fidelity, rule: Rule, keeping: WindowAges) -> int:
    """The last turn in which an object was not yet to be shown at less."""
    if after is Fidelity.DETAILED and EDITED in each.tags:
        return each.born + rule.waiting.replaced
    return each.last_use + keeping.turns(each)


def head_lasts_an_hour(situation: Situation, freed: int, rule: Rule = RULE) -> bool:
    """Whether system prompt and tools, written again with an epoch that ``freed`` so many tokens, are to be held by the
    provider for an hour from now on: the user has just shown to take breaks, and savings pay for the dearer write.
    """
    price = situation.fixed * (HOUR - situation.write) - freed * situation.write
    return situation.cold and situation.billed + price <= rule.margin * situation.shadow
