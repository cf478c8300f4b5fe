"""The ledger of a session: what each turn cost, what it would have cost without us, and whether the rules still hold.

A client sends its whole history with every request, so its own body *is* the unmanaged session: the *shadow*. The
provider's cache is simulated for it as for what really goes upstream. Where that is the same, both must agree with what
the provider counts; that is how the simulation is checked, on every turn.

What is assumed, because nobody can see it:

* The unmanaged client compacts where it was seen to in the session, else at ``compaction_point``: it asks for a summary
  (the prompt once more, read from the cache, and ``SUMMARY_TOKENS`` of output) and goes on with tools, system prompt
  and ``COMPACTED_TOKENS`` more (summary, instructions, files read again). Source: 15 automatic compactions of recorded
  Claude Code sessions, about the medians (`docs/savings.md`).
* Sizes are estimates at the scale of what the provider counted: system prompt and tools at that of the smallest prompt,
  messages at that of the largest.
* The reply would have been the last round's. Text beside hidden calls, in earlier rounds, is not counted in our favour.
* What the provider reads beyond our expectation (a head that another session wrote) it would have read for the shadow,
  too. What it fails to read is not counted in our favour.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil

import attrs

from mnemosyne.domain.cost import prompt_cache
from mnemosyne.domain.cost.catalogue import model_of, price_of
from mnemosyne.domain.cost.prices import COMPACTION_TOKENS, Price, Tokens
from mnemosyne.domain.cost.prompt import Markers, Prompt, PromptBlock, Tier, Ttl, last_markable
from mnemosyne.domain.cost.prompt_cache import MARKED, Cache, CacheEntry, CacheRules
from mnemosyne.domain.cost.prompt_layout import PromptLayout
from mnemosyne.domain.cost.tokens import Estimator, Features, apportion
from mnemosyne.domain.session.ledger_events import Held, TurnAccounted
from mnemosyne.domain.session.round_events import Mode

KEPT_FREE, SMALL_WINDOW = 33_000, 200_000
"""What Claude Code 2.1.329 keeps free of a large window before it compacts; of a small one, recorded sessions tell."""

SUMMARY_TOKENS = 2_800
"""What a client's model writes to compact its history."""

COMPACTED_TOKENS = 20_000
"""What follows tools and system prompt after that."""

WINDOW = 20
"""So many turns are looked back on to see whether the provider bills as expected."""

LEAST = 5
"""Fewer turns say nothing."""

DEVIATES = Fraction(5, 4)
"""Recorded over expected, from which on something else is billed than we think."""

OFTEN = 3
"""So many of those turns must be dearer than expected. The provider loses a prompt now and then, and one alone costs as
much as ten turns: on recorded sessions, one turn in a hundred.
"""

NEAR = 2
"""A turn that read less than expected by up to so many times the smallest prompt that is cached says nothing: on which
side of that size a prompt or its beginning stands, an estimate decides.
"""

_CREDIBLE = 3
"""A prompt of more than so many times its estimate, or less than its so-manieth part, was not counted but mistaken."""

_CLOSE = 20
"""A difference of up to this part of the prompt is how sizes are estimated, and none in what is cached."""

_WEIGHTS = Price(1_000, 5_000, read=100)
"""Of tokens to each other, for a model without a known price."""


MUCH = 500
"""Fewer tokens tell too little of how what came with a turn is counted."""


