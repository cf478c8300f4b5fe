"""The ledger of a session: the cost of each turn, its cost without the proxy, and whether the cache rules still hold.

A client sends its whole history with every request, so its own body *is* the unmanaged session: the *shadow*. The
ledger simulates the provider's cache for the shadow and for the requests that really go upstream. If these are equal,
both simulations must agree with the provider's counts; this checks the simulation on every turn.

Assumptions about the shadow, which cannot be observed:

* The unmanaged client compacts at the size at which it was seen to compact in the session, else at
  ``compaction_point``: it asks for a summary (the prompt once more, read from the cache, and ``SUMMARY_TOKENS`` of
  output) and continues with tools, system prompt and ``COMPACTED_TOKENS`` more (summary, instructions, files read
  again). Source: 15 automatic compactions of recorded Claude Code sessions, about the medians (`docs/cost.md`).
* Sizes are estimates, scaled to the provider's counts: system prompt and tools by the smallest prompt, messages by the
  largest.
* The reply would have been the last round's. Text next to hidden calls, in earlier rounds, does not count as a saving.
* If the provider reads more from its cache than expected (a head that another session wrote), it would have read the
  same for the shadow. If it reads less, that does not count as a saving.
* A turn with a round whose counts are not credible would have cost the same.
* When the clock is set back, no time has passed. After that, the provider's reads decide whether a pause was real.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil

import attrs

from mnemosyne.domain.cost import prompt_cache
from mnemosyne.domain.cost.catalogue import model_of, price_of
from mnemosyne.domain.cost.prices import COMPACTION_TOKENS, Price, Tokens
from mnemosyne.domain.cost.prompt import Markers, Prompt, PromptBlock, Tier, Ttl, last_markable
from mnemosyne.domain.cost.prompt_cache import MARKED, Cache, CacheEntry, CacheRules
from mnemosyne.domain.cost.prompt_changes import count_shared_tokens
from mnemosyne.domain.cost.prompt_layout import PromptLayout
from mnemosyne.domain.cost.tokens import CREDIBLE, Estimator, Features, apportion
from mnemosyne.domain.session.address import AttemptEvent
from mnemosyne.domain.session.counted_sizes import LEAST_GROWTH
from mnemosyne.domain.session.ledger_events import Held, TurnAccounted
from mnemosyne.domain.session.round_events import Mode

KEPT_FREE, SMALL_WINDOW = 33_000, 200_000
"""The tokens that Claude Code 2.1.329 keeps free in a window larger than SMALL_WINDOW before it compacts. For smaller
windows the point is known from recorded sessions.
"""

SUMMARY_TOKENS = 2_800
"""Output of the client's model when it compacts its history."""

COMPACTED_TOKENS = 20_000
"""Size of the history after a compaction, without tools and system prompt."""
COMPACTED = Features(COMPACTED_TOKENS * 1000)

WINDOW = 20
"""Number of recent turns used to check whether the provider bills as expected."""

LEAST = 5
"""Fewer recent turns give no result."""

DEVIATES = Fraction(5, 4)
"""Ratio of recorded to expected cost above which billing deviates from the rules."""

OFTEN = 3
"""Number of recent turns that must cost more than expected. The provider occasionally loses a prompt (in one of 100
recorded turns), and one such turn costs as much as ten others.
"""

NEAR = 2
"""A turn is ignored if its shortfall in cache reads is at most this many times the smallest prompt that is cached:
whether a prompt exceeds that size is only estimated.
"""

_SET_BACK = 1_000_000
"""Turns of concurrent branches may end out of order by at most this (µs); more means that the clock was set back."""

_CLOSE = 20
"""A shortfall of at most 1/20 of the prompt is an estimation error, not a cache miss."""

_WEIGHTS = Price(1_000, 5_000, read=100)
"""Relative token prices for a model without a known price."""


