"""A simulation of the provider's prompt cache: the tokens that a request reads, writes, and pays in full.

The rules, from the Messages API documentation on prompt caching:

* a marked block writes an entry if the prompt up to it reaches the model's minimum size (``Model.cache_minimum``);
* a lookup starts at each marked block and walks back at most 20 positions, including its own; the longest hit wins;
* an entry lives 5 minutes or 1 hour from the *start* of the request that wrote it or last read it; reading renews it
  for free, together with every marked entry inside the part read;
* an entry can be read once its writer's reply has begun: parallel requests all pay;
* a marker inside the part read writes nothing.

How a caller models the rest:

* thinking: a model that does not keep it (``Model.keeps_thinking``) drops that of earlier exchanges at a user message,
  so build its prompt without it; from the first dropped block on, it is a different prompt;
* a tool run by the provider: its results are a second request, the prompt extended by them and marked there for
  5 minutes;
* the system prompt that comes with tools: a block of ``Model.tool_prompt`` tokens in front, unless the sizes of the
  other blocks include it;
* a request that the provider refuses writes nothing: keep the cache unchanged.

Other providers have other rules (``rules_of`` a tariff): a prompt is cached without a marker, up to the end of its head
and up to its own end; it is found however long the next prompt is, and lives as long as the tariff says. Where writes
are free, a later prompt is also read up to its first change; where they are billed, only up to such an end (OpenAI's
documentation on prompt caching, models before and since gpt-5.6). With a single slot, a prompt replaces every entry
that is not a prefix of it.

Times are µs on any one clock. Requests are billed in the order in which they start.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from math import inf

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt import Markers, Prompt, Tier, Ttl
from mnemosyne.domain.cost.tariffs import LIFETIME, Caching, Tariff

LOOKBACK = 20
"""Positions, including the marked block's own."""

HOSTED_LEAST, HOSTED_UNIT = 1024, 128
"""The minimum of a hosted cache without markers, and the unit of one whose writes are free, in tokens (OpenAI's
documentation on prompt caching).
"""


@attrs.frozen(kw_only=True)
class CacheRules:
    """How a provider's cache works.

    ``lookback`` is the number of positions that a lookup walks back from a marker; ``life`` is the lifetime of an entry
    in µs, by what its marker asks for. ``automatic`` caches prompts without markers, ``one_slot`` allows a single
    entry, and without ``bills_writes`` written tokens are billed as plain input. ``partial``: a prompt is read up to
    its first change; ``whole``: only up to the end of a message. ``least`` is the size of the shortest prompt that is
    cached without a marker, and reads count in whole ``unit``s of tokens.
    """

    lookback: float = LOOKBACK
    life: Mapping[Ttl, int] = attrs.field(factory=lambda: LIFETIME)
    automatic: bool = False
    one_slot: bool = False
    bills_writes: bool = True
    partial: bool = False
    whole: bool = False
    least: int = 0
    unit: int = 1


MARKED = CacheRules()
"""The rules of the Messages API."""


def rules_of(tariff: Tariff) -> CacheRules:
    if tariff.caching is Caching.MARKERS:
        return MARKED
    life, is_local, bills_writes = tariff.life(hour=False), tariff.slots == 1, tariff.write_5m != 1
    return CacheRules(
        lookback=inf,
        life={"5m": life, "1h": life},
        automatic=True,
        one_slot=is_local,
        bills_writes=bills_writes,
        partial=not bills_writes,
        whole=bills_writes,
        least=0 if is_local else HOSTED_LEAST,
        unit=1 if is_local or bills_writes else HOSTED_UNIT,
    )


def with_ends_only(rules: CacheRules) -> CacheRules:
    """Return the rules that earlier servers applied: reads up to the end of a head or prompt, in units."""
    is_hosted = rules.automatic and not rules.one_slot
    return attrs.evolve(rules, partial=False, whole=False, unit=HOSTED_UNIT if is_hosted else rules.unit)


@attrs.frozen
class CacheEntry:
    """A cached prefix of a prompt. ``readable_at`` is None until its writer's reply begins."""

    ttl: Ttl
    expires: int
    readable_at: int | None

    def hit(self, at: int) -> bool:
        """Return whether a request that starts then can read it."""
        return self.readable_at is not None and self.readable_at <= at < self.expires


@attrs.frozen
class Cache:
    """The entries of one workspace, by a step's digest. The next request removes expired entries."""

    entries: Mapping[bytes, CacheEntry] = attrs.field(factory=dict)

    def holds(self, prompt: Prompt, at: int) -> bool:
        """Return whether a request that starts at a time can read a whole earlier prompt."""
        entry = self.entries.get(prompt[-1].digest) if prompt else None
        return entry is not None and entry.hit(at)

    def begin_reply(self, written: Iterable[bytes], at: int) -> "Cache":
        """Record that the reply to a request has begun: from then on the entries that it wrote can be read."""
        changed = {}
        for digest in written:
            entry = self.entries.get(digest)
            if entry is not None:
                changed[digest] = attrs.evolve(entry, readable_at=_earlier(entry.readable_at, at))
        return Cache({**self.entries, **changed})