@attrs.frozen(kw_only=True)
class Account:
    """A branch's account: its last turn whose shadow is counted, where the shadow's history begins, and the last prompt
    that the provider counted, with its estimate; ``least`` and ``most`` are both numbers of the smallest and the
    largest one that its ``model`` was sent. ``grown`` is what the provider counted for each estimated token of what
    came with a turn, where that was much.
    """

    turn: int = 0
    since: int = 0
    counted: int = 0
    estimated: int = 0
    model: str | None = None
    least: tuple[int, int] | None = None
    most: tuple[int, int] | None = None
    grown: Mapping[int, Fraction] = attrs.field(factory=dict)

    def count(self, model: str | None, turn: int, counted: int, estimated: int) -> "Account":
        """With the prompt of a turn, if the provider ``counted`` it; else 0."""
        if not counted:
            return self
        both = (counted, estimated)
        known = [each for each in (self.least, self.most) if each is not None and self.model == model]
        by_size = sorted([*known, both], key=lambda each: each[1])
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
        """A rewritten prompt is smaller than the one before, and tells of no turn."""
        added = estimated - self.estimated
        if turn != self.turn + 1 or added < MUCH:
            return self.grown
        scale = Fraction(counted - self.counted, added)
        return {**self.grown, turn: scale} if _is_credible(scale) else self.grown

    def find_scales(self, head: int, *, of_all: bool = False) -> "PartScales":
        """What the provider counts for each estimated token of a prompt whose tools and system prompt were estimated
        at ``head``. The smallest prompt is mostly these, and tells of them; the last one tells of the messages that it
        held, and the largest one of all (``of_all``).
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
    return 1 <= scale * _CREDIBLE <= _CREDIBLE**2


@attrs.frozen(kw_only=True)
class PartScales:
    """How many tokens the provider counts for each estimated one: in tools and system prompt, and in messages."""

    head: Fraction
    messages: Fraction

    def size(self, tokens: int, head: int) -> Fraction:
        """The size of the beginning of a prompt, of which ``head`` tokens are tools and system prompt."""
        return self.head * min(tokens, head) + self.messages * max(0, tokens - head)


@attrs.frozen(kw_only=True)
class Ledger:
    """A session's ledger. ``billed`` and ``unmanaged`` are input-token equivalents of the turns that did not go
    upstream as they came, at list prices; ``sent`` and ``unsent`` are the tokens of both. ``observed`` and ``as_came``
    are what the others cost, in equivalents and in tokens. ``recent`` are, for the last
    turns that the provider counted, the equivalents of what was expected and of what was recorded, input side only.
    ``compacts_at`` is the size at which the client was last seen to compact, None if it was not.
    """

    shadow: Cache = attrs.field(factory=Cache)
    wire: Cache = attrs.field(factory=Cache)
    accounts: Mapping[str, Account] = attrs.field(factory=dict)
    billed: Fraction = Fraction(0)
    unmanaged: Fraction = Fraction(0)
    sent: Tokens = attrs.field(factory=Tokens)
    unsent: Tokens = attrs.field(factory=Tokens)
    observed: Fraction = Fraction(0)
    as_came: Tokens = attrs.field(factory=Tokens)
    recent: tuple[tuple[Fraction, Fraction], ...] = ()
    compacts_at: int | None = None

    @property
    def deviates(self) -> bool:
        """Whether the last turns cost markedly more than expected."""
        return _deviates(self.recent)


def _deviates(recent: Sequence[tuple[Fraction, Fraction]]) -> bool:
    dearer = sum(recorded > DEVIATES * expected for expected, recorded in recent)
    return len(recent) >= LEAST and dearer >= OFTEN and _ratio_of_bills(recent) > DEVIATES


def _ratio_of_bills(recent: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
    expected, recorded = (sum(column, Fraction(0)) for column in zip(*recent, strict=True))
    return recorded / expected if expected else Fraction(1)


def why_to_stop(ledger: Ledger) -> str | None:
    """Why a branch is not to be managed any longer; None if it may be."""
    if not ledger.deviates:
        return None
    times = float(_ratio_of_bills(ledger.recent))
    turns = len(ledger.recent)
    return f"the provider billed {times:.2f} times what its cache's rules let us expect, over the last {turns} turns"


def equivalents(tokens: Tokens, model: str | None, *, prompt: int | None = None) -> Fraction:
    """The cost in tokens of plain input. For ``prompt`` see ``Price.nanodollars``."""
    return weighing_price(model).equivalents(tokens, prompt=prompt)


def weighing_price(model: str | None) -> Price:
    """The price at which tokens of a model are weighed; of one without a known price, as of most models."""
    return price_of(model) or _WEIGHTS


# Accounting for a turn


@attrs.frozen(kw_only=True)
class Sent:
    """A request that left at ``at``, and what the provider said that its reply used; None if it did not say.
    ``reports_cache`` is whether it said what of that came from its cache.
    """

    at: int
    layout: PromptLayout
    usage: Tokens | None
    reports_cache: bool = True


@attrs.frozen(kw_only=True)
class AccountTurn:
    """A turn is over. ``client`` is its request as the client sent it, ``rounds`` what went upstream for it, at least
    one. ``cache`` is how its provider remembers; ``scaled`` and ``parts`` as in SettingsTaken.
    """

    at: int
    branch: str
    turn: int
    attempt: int
    mode: Mode
    model: str | None
    client: PromptLayout
    rounds: Sequence[Sent]
    cache: CacheRules = MARKED
    scaled: bool = False
    parts: bool = False


def account(command: AccountTurn, ledger: Ledger) -> TurnAccounted:
    """What a turn used, and what it would have used."""
    known = ledger.accounts.get(command.branch, Account())
    wire, expected, actual, assumed = _wire(command, ledger.wire, known)
    last = command.rounds[-1]
    estimated, counted = last.layout.prompt.tokens, _credible(last)
    compacts_at = ledger.compacts_at or compaction_point(command.model)
    _, now = _measure(command, known, last)
    scales = _find_scales(now, command, last, of_all=command.client.prompt.tokens > estimated)
    shadow = _Shadow(ledger.shadow, command, scales, compacts_at)
    since, compacted, used = known.since, False, Tokens()
    if command.turn > known.turn:
        since, compacted, used = shadow.turn(since)
        used = attrs.evolve(used, output=used.output + (last.usage.output if last.usage else 0))
    if command.mode is not Mode.OBSERVE:
        used = _also_read(used, actual.read - expected.read, actual.prompt, command.cache)
    recent = ledger.recent if assumed else _with(ledger.recent, expected, actual, command.model)
    return TurnAccounted(
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
        shadow_entries=_news(ledger.shadow, shadow.cache),
        wire_entries=_news(ledger.wire, wire) if command.mode is not Mode.OBSERVE else (),
        deviates=_deviates(recent) and not command.cache.one_slot,
    )


def _measure(command: AccountTurn, known: Account, sent: Sent) -> tuple[int, Account]:
    """The size of a prompt, as the provider counted it or as the last one lets us expect, and the account with it."""
    estimated = sent.layout.prompt.tokens
    expected = _find_scales(known, command, sent).size(estimated, _head_of(sent.layout))
    size = _credible(sent) or int(expected)
    return size, known.count(command.model, command.turn, size, estimated)


def _find_scales(known: Account, command: AccountTurn, sent: Sent, *, of_all: bool = False) -> PartScales:
    """By what was counted up to now. A prompt that is larger than what was sent has messages that this lacks."""
    return known.find_scales(_head_of(sent.layout), of_all=of_all) if command.parts else known.find_scales(0)


def _head_of(layout: PromptLayout) -> int:
    """The estimated tokens of tools and system prompt."""
    return layout.prompt[layout.head - 1].tokens if layout.head else 0


def _wire(command: AccountTurn, cache: Cache, known: Account) -> tuple[Cache, Tokens, Tokens, bool]:
    """The provider's cache after all rounds, what they should have used together, what they did, and whether a part of
    that is assumed.
    """
    expected, actual, assumed = Tokens(), Tokens(), False
    ends = [each.at for each in command.rounds[1:]] + [command.at]
    for sent, end in zip(command.rounds, ends, strict=True):
        prompt, (size, now) = sent.layout.prompt, _measure(command, known, sent)
        cache, tokens = _bill(cache, prompt, sent.layout.markers, sent.at, end, command, size)
        output = sent.usage.output if sent.usage else 0
        wanted = attrs.evolve(
            _scale(tokens, size, _find_scales(now, command, sent), _head_of(sent.layout)), output=output
        )
        expected += wanted
        if sent.usage and sent.reports_cache and _credible(sent) and _tells_reads(sent.usage, wanted, command.cache):
            actual += sent.usage
        else:
            actual, assumed = actual + wanted, True
    return cache, expected, actual, assumed


def _tells_reads(used: Tokens, wanted: Tokens, rules: CacheRules) -> bool:
    """Whether a reply says what came from the cache: many a server of one's own counts the prompt, and not what of it
    its slot held.
    """
    return not rules.one_slot or used.read > 0 or not wanted.read


def _credible(sent: Sent) -> int:
    """The size of the prompt as the provider counted it; 0 if it did not, or not credibly."""
    counted, estimated = sent.usage.prompt if sent.usage else 0, sent.layout.prompt.tokens
    return counted if estimated <= counted * _CREDIBLE and counted <= estimated * _CREDIBLE else 0


def _bill(
    cache: Cache, prompt: Prompt, markers: Markers, at: int, readable_at: int, command: AccountTurn, size: int
) -> tuple[Cache, Tokens]:
    """The cache after a request, and what the prompt used in it, in estimates; its ``size`` is the provider's."""
    minimum = model_of(command.model).cache_minimum
    if command.scaled and size:
        minimum = ceil(Fraction(minimum * prompt.tokens, size))
    cache, bill = prompt_cache.bill(
        cache, prompt, markers, started_at=at, minimum=minimum, readable_at=readable_at, rules=command.cache
    )
    return cache, bill.tokens