@attrs.frozen(kw_only=True)
class Account:
    """A branch's account: the last ``turn`` whose shadow is counted, the message ``since`` which the shadow's history
    runs, the size of the shadow's last prompt (``unmanaged``, 0 if not known), and the last prompt that the provider
    counted, with its estimate. ``least`` and ``most`` are counted and estimated size of the smallest and the largest
    prompt sent to ``model``. ``grown`` maps turns that added enough content to counted tokens per estimated token.
    """

    turn: int = 0
    since: int = 0
    unmanaged: int = 0
    counted: int = 0
    estimated: int = 0
    model: str | None = None
    least: tuple[int, int] | None = None
    most: tuple[int, int] | None = None
    grown: Mapping[int, Fraction] = attrs.field(factory=dict)

    def count(self, model: str | None, turn: int, counted: int, estimated: int) -> "Account":
        """The account with the prompt of a turn added; unchanged if ``counted`` is 0."""
        if not counted:
            return self
        both = (counted, estimated)
        known = [sizes for sizes in (self.least, self.most) if sizes is not None and self.model == model]
        by_size = sorted([*known, both], key=lambda sizes: sizes[1])
        return attrs.evolve(
            self,
            counted=counted,
            estimated=estimated,
            model=model,
            least=by_size[0],
            most=by_size[-1],
            grown=self._grow(turn, counted, estimated) if known else {turn: Fraction(*both)},
        )

    def _grow(self, turn: int, counted: int, estimated: int) -> Mapping[int, Fraction]:
        """Add the scale of a turn. A rewritten prompt, smaller than the one before, yields none."""
        added = estimated - self.estimated
        if turn != self.turn + 1 or added < LEAST_GROWTH:
            return self.grown
        scale = Fraction(counted - self.counted, added)
        return {**self.grown, turn: scale} if _is_credible(scale) else self.grown

    def find_scales(self, head: int, *, of_all: bool = False) -> "PartScales":
        """Counted tokens per estimated token of a prompt whose tools and system prompt were estimated at ``head``.

        The smallest prompt consists mostly of these and gives their scale. The scale of messages comes from the last
        prompt, or with ``of_all`` from the largest.
        """
        counted, estimated = self.most if of_all and self.most is not None else (self.counted, self.estimated)
        whole = Fraction(counted, estimated) if counted and estimated else Fraction(1)
        if self.least is None or not 0 < head < estimated:
            return PartScales(head=whole, messages=whole)
        of_head = Fraction(*self.least)
        of_messages = (counted - of_head * head) / (estimated - head)
        if not _is_credible(of_messages):
            return PartScales(head=whole, messages=whole)
        return PartScales(head=of_head, messages=of_messages)


def _is_credible(scale: Fraction) -> bool:
    return 1 <= scale * CREDIBLE <= CREDIBLE**2


@attrs.frozen(kw_only=True)
class PartScales:
    """Counted tokens per estimated token: in tools and system prompt (``head``), and in messages."""

    head: Fraction
    messages: Fraction

    def size(self, tokens: int, head: int) -> Fraction:
        """The counted size of a prefix of ``tokens`` estimated tokens, ``head`` of them tools and system prompt."""
        (size,), unit = self.sizes((tokens,), head)
        return Fraction(size, unit)

    def sizes(self, ends: Iterable[int], head: int) -> tuple[list[int], int]:
        """The sizes of several prefixes as integers, and the number that divides them: faster than fractions."""
        (of_head, head_unit), (of_messages, unit) = self.head.as_integer_ratio(), self.messages.as_integer_ratio()
        of_head, of_messages = of_head * unit, of_messages * head_unit
        return [of_head * min(end, head) + of_messages * max(0, end - head) for end in ends], head_unit * unit