@attrs.frozen
class Bill:
    """The input of a request: ``tokens`` sum up to the whole prompt. ``written`` is passed to ``begin_reply``."""

    tokens: Tokens
    written: tuple[bytes, ...]


def bill(
    cache: Cache,
    prompt: Prompt,
    markers: Markers,
    *,
    started_at: int,
    minimum: int,
    readable_at: int | None = None,
    rules: CacheRules = MARKED,
    shared: int = 0,
    may_end: Callable[[int], bool] | None = None,
) -> tuple[Cache, Bill]:
    """Bill a request for its reads, writes and plain input; return the cache after it and the bill.

    ``minimum`` is the model's minimum size for a marker to take effect; ``readable_at`` is when the reply begins, None
    while that is unknown. ``shared`` is the size of the prefix that the last prompt in the cache has too, for
    ``partial`` reads; ``may_end`` decides whether a read may end with a block.

    The running time depends on the number of markers, the positions they look back on and the live entries, not on the
    number of blocks. With A the tokens up to the hit, B up to the last one-hour marker after it and C up to the last
    marker: A are read, B - A are written for an hour, C - B for five minutes, and the rest is plain input.
    """
    markers, minimum = (automatic_ends(prompt), rules.least) if rules.automatic else (markers, minimum)
    marked = [number for number in sorted(markers) if prompt[number].tokens >= minimum]
    hit = _longest_hit(cache, prompt, marked, started_at, rules.lookback, may_end)
    unread = [number for number in marked if number > hit]
    read = prompt[hit].tokens if hit >= 0 else 0
    if rules.partial and shared >= minimum:
        read = max(read, shared)
    read -= read % rules.unit
    last = prompt[unread[-1]].tokens if unread else read
    hour = max((prompt[number].tokens for number in unread if markers[number] == "1h"), default=read)
    tokens = Tokens(read=read, write_1h=hour - read, write_5m=last - hour, input=prompt.tokens - last)
    if not rules.bills_writes:
        tokens = Tokens(read=read, input=prompt.tokens - read)

    alive = {digest: entry for digest, entry in cache.entries.items() if entry.expires > started_at}
    for number in {hit, *marked} - {*unread, -1}:
        entry = alive.get(prompt[number].digest)
        if entry is not None:
            alive[prompt[number].digest] = attrs.evolve(entry, expires=started_at + rules.life[entry.ttl])
    for number in unread:
        digest, ttl = prompt[number].digest, markers[number]
        alive[digest] = _write(alive.get(digest), ttl, started_at + rules.life[ttl], readable_at)
    if rules.one_slot:
        own_digests = {step.digest for step in prompt}
        replaced = {
            digest: attrs.evolve(entry, expires=started_at)
            for digest, entry in alive.items()
            if digest not in own_digests
        }
        alive |= replaced
    return Cache(alive), Bill(tokens, tuple(prompt[number].digest for number in unread))


def automatic_ends(prompt: Prompt) -> dict[int, Ttl]:
    """Return the blocks at which a prompt without markers is cached: the last of its head, and its last."""
    head = takewhile(lambda number: prompt[number].block.tier is not Tier.MESSAGES, range(len(prompt)))
    return dict.fromkeys((*list(head)[-1:], *range(len(prompt))[-1:]), "5m")


def _longest_hit(
    cache: Cache, prompt: Prompt, marked: list[int], at: int, lookback: float, may_end: Callable[[int], bool] | None
) -> int:
    """Return the number of the last block of the longest hit, or -1. No earlier hit is longer than a marker's own, so
    the first one from the end is the longest.
    """
    for number in reversed(marked):
        for back in range(number, -1, -1):
            step = prompt[back]
            if prompt[number].position - step.position >= lookback:
                break
            entry = cache.entries.get(step.digest)
            if entry is not None and entry.hit(at) and (may_end is None or may_end(back)):
                return back
    return -1


def _write(pending: CacheEntry | None, ttl: Ttl, expires: int, readable_at: int | None) -> CacheEntry:
    """Return the written entry. ``pending`` is one by a parallel request that cannot be read yet: the reply that begins
    first makes it readable.
    """
    if pending is None:
        return CacheEntry(ttl, expires, readable_at)
    if pending.expires > expires:
        ttl, expires = pending.ttl, pending.expires
    return CacheEntry(ttl, expires, _earlier(pending.readable_at, readable_at))


def _earlier(one: int | None, other: int | None) -> int | None:
    known = [at for at in (one, other) if at is not None]
    return min(known, default=None)
