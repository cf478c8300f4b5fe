"""Planning: when to rewrite a context, and to what; a pure function of the window's content, its cost and the time.

Memory is managed at three moments: at **birth**, when a block is sent for the first time; at the **tail**, where new
content is appended; and by an **epoch**, one rewrite of everything before the current request, after which the wire
history only grows again. Between epochs nothing changes, because the provider caches and signs the prefix that it was
sent.

What to show depends on how an agent works and on later operations on a file (``keeping``). When to rewrite depends on
cost: at almost no cost when the provider's cache has expired, otherwise when the savings that a rewrite would have
brought since the last one exceed its price, and only if the session does not become more expensive than without
management. Shortly before the client would compact, or the prompt would be refused, the rewrite keeps only what the
budget allows; if only a rewrite makes the prompt fit, it happens at any price. `docs/research/planning.md` lists the
alternatives that were tried.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity, FidelityMode
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.objects.pressure import zone
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS
from mnemosyne.domain.window import ladder
from mnemosyne.domain.window.ages import (
    AGES,
    EDITED,
    NO_REUSE,
    WRITTEN,
    Ages,
    Candidate,
    Quotable,
    Reuse,
    WindowAges,
    slow_down,
)
from mnemosyne.domain.window.window_size import WINDOW


@attrs.frozen(kw_only=True)
class CostSoFar:
    """Prices of reads and writes in one unit, and the cost of the session so far, actual and unmanaged."""

    read: Fraction
    write: Fraction
    billed: Fraction
    shadow: Fraction


@attrs.frozen(kw_only=True)
class Situation:
    """The other inputs of a plan.

    ``turn`` is the request that is about to be sent. ``prompt`` is its size without a rewrite, ``fixed`` the part for
    system prompt and tools, ``new`` the part that no earlier request held. ``idle`` is the time since the last request
    started and ``ttl`` the life of a cache entry, both in µs (``idle`` is None for the first request); ``write`` and
    ``read`` are prices relative to plain input. ``window`` is the most that a prompt should hold, ``limit`` the most
    that it can. ``billed`` is the cost of the session so far and ``shadow`` its cost if it were unmanaged;
    ``unmanaged`` is about the prompt's size in that case, which is smaller once the client would have compacted.
    ``last_epoch`` is the turn of the last rewrite. ``exchange`` is the turn in which the user last typed. ``also`` are
    further units in which the session must not become more expensive. ``joining`` are the tokens of the memory tools if
    they are added to a prompt that was sent without them: then everything before the history is written again too,
    unless they are added ``behind`` it.
    ``reuse`` is the session's own record of reuse. ``mode`` is how far a rewrite takes an object that is due.
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
    unmanaged: int
    last_epoch: int | None
    exchange: int
    also: tuple[CostSoFar, ...] = ()
    joining: int = 0
    behind: bool = False
    reuse: Mapping[Quotable, Reuse] = NO_REUSE
    mode: FidelityMode = FidelityMode.THRIFTY

    @property
    def cold(self) -> bool:
        """Whether the provider's cache has expired, so that a rewrite costs almost nothing."""
        return self.idle is not None and self.idle >= self.ttl

    def in_each_unit(self) -> Iterator["Situation"]:
        """The situation in each unit in which the session must not become more expensive."""
        yield self
        for other in self.also:
            yield attrs.evolve(self, **attrs.asdict(other))


@attrs.frozen(kw_only=True)
class Plan:
    """An epoch: the new fidelity of each object that changes, the reason, the expected immediate price in input-token
    equivalents, and the expected number of requests until it has paid off (None if that was not the reason).
    """

    fidelities: Mapping[str, Fidelity]
    reason: str
    price: Fraction = Fraction(0)
    payback: int | None = None


@attrs.frozen
class NoRewrite:
    """No epoch before this request, with the reason."""

    reason: str