@attrs.frozen(kw_only=True)
class Ledger:
    """A session's ledger. ``billed`` and ``unmanaged`` are the actual and the shadow's cost of managed turns, in
    input-token equivalents at list prices; ``sent`` and ``unsent`` are the tokens of both. ``observed`` and
    ``observed_tokens`` are the cost of the other turns, in equivalents and in tokens. ``recent`` holds, for the last
    turns that the provider counted, the equivalents of expected and recorded usage, input side only. ``compacts_at`` is
    the size at which the client was last seen to compact, None if it was not. ``ended`` is when the last turn ended.
    ``was_set_back`` is whether any turn ended before an earlier one, because the clock was set back.
    """

    shadow: Cache = attrs.field(factory=Cache)
    wire: Cache = attrs.field(factory=Cache)
    accounts: Mapping[str, Account] = attrs.field(factory=dict)
    billed: Fraction = Fraction(0)
    unmanaged: Fraction = Fraction(0)
    sent: Tokens = attrs.field(factory=Tokens)
    unsent: Tokens = attrs.field(factory=Tokens)
    observed: Fraction = Fraction(0)
    observed_tokens: Tokens = attrs.field(factory=Tokens)
    recent: tuple[tuple[Fraction, Fraction], ...] = ()
    compacts_at: int | None = None
    ended: int = 0
    was_set_back: bool = False

    @property
    def deviates(self) -> bool:
        """Whether the last turns cost markedly more than expected."""
        return _deviates(self.recent)


def _deviates(recent: Sequence[tuple[Fraction, Fraction]]) -> bool:
    if len(recent) < LEAST:
        return False
    pairs = ((expected.as_integer_ratio(), recorded.as_integer_ratio()) for expected, recorded in recent)
    more, than = DEVIATES.as_integer_ratio()
    dearer = sum(billed * unit * than > wanted * per * more for (wanted, unit), (billed, per) in pairs)
    return dearer >= OFTEN and _ratio_of_bills(recent) > DEVIATES