def _scale(tokens: Tokens, size: int, scales: PartScales, head: int) -> Tokens:
    """The same parts of a prompt of another size. What was read is its beginning, then comes what is written for an
    hour.
    """
    ends = accumulate((tokens.read, tokens.write_1h, tokens.write_5m, tokens.input))
    sizes = [scales.size(end, head) for end in ends]
    first, hour, minutes, plain = (end - start for start, end in pairwise([Fraction(0), *sizes]))
    read, write_5m, write_1h, rest = apportion(size, (first, minutes, hour, plain))
    return Tokens(input=rest, read=read, write_5m=write_5m, write_1h=write_1h)


def _also_read(shadow: Tokens, more: int, prompt: int, rules: CacheRules) -> Tokens:
    """The shadow, of which so many tokens more (or, if that is how sizes are estimated, fewer) came from the cache."""
    if more < 0:
        back = min(-more, shadow.read) if -more * _CLOSE <= prompt else 0
        written = {"write_5m": shadow.write_5m + back} if rules.bills_writes else {"input": shadow.input + back}
        return attrs.evolve(shadow, read=shadow.read - back, **written)
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
        """Where the history begins afterwards, whether the client compacted it, and what that all used."""
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
        self.cache, tokens = _bill(self.cache, prompt, markers, at, self._command.at, self._command, size)
        return _scale(tokens, size, self._scales, self._head)

    def _from(self, since: int) -> tuple[Prompt, Markers]:
        """The prompt whose history was compacted before message ``since``."""
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
    tokens = Estimator.of(command.model).tokens(Features(COMPACTED_TOKENS * 1000))
    return PromptBlock(f"compacted {command.branch} {since}".encode(), tokens, Tier.MESSAGES, "text")