Candidates = Callable[[], Sequence[Candidate]]
"""The objects of the window in order; computed on demand, because most turns plan nothing."""

Planner = Callable[[Situation, Candidates], Plan | None]
"""Returns an epoch before this request, or None."""


# The rule


@attrs.frozen(kw_only=True)
class Rule:
    """The planner's parameters, in turns and tokens. They were chosen on recorded sessions
    (`docs/research/planning.md`), and are round because the data does not determine them more precisely.
    """

    ages: Ages = AGES
    """For how long objects stay without use."""
    changes: int = 3
    """Until so many changes were made since its last use, a file that was read whole ages half as fast."""
    replaced: int = 8
    """After so many turns an edit is shown in detail (L1): its replaced text and the context in its result are dropped,
    and its new text stays complete.
    """
    gathered: int = 30
    """While the agent works on the user's task and has written nothing for it yet, files read for the task stay for
    this long, because the agent collects the content for its answer …
    """
    room: Fraction = Fraction(6, 10)
    """… and in a nearly full window only the newest of them, as far as they fit into this share of it."""
    missed: int = 8
    """Turns that a fault protects an object."""
    regret: Fraction = Fraction(3, 2)
    """A warm rewrite requires savings since the last one of this many times its price."""
    gain: int = 10_000
    """A warm rewrite frees at least this many tokens; proportionally fewer in a window smaller than ``WINDOW``."""
    full: Fraction = Fraction(8, 10)
    """Share of the window from which a rewrite does not wait for its regret, because the client would soon compact …"""
    hurry: int = 2
    """… and drop everything; so it evicts more: all age limits are divided by this."""
    overflow: Fraction = Fraction(96, 100)
    """Share of the limit from which a rewrite evicts whatever may go, until the rest fits and is affordable."""
    reread: int = 3_000
    """If only uncached input has a price, an overflow leaves this much of the history if possible: about as much as a
    client's own compaction does.
    """
    ahead: int = 4
    """So many turns before an object would leave, a helper model writes its short form."""
    told: Fraction = Fraction(1, 10)
    """Share of the window for lines that name evicted objects, newest first; older ones are only counted."""
    margin: Fraction = Fraction(102, 100)
    """How much more than unmanaged a session may have cost after a warm rewrite, if it ended right then …"""
    soon: int = 3
    """… and in a session that already cost more, a warm rewrite must have paid off within this many requests."""


RULE = Rule()

DEEPER = (4, 8, 16)
"""Larger divisors of the age limits, for when ``Rule.hurry`` does not free enough: the limits fit large windows, and a
small window leaves less time.
"""

HOUR = Fraction(2)
"""Price of a cache write that is held for an hour, relative to plain input; for five minutes it is 5/4."""


def planner(situation: Situation, candidates: Candidates, rule: Rule = RULE) -> Plan | None:
    """The epoch before a request, if it pays off (``plan_epoch``)."""
    epoch = plan_epoch(situation, candidates, rule)
    return epoch if isinstance(epoch, Plan) else None


def plan_epoch(situation: Situation, candidates: Candidates, rule: Rule = RULE) -> Plan | NoRewrite:
    """The epoch before a request if it pays off, or the reason why not. In any situation, a plan takes only legal steps
    down the ladder, to existing and smaller renditions, and never touches kept objects.
    """

    def there() -> Sequence[Candidate]:
        return slow_down(candidates(), situation.turn, rule.changes)

    if situation.idle is None:
        return NoRewrite("nothing was sent yet")
    if situation.prompt > rule.overflow * (situation.window if situation.cold else situation.limit):
        return _rewrite_to_fit(situation, there(), rule, "the window overflows")
    objects = there()
    if is_last_chance(situation, rule):
        followed = _rewrite_to_fit(situation, objects, rule, "the client would send less by now", follows=True)
        if isinstance(followed, Plan):
            return followed
    planned = (_cold if situation.cold else _warm)(situation, objects, rule)
    if isinstance(planned, NoRewrite) or situation.mode is FidelityMode.THRIFTY:
        return planned
    fidelities = _descend(situation, objects, planned.fidelities, rule)
    if situation.cold:
        return attrs.evolve(planned, fidelities=fidelities)
    price = price_of_rewrite(situation, objects, fidelities)
    payback = find_payback(price, sum_freed(objects, fidelities) * situation.read)
    return attrs.evolve(planned, fidelities=fidelities, price=price, payback=payback)