def _ratio_of_bills(recent: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    expected, recorded = (sum(column, Fraction(0)) for column in zip(*recent, strict=True))
    return recorded / expected if expected else Fraction(1)


def why_to_stop(ledger: Ledger) -> str | None:
    """The reason to stop managing a branch, if any."""
    if not ledger.deviates:
        return None
    times = float(_ratio_of_bills(ledger.recent))
    turns = len(ledger.recent)
    return f"the provider billed {times:.2f} times what its cache's rules let us expect, over the last {turns} turns"


def equivalents(tokens: Tokens, model: str | None, *, prompt: int | None = None) -> Fraction:
    """The cost, in tokens of plain input. For ``prompt`` see ``Price.nanodollars``."""
    return weighing_price(model).equivalents(tokens, prompt=prompt)


def weighing_price(model: str | None) -> Price:
    """The price that weighs a model's tokens; for a model without a known price, the ratios of most models."""
    return price_of(model) or _WEIGHTS


# Accounting for a turn


@attrs.frozen(kw_only=True)
class Sent:
    """A request sent at ``at``, and the usage that the provider reported for it, None if it reported none.
    ``reports_cache`` is true if that includes cache reads.
    """

    at: int
    layout: PromptLayout
    usage: Tokens | None
    reports_cache: bool = True


@attrs.frozen(kw_only=True)
class AccountTurn(AttemptEvent):
    """A turn is over. ``client`` is the client's own request, ``rounds`` the requests that went upstream, at least one.
    ``cache`` are the provider's cache rules; ``scaled`` and ``parts`` as in SettingsTaken. Rules of earlier servers:
    ``bounded`` ignores counts far from the estimate; ``summed`` judges counts per turn, not per round; ``unstated``
    judges both, but uses only counts per turn in decisions.
    ``client_before`` and ``sent_before`` are the client's previous request and the one that went upstream, None if not
    known or not needed.
    """

    mode: Mode
    model: str | None
    client: PromptLayout
    rounds: Sequence[Sent]
    cache: CacheRules = MARKED
    scaled: bool = False
    parts: bool = False
    bounded: bool = False
    summed: bool = False
    unstated: bool = False
    client_before: PromptLayout | None = None
    sent_before: PromptLayout | None = None


def account(command: AccountTurn, ledger: Ledger) -> TurnAccounted:
    """Account for a turn: its usage, and the usage of its shadow."""
    known = ledger.accounts.get(command.branch, Account())
    before, ledger = ledger, _choose_pause(command, ledger, known)
    wire, expected, actual, assumed = _wire(command, ledger.wire, known)
    last = command.rounds[-1]
    estimated, counted = last.layout.prompt.tokens, _count_prompt(command, last)
    compacts_at = ledger.compacts_at or compaction_point(command.model)
    _, now = _measure(command, known, last)
    scales = _find_scales(now, command, last, of_all=command.client.prompt.tokens > estimated)
    shadow = _Shadow(ledger.shadow, command, scales, compacts_at)
    since, compacted, used = known.since, False, Tokens()
    if command.turn > known.turn:
        since, compacted, used = shadow.turn(since)
        used = attrs.evolve(used, output=used.output + (last.usage.output if last.usage else 0))
    if command.mode is not Mode.OBSERVE:
        used = _adjust_reads(used, actual.read - expected.read, actual.prompt, command.cache)
    event = TurnAccounted(
        at=command.at,
        began=command.rounds[0].at,
        branch=command.branch,
        turn=command.turn,
        attempt=command.attempt,
        mode=command.mode,
        model=command.model,
        rounds=len(command.rounds),
        shadow=used,
        expected=expected,
        actual=actual,
        assumed=assumed,
        estimated=estimated,
        counted=counted,
        since=since,
        compacted=compacted,
        shadow_entries=_list_changes(before.shadow, shadow.cache),
        wire_entries=_list_changes(before.wire, wire) if command.mode is not Mode.OBSERVE else (),
        deviates=False,
        far=None,
    )
    if not (command.bounded or command.summed):
        sizes = [(each.usage, each.layout.prompt.tokens) for each in command.rounds if each.usage is not None]
        credible = all(_are_credible(used, size, command.model) for used, size in sizes)
        event = attrs.evolve(event, shadow=event.shadow if credible else event.actual)
        event = event if command.unstated else attrs.evolve(event, far=not credible)
    weighed = _weigh(event)
    if weighed is not event:
        event = attrs.evolve(event, shadow=event.actual)
    recent = _with(ledger.recent, weighed)
    return attrs.evolve(event, deviates=_deviates(recent) and not command.cache.one_slot)


def _choose_pause(command: AccountTurn, ledger: Ledger, known: Account) -> Ledger:
    """The ledger; if the clock is not credible, with its cache entries moved, as if no time had passed."""
    is_set_back = command.at < ledger.ended - _SET_BACK
    if command.bounded or not (is_set_back or ledger.was_set_back):
        return ledger
    by = command.rounds[0].at - ledger.ended
    moved = attrs.evolve(ledger, shadow=_move(ledger.shadow, by), wire=_move(ledger.wire, by))
    if is_set_back:
        return moved
    bills = (_wire(command, each.wire, known) for each in (ledger, moved))
    off, moved_off = (abs(expected.read - actual.read) for _, expected, actual, _ in bills)
    return moved if moved_off < off else ledger


def _move(cache: Cache, by: int) -> Cache:
    return Cache(
        {
            digest: CacheEntry(entry.ttl, entry.expires + by, (entry.readable_at or 0) + by)
            for digest, entry in cache.entries.items()
        }
    )


def _measure(command: AccountTurn, known: Account, sent: Sent) -> tuple[int, Account]:
    """The size of a prompt, counted credibly or else scaled by the account, and the account with it."""
    estimated = sent.layout.prompt.tokens
    expected = _find_scales(known, command, sent).size(estimated, _head_of(sent.layout))
    size = _bound(_count_prompt(command, sent), estimated) or int(expected)
    return size, known.count(command.model, command.turn, size, estimated)


def _find_scales(known: Account, command: AccountTurn, sent: Sent, *, of_all: bool = False) -> PartScales:
    """The scales by the counts so far. ``of_all`` for a prompt larger than the one sent, which lacks its messages."""
    return known.find_scales(_head_of(sent.layout), of_all=of_all) if command.parts else known.find_scales(0)


def _head_of(layout: PromptLayout) -> int:
    """The estimated tokens of tools and system prompt."""
    return layout.prompt[layout.head - 1].tokens if layout.head else 0


def _wire(command: AccountTurn, cache: Cache, known: Account) -> tuple[Cache, Tokens, Tokens, bool]:
    """The provider's cache after all rounds, their expected usage, their actual usage, and whether a part of the actual
    usage is assumed.
    """
    expected, actual, assumed, before = Tokens(), Tokens(), False, command.sent_before
    ends = [sent.at for sent in command.rounds[1:]] + [command.at]
    for sent, end in zip(command.rounds, ends, strict=True):
        prompt, (size, now) = sent.layout.prompt, _measure(command, known, sent)
        cache, tokens = _bill(cache, prompt, sent.layout.markers, sent.at, end, command, size, sent.layout, before)
        before = sent.layout
        output, counted = sent.usage.output if sent.usage else 0, _count_prompt(command, sent)
        scales = _find_scales(now, command, sent)
        wanted = attrs.evolve(_scale(tokens, counted or size, scales, _head_of(sent.layout)), output=output)
        expected += wanted
        if sent.usage and sent.reports_cache and counted and _reports_reads(sent.usage, wanted, command.cache):
            actual += sent.usage
        else:
            actual, assumed = actual + wanted, True
    return cache, expected, actual, assumed


def _reports_reads(used: Tokens, wanted: Tokens, rules: CacheRules) -> bool:
    """Whether a reply reports cache reads: many self-hosted servers count the prompt, but not the part of it that their
    slot held.
    """
    return not rules.one_slot or used.read > 0 or not wanted.read


def _count_prompt(command: AccountTurn, sent: Sent) -> int:
    """The prompt size that the provider counted; 0 if it counted none."""
    counted = sent.usage.prompt if sent.usage else 0
    return _bound(counted, sent.layout.prompt.tokens) if command.bounded else counted


def _bound(counted: int, estimated: int) -> int:
    """The count; 0 if it is not credible."""
    least = max(1, estimated)
    return counted if least <= counted * CREDIBLE and counted <= least * CREDIBLE else 0


def _bill(
    cache: Cache,
    prompt: Prompt,
    markers: Markers,
    at: int,
    readable_at: int,
    command: AccountTurn,
    size: int,
    layout: PromptLayout | None,
    before: PromptLayout | None,
) -> tuple[Cache, Tokens]:
    """The cache after a request, and the prompt's usage in estimated tokens; ``size`` is the provider's count. The
    ``layout`` is the prompt's, None for a supposed one; ``before`` is the previous one.
    """
    minimum = model_of(command.model).cache_minimum
    if command.scaled and size:
        minimum = ceil(Fraction(minimum * prompt.tokens, size))
    shared, rules = 0, command.cache
    if rules.partial and layout is not None and before is not None and cache.holds(before.prompt, at):
        shared = count_shared_tokens(before, layout)
    cache, bill = prompt_cache.bill(
        cache,
        prompt,
        markers,
        started_at=at,
        minimum=minimum,
        readable_at=readable_at,
        rules=rules,
        shared=shared,
        may_end=layout.ends_part if rules.whole and layout is not None else None,
    )
    return cache, bill.tokens


def _scale(tokens: Tokens, size: int, scales: PartScales, head: int) -> Tokens:
    """Scale usage to the provider's ``size``. Cache reads are the prompt's beginning, one-hour writes follow them."""
    ends = accumulate((tokens.read, tokens.write_1h, tokens.write_5m, tokens.input))
    (read, hour, minutes, whole), unit = scales.sizes(ends, head)
    parts = read, minutes - hour, hour - read, whole - minutes
    shares = apportion(size, parts) if size > 0 else [part // unit for part in parts]
    return Tokens(read=shares[0], write_5m=shares[1], write_1h=shares[2], input=shares[3])


def _adjust_reads(shadow: Tokens, more: int, prompt: int, rules: CacheRules) -> Tokens:
    """The shadow's usage with ``more`` cache reads. A negative value counts only within the estimation error."""
    if more < 0:
        missed = min(-more, shadow.read) if -more * _CLOSE <= prompt else 0
        written = {"write_5m": shadow.write_5m + missed} if rules.bills_writes else {"input": shadow.input + missed}
        return attrs.evolve(shadow, read=shadow.read - missed, **written)
    from_5m = min(more, shadow.write_5m)
    from_1h = min(more - from_5m, shadow.write_1h)
    plain = min(more - from_5m - from_1h, shadow.input)
    return attrs.evolve(
        shadow,
        read=shadow.read + from_5m + from_1h + plain,
        write_5m=shadow.write_5m - from_5m,
        write_1h=shadow.write_1h - from_1h,
        input=shadow.input - plain,
    )


class _Shadow:
    """The client's own request, as if it had gone upstream."""

    def __init__(self, cache: Cache, command: AccountTurn, scales: PartScales, compacts_at: int) -> None:
        self.cache = cache
        self._compacts_at = compacts_at
        self._command = command
        self._scales = scales
        self._head = _head_of(command.client)

    def turn(self, since: int) -> tuple[int, bool, Tokens]:
        """The message at which the history begins afterwards, whether the client compacted it, and the usage."""
        prompt, markers = self._from(since)
        size = self._scales.size(prompt.tokens, self._head)
        compacts = self._command.mode is not Mode.OBSERVE and size > self._compacts_at
        used = self._bill(prompt, markers)
        if not compacts:
            return since, False, used
        since = len(self._command.client.ends)
        return since, True, attrs.evolve(used, output=SUMMARY_TOKENS) + self._bill(*self._from(since))

    def _bill(self, prompt: Prompt, markers: Markers) -> Tokens:
        at = self._command.rounds[0].at
        size = round(self._scales.size(prompt.tokens, self._head))
        command = self._command
        layout = command.client if prompt is command.client.prompt else None
        before = command.client_before
        self.cache, tokens = _bill(self.cache, prompt, markers, at, command.at, command, size, layout, before)
        return _scale(tokens, size, self._scales, self._head)

    def _from(self, since: int) -> tuple[Prompt, Markers]:
        """The prompt after a compaction of the history before message ``since``."""
        client = self._command.client
        if not since:
            return client.prompt, client.markers
        start = client.up_to(min(since, len(client.ends)))
        blocks = [_summary(self._command, since), *(step.block for step in client.prompt[start:])]
        prompt = client.prompt.truncate(client.head).extend(blocks)
        markers: dict[int, Ttl] = {}
        for number, ttl in client.markers.items():
            if number < client.head:
                markers[number] = ttl
            elif number >= start:
                markers[number - start + client.head + 1] = ttl
        last = last_markable(prompt)
        if client.markers and last is not None:
            markers.setdefault(last, client.markers[max(client.markers)])
        return prompt, markers


def _summary(command: AccountTurn, since: int) -> PromptBlock:
    tokens = Estimator.of(command.model).tokens(COMPACTED)
    return PromptBlock(f"compacted {command.branch} {since}".encode(), tokens, Tier.MESSAGES, "text")


def _list_changes(before: Cache, after: Cache) -> tuple[Held, ...]:
    """The cache entries that a turn wrote or renewed."""
    return tuple(
        Held(digest=digest, hour=entry.ttl == "1h", expires=entry.expires, readable_at=entry.readable_at or 0)
        for digest, entry in after.entries.items()
        if before.entries.get(digest) != entry
    )


def _with(recent: tuple[tuple[Fraction, Fraction], ...], event: TurnAccounted) -> tuple[tuple[Fraction, Fraction], ...]:
    minimum = model_of(event.model).cache_minimum
    if event.assumed or 0 < event.expected.read - event.actual.read <= NEAR * minimum:
        return recent
    both = (equivalents(attrs.evolve(each, output=0), event.model) for each in (event.expected, event.actual))
    return (*recent, tuple(both))[-WINDOW:]  # type: ignore[return-value]  # a pair


def _weigh(event: TurnAccounted) -> TurnAccounted:
    """The turn as later decisions count it. A turn with counts that are not credible costs nothing here, so that it
    neither ends managing nor allows it to spend more.
    """
    return attrs.evolve(event, actual=Tokens(), shadow=Tokens(), assumed=True) if is_far(event) else event


def is_far(event: TurnAccounted) -> bool:
    """Whether the counts of a round are not credible; in older logs, whether their sum is not."""
    if event.far is not None:
        return event.far
    return not _are_credible(event.actual, event.estimated * event.rounds, event.model)


def is_compared(event: TurnAccounted) -> bool:
    """Whether a turn may have saved or lost money: its costs with and without the proxy are known, and differ."""
    is_known = not (event.assumed or is_far(event))
    return is_known and event.mode is not Mode.OBSERVE and event.shadow != event.actual


def _are_credible(used: Tokens, estimated: int, model: str | None) -> bool:
    """Whether a request of that estimated size may have used so many tokens. A prompt without a count is credible."""
    return used.output <= model_of(model).window and (not used.prompt or _bound(used.prompt, estimated) > 0)


# Folding events


def after(ledger: Ledger, event: TurnAccounted) -> Ledger:
    event = _weigh(event)
    known = ledger.accounts.get(event.branch, Account())
    managed = event.mode is not Mode.OBSERVE
    # A client that compacts sends its prompt once more, before the compacted one. Each tokenizer counts differently.
    again = known.unmanaged if event.compacted and known.model in (None, event.model) else 0
    unmanaged = event.shadow.prompt - again
    account = attrs.evolve(
        known.count(event.model, event.turn, _bound(event.counted, event.estimated), event.estimated),
        turn=max(known.turn, event.turn),
        since=event.since,
        unmanaged=unmanaged if event.shadow.prompt else known.unmanaged,
    )
    return Ledger(
        shadow=_update_cache(ledger.shadow, event.shadow_entries, event.began),
        wire=_update_cache(ledger.wire, event.wire_entries if managed else event.shadow_entries, event.began),
        accounts={**ledger.accounts, event.branch: account},
        billed=ledger.billed + (equivalents(event.actual, event.model) if managed else 0),
        unmanaged=ledger.unmanaged + (equivalents(event.shadow, event.model) if managed else 0),
        sent=ledger.sent + event.actual if managed else ledger.sent,
        unsent=ledger.unsent + event.shadow if managed else ledger.unsent,
        observed=ledger.observed + (0 if managed else equivalents(event.actual, event.model)),
        observed_tokens=ledger.observed_tokens if managed else ledger.observed_tokens + event.actual,
        recent=_with(ledger.recent, event),
        compacts_at=ledger.compacts_at,
        ended=event.at,
        was_set_back=ledger.was_set_back or event.at < ledger.ended - _SET_BACK,
    )


def count_observed(ledger: Ledger) -> Ledger:
    """The ledger with observed turns on both sides: they would have cost the same without the proxy."""
    return attrs.evolve(
        ledger,
        billed=ledger.billed + ledger.observed,
        unmanaged=ledger.unmanaged + ledger.observed,
        sent=ledger.sent + ledger.observed_tokens,
        unsent=ledger.unsent + ledger.observed_tokens,
    )


def _update_cache(cache: Cache, changes: Iterable[Held], at: int) -> Cache:
    entries = {digest: entry for digest, entry in cache.entries.items() if entry.expires > at}
    for held in changes:
        entries[held.digest] = CacheEntry("1h" if held.hour else "5m", held.expires, held.readable_at)
    return Cache(entries)


def compaction_point(model: str | None) -> int:
    """The prompt size above which a client is assumed to compact if it was never seen to."""
    window = model_of(model).client_window
    return window - KEPT_FREE if window > SMALL_WINDOW else COMPACTION_TOKENS


def compact(ledger: Ledger, branch: str) -> Ledger:
    """The ledger after the client itself compacted a branch. A small one was compacted by its user and is ignored."""
    known = ledger.accounts.get(branch)
    size = known.counted if known is not None else 0
    return attrs.evolve(ledger, compacts_at=size) if size > COMPACTION_TOKENS // 2 else ledger


def fork(ledger: Ledger, branch: str, parent: str, kept: int) -> Ledger:
    """The ledger with a branch that shares the first ``kept`` messages of its parent."""
    before = ledger.accounts.get(parent, Account())
    since = before.since if before.since <= kept else 0
    forked = attrs.evolve(before, turn=0, since=since, unmanaged=before.unmanaged if since else 0)
    return attrs.evolve(ledger, accounts={**ledger.accounts, branch: forked})