def _news(before: Cache, after: Cache) -> tuple[Held, ...]:
    """The entries that a turn wrote or renewed."""
    return tuple(
        Held(digest=digest, hour=entry.ttl == "1h", expires=entry.expires, readable_at=entry.readable_at or 0)
        for digest, entry in after.entries.items()
        if before.entries.get(digest) != entry
    )


def _with(
    recent: tuple[tuple[Fraction, Fraction], ...], expected: Tokens, actual: Tokens, model: str | None
) -> tuple[tuple[Fraction, Fraction], ...]:
    if 0 < expected.read - actual.read <= NEAR * model_of(model).cache_minimum:
        return recent
    both = (equivalents(attrs.evolve(each, output=0), model) for each in (expected, actual))
    return (*recent, tuple(both))[-WINDOW:]  # type: ignore[return-value]  # a pair


# What an event changes


def after(ledger: Ledger, event: TurnAccounted) -> Ledger:
    """The ledger after a turn was accounted."""
    known = ledger.accounts.get(event.branch, Account())
    managed = event.mode is not Mode.OBSERVE
    account = attrs.evolve(
        known.count(event.model, event.turn, event.counted, event.estimated),
        turn=max(known.turn, event.turn),
        since=event.since,
    )
    recent = ledger.recent if event.assumed else _with(ledger.recent, event.expected, event.actual, event.model)
    return Ledger(
        shadow=_holding(ledger.shadow, event.shadow_entries, event.began),
        wire=_holding(ledger.wire, event.wire_entries if managed else event.shadow_entries, event.began),
        accounts={**ledger.accounts, event.branch: account},
        billed=ledger.billed + (equivalents(event.actual, event.model) if managed else 0),
        unmanaged=ledger.unmanaged + (equivalents(event.shadow, event.model) if managed else 0),
        sent=ledger.sent + event.actual if managed else ledger.sent,
        unsent=ledger.unsent + event.shadow if managed else ledger.unsent,
        observed=ledger.observed + (0 if managed else equivalents(event.actual, event.model)),
        as_came=ledger.as_came if managed else ledger.as_came + event.actual,
        recent=recent,
        compacts_at=ledger.compacts_at,
    )


def count_observed(ledger: Ledger) -> Ledger:
    """The ledger with what was only observed on both sides: without us it would have cost the same."""
    return attrs.evolve(
        ledger,
        billed=ledger.billed + ledger.observed,
        unmanaged=ledger.unmanaged + ledger.observed,
        sent=ledger.sent + ledger.as_came,
        unsent=ledger.unsent + ledger.as_came,
    )


def _holding(cache: Cache, news: Iterable[Held], at: int) -> Cache:
    entries = {digest: entry for digest, entry in cache.entries.items() if entry.expires > at}
    for each in news:
        entries[each.digest] = CacheEntry("1h" if each.hour else "5m", each.expires, each.readable_at)
    return Cache(entries)


def compaction_point(model: str | None) -> int:
    """The size from which on a client compacts that has not been seen to: a guess."""
    window = model_of(model).client_window
    return window - KEPT_FREE if window > SMALL_WINDOW else COMPACTION_TOKENS


def compact(ledger: Ledger, branch: str) -> Ledger:
    """The ledger after the client itself compacted a branch. A small one was its user's own wish, and tells nothing."""
    known = ledger.accounts.get(branch)
    size = known.counted if known is not None else 0
    return attrs.evolve(ledger, compacts_at=size) if size > COMPACTION_TOKENS // 2 else ledger


def fork(ledger: Ledger, branch: str, parent: str, kept: int) -> Ledger:
    """The ledger with a branch that shares the first ``kept`` messages of its parent."""
    before = ledger.accounts.get(parent, Account())
    since = before.since if before.since <= kept else 0
    return attrs.evolve(ledger, accounts={**ledger.accounts, branch: attrs.evolve(before, turn=0, since=since)})