def _descend(
    situation: Situation, objects: Sequence[Candidate], targets: Mapping[str, Fidelity], rule: Rule
) -> dict[str, Fidelity]:
    """The way to the targets that a graded rewrite takes (``ladder``): short forms may not use up what the session may
    still spend.
    """
    share = ladder.ROOM * sum_freed(objects, targets)
    units = [each for each in situation.in_each_unit() if each.write]
    most = min((_find_rest(each, objects, targets, rule) / each.write for each in units), default=share)
    used, usable = situation.prompt - situation.fixed, situation.window - situation.fixed
    return ladder.descend(objects, targets, share, most, zone(used, max(0, usable)), situation.last_epoch or 0)


def _find_rest(
    situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity], rule: Rule
) -> Fraction:
    """What the session may still spend after a rewrite; negative if it is not affordable."""
    size = size_after(situation, objects, fidelities)
    rewriting = price_of_rewrite(situation, objects, fidelities)
    price = (size - situation.unmanaged) * situation.write if situation.cold else rewriting
    return _find_left(situation, size, rule) - price


def _find_left(situation: Situation, size: int, rule: Rule) -> Fraction:
    """What the session may spend on a prompt of this size. If each request then costs more than the client's own would,
    a rewrite to that size must remain affordable.
    """
    left = rule.margin * situation.shadow - situation.billed
    if _find_excess(situation, size, rule) <= 0:
        return left
    history = max(0, situation.unmanaged - _count_held(situation)) + find_least_gain(situation, rule)
    return left - history * (situation.write - situation.read)


def _find_excess(situation: Situation, size: int, rule: Rule) -> Fraction:
    """By how much the cost of each request of this size exceeds what the client's own may cost."""
    return (size - rule.margin * situation.unmanaged) * situation.read


def is_last_chance(situation: Situation, rule: Rule = RULE) -> bool:
    """Whether a rewrite to the smaller size that the client would send may be too expensive after this request."""
    excesses = ((each, _find_excess(each, each.prompt, rule)) for each in situation.in_each_unit())
    late = any(excess > max(Fraction(0), _find_left(each, each.prompt, rule)) for each, excess in excesses)
    return late and not situation.cold


def foresee(situation: Situation, objects: Sequence[Candidate], rule: Rule = RULE) -> dict[str, Fidelity]:
    """The new fidelity of every object that a rewrite ``Rule.ahead`` turns later would degrade, if nothing is used
    until then; empty as long as the session cannot afford one, and has had none.
    """
    later = attrs.evolve(situation, turn=situation.turn + rule.ahead)
    objects = slow_down(objects, later.turn, rule.changes)
    fidelities = want(later, objects, rule)
    may_come = situation.last_epoch is not None or find_refusal(later, objects, fidelities, rule) is None
    if not may_come or situation.mode is FidelityMode.THRIFTY:
        return fidelities if may_come else {}
    return _descend(later, objects, fidelities, rule)


def _rewrite_to_fit(
    situation: Situation, objects: Sequence[Candidate], rule: Rule, reason: str, *, follows: bool = False
) -> Plan | NoRewrite:
    """The epoch without which the next prompt might be refused or compacted, or, if it ``follows`` a client that has
    compacted, one of that client's size.
    """
    fidelities = _want_to_fit(situation, objects, rule, follows=follows)
    freed = sum_freed(objects, fidelities)
    saves_the_turn = situation.prompt - freed <= situation.limit < situation.prompt
    if not (situation.cold or saves_the_turn or freed >= find_least_gain(situation, rule)):
        # The next turn would be as close to the limit, and pay for another rewrite.
        return NoRewrite(f"{reason}, but a rewrite would free only {freed} tokens")
    if not (situation.cold or saves_the_turn) and (refused := find_refusal(situation, objects, fidelities, rule)):
        return refused
    price = Fraction(0) if situation.cold else price_of_rewrite(situation, objects, fidelities)
    return _plan(fidelities, reason, price)


def _cold(situation: Situation, objects: Sequence[Candidate], rule: Rule) -> Plan | NoRewrite:
    """The epoch after the cache has expired. If that is too expensive to write, no more stays than the client has."""
    fidelities = want(situation, objects, rule)
    more, units = size_after(situation, objects, fidelities) - situation.unmanaged, situation.in_each_unit()
    is_much = more >= find_least_gain(situation, rule)
    if is_much and any(_find_rest(each, objects, fidelities, rule) < 0 for each in units):
        fidelities = _want_to_fit(situation, objects, rule, follows=True)
    return _plan(fidelities, "the provider's cache has forgotten the session")


def _warm(situation: Situation, objects: Sequence[Candidate], rule: Rule) -> Plan | NoRewrite:
    """The epoch that invalidates a warm cache, if it pays off and is affordable."""
    full = situation.prompt > rule.full * situation.window
    fidelities = (_want_in_a_hurry if full else want)(situation, objects, rule)
    freed = sum_freed(objects, fidelities)
    if freed < find_least_gain(situation, rule):
        return NoRewrite(
            f"a rewrite would free {freed} tokens, and pays from {find_least_gain(situation, rule)} tokens on"
        )
    price = price_of_rewrite(situation, objects, fidelities)
    saved = freed * situation.read
    if not saved:
        return NoRewrite("what is read again costs nothing, so a rewrite saves nothing before the window is full")
    payback = find_payback(price, saved)
    refused = find_refusal(situation, objects, fidelities, rule)
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


def find_payback(price: Fraction, saved: Fraction) -> int | None:
    """The requests until a rewrite has paid off, if each saves so much."""
    return max(1, ceil(price / saved)) if saved else None


def _is_behind(situation: Situation, rule: Rule) -> bool:
    """Whether the session costs more than unmanaged, because the client would have compacted."""
    return situation.billed > rule.margin * situation.shadow


def find_refusal(
    situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity], rule: Rule = RULE
) -> NoRewrite | None:
    """The reason why a warm rewrite is not affordable in one of the units; None if it is."""
    freed = sum_freed(objects, fidelities)
    for each in situation.in_each_unit():
        price = price_of_rewrite(each, objects, fidelities)
        if _is_behind(each, rule):
            if price > rule.soon * freed * each.read:
                return NoRewrite(
                    f"the session is dearer than unmanaged, and a rewrite would not pay within {rule.soon} requests"
                )
        elif price > _find_left(each, size_after(each, objects, fidelities), rule):
            return NoRewrite(
                f"a rewrite costs {ceil(price)} tokens of input: the session could end dearer than unmanaged"
            )
    return None


def find_least_gain(situation: Situation, rule: Rule = RULE) -> int:
    """The tokens that a warm rewrite has to free in this window."""
    return rule.gain * min(situation.window, WINDOW) // WINDOW


def _want_in_a_hurry(situation: Situation, objects: Sequence[Candidate], rule: Rule) -> dict[str, Fidelity]:
    """Like ``want``, if room is needed: the age limits shrink until there is enough room, and only the newest files
    read for the current task stay.
    """
    for hurry in (rule.hurry, *DEEPER):
        fidelities = want(situation, objects, attrs.evolve(rule, gathered=0), hurry=hurry)
        size = situation.prompt - sum_freed(objects, fidelities)
        if size <= rule.room * situation.window:
            break
    for each in sorted(_list_gathered(situation, objects), key=lambda each: each.born, reverse=True):
        if each.key in fidelities:
            size += tokens_saved_by(each, fidelities[each.key])
            if size > rule.room * situation.window:
                break
            del fidelities[each.key]
    return fidelities


def _want_to_fit(
    situation: Situation, objects: Sequence[Candidate], rule: Rule, *, follows: bool = False
) -> dict[str, Fidelity]:
    """Like ``_want_in_a_hurry``. If the window would still overflow, or the result is not affordable, also evict
    objects that may be evicted, least recently used first, until the next rewrite has room to be worth its price, or if
    it ``follows`` the client, until no more is left than that would send: files and tool output, then conversation. If
    cache reads are free, everything that stays is paid for now and costs nothing later, so little stays.
    """
    fidelities = _want_in_a_hurry(situation, objects, rule)
    size = size_after(situation, objects, fidelities)
    limit = rule.overflow * situation.window
    room = limit - find_least_gain(situation, rule)
    if not situation.read:
        limit = room = min(room, Fraction(situation.fixed + rule.reread))
    elif not situation.cold:
        limit = min(limit, _find_largest_paid(situation, rule))
        room = min(room, limit)
    if follows:
        limit = room = min(room, rule.margin * situation.unmanaged)
    if size <= limit:
        return fidelities
    free = [each for each in objects if not _stays(situation, each, rule)]
    for each in sorted(free, key=lambda each: (KINDS[each.kind].is_conversation, each.last_use, each.born)):
        if size <= room:
            break
        before = fidelities.get(each.key, each.fidelity)
        tokens, here = each.at(Fidelity.EVICTED), each.at(before)
        if before is not Fidelity.EVICTED and tokens is not None and here is not None and tokens < here:
            fidelities[each.key] = Fidelity.EVICTED
            size -= here - tokens
    return fidelities


def _find_largest_paid(situation: Situation, rule: Rule) -> Fraction:
    """The largest prompt, in tokens, that an affordable warm rewrite may leave, in each unit: the amount that may still
    be spent covers its ``price_of_rewrite`` and, for as many requests as the window took to fill, the tokens that the
    client's own compaction would not keep.
    """
    requests = situation.turn - (situation.last_epoch or 0)
    sizes = []
    for each in situation.in_each_unit():
        if each.write:
            spent = (each.prompt - each.joining) * each.read + (_count_held(each) + each.new) * (each.write - each.read)
            left = rule.margin * each.shadow - each.billed + spent
            kept = (each.fixed + COMPACTED_TOKENS) * each.read * requests
            sizes += [left / each.write, (left + kept) / (each.write + each.read * requests)]
    return min(sizes, default=Fraction(situation.prompt))


def size_after(situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity]) -> int:
    """The prompt size after a rewrite, which also drops the thinking since the last one."""
    return situation.prompt - sum_freed(objects, fidelities) - _thinking(situation, objects)


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
    """The new fidelity of every object that should be degraded. ``hurry`` is the divisor of all age limits."""
    fidelities = {}
    keeping = WindowAges(rule.ages, situation.exchange, situation.reuse, hurry)
    gathered = {
        candidate.key
        for candidate in _list_gathered(situation, objects)
        if situation.turn - candidate.last_use <= rule.gathered
    }
    for candidate in objects:
        stays = candidate.key in gathered or _stays(situation, candidate, rule)
        fidelity = candidate.fidelity if stays else _goal(situation, candidate, rule, keeping)
        tokens, here = candidate.at(fidelity), candidate.at(candidate.fidelity)
        if fidelity > candidate.fidelity and tokens is not None and here is not None and tokens < here:
            fidelities[candidate.key] = fidelity
    return fidelities


def _list_gathered(situation: Situation, objects: Sequence[Candidate]) -> list[Candidate]:
    """The files read for the user's current request, as long as nothing was written for it."""
    here = [each for each in objects if each.born >= situation.exchange]
    if any(WRITTEN & set(each.tags) for each in here):
        return []
    return [each for each in here if KINDS[each.kind].is_file and not each.stale]


def _stays(situation: Situation, candidate: Candidate, rule: Rule) -> bool:
    return candidate.kept or (candidate.last_fault is not None and situation.turn - candidate.last_fault <= rule.missed)


def _goal(situation: Situation, candidate: Candidate, rule: Rule, keeping: WindowAges) -> Fidelity:
    """The fidelity of an object by its age. User text stays."""
    unused = situation.turn - candidate.last_use
    if unused > keeping.turns(candidate):
        if KINDS[candidate.kind].is_conversation:
            return Fidelity.DETAILED if candidate.at(Fidelity.COMPACT) is None else Fidelity.COMPACT
        is_first = candidate.captioned and candidate.fidelity is Fidelity.FULL
        return Fidelity.DETAILED if is_first else Fidelity.EVICTED
    if EDITED in candidate.tags and situation.turn - candidate.born > rule.replaced:
        return Fidelity.DETAILED
    return candidate.fidelity


def sum_freed(objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity]) -> int:
    """The tokens freed by a rewrite, without those of dropped thinking."""
    return sum(tokens_saved_by(each, fidelities[each.key]) for each in objects if each.key in fidelities)


def tokens_saved_by(candidate: Candidate, after: Fidelity) -> int:
    """The tokens freed by showing an object at a lower fidelity."""
    return (candidate.at(candidate.fidelity) or 0) - (candidate.at(after) or 0)


def price_of_rewrite(
    situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity]
) -> Fraction:
    """The immediate price of a warm rewrite, in input-token equivalents: the remaining history is written instead of
    read, and evicted content, including thinking since the last epoch, is no longer read. Negative if the latter is
    more.

    The whole history is written again, wherever its first change is: no marker remains before that point, and the
    provider finds no cache entry without one. New content is written in either case.
    """
    goes = sum_freed(objects, fidelities) + _thinking(situation, objects)
    stays = max(0, situation.prompt - _count_held(situation) - situation.new - goes)
    return stays * (situation.write - situation.read) + (situation.joining - goes) * situation.read


def _count_held(situation: Situation) -> int:
    """The tokens of system prompt and tools that stay cached after a rewrite."""
    return 0 if situation.joining and not situation.behind else situation.fixed


def regret(
    situation: Situation, objects: Sequence[Candidate], fidelities: Mapping[str, Fidelity], rule: Rule = RULE
) -> Fraction:
    """The cost since the last epoch of reading content that was already due to be evicted, in input-token
    equivalents.
    """
    since = situation.last_epoch or 0
    wasted = 0
    keeping = WindowAges(rule.ages, situation.exchange, situation.reuse)
    for each in objects:
        if each.key in fidelities:
            turns = situation.turn - max(_due(each, fidelities[each.key], rule, keeping), since)
            wasted += tokens_saved_by(each, fidelities[each.key]) * max(0, turns)
    return wasted * situation.read


def _due(candidate: Candidate, after: Fidelity, rule: Rule, keeping: WindowAges) -> int:
    """The last turn in which an object was not yet due to be degraded."""
    if after is Fidelity.DETAILED and EDITED in candidate.tags:
        return candidate.born + rule.replaced
    return candidate.last_use + keeping.turns(candidate)


def head_lasts_an_hour(situation: Situation, freed: int, rule: Rule = RULE) -> bool:
    """Whether to cache system prompt and tools for an hour, when they are written again with an epoch that ``freed`` so
    many tokens: the user has just taken a break, and savings cover the more expensive write.
    """
    price = situation.fixed * (HOUR - situation.write) - freed * situation.write
    return situation.cold and situation.billed + price <= rule.margin * situation.shadow
