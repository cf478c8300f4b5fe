"""The provider's prompt cache, simulated: what a request reads from it, writes to it and pays in full.

The rules, from the Messages API documentation on prompt caching:

* a marked block writes an entry when the prompt up to it reaches the model's smallest size (``Model.cache_minimum``);
* a lookup starts at each marked block and walks back at most 20 positions, its own included; the longest hit wins;
* an entry lives 5 minutes or 1 hour from the *start* of the request that wrote it or last read it; reading renews it
  for free, and so it does every marked entry inside what is read;
* an entry can be read once its writer's reply has begun: parallel requests all pay;
* a marker inside what is read writes nothing.

How a driver says the rest:

* thinking: a model that does not keep it (``Model.keeps_thinking``) drops that of earlier exchanges when the user
  speaks, so build its prompt without; from the first block dropped, it is another prompt;
* a provider's own tool: its results are a second request, the prompt extended by them and marked there for 5 minutes;
* the system prompt that tools bring with them: a block of ``Model.tool_prompt`` tokens in front, if the sizes of the
  other blocks are not measured with it;
* a request that the provider refuses writes nothing: leave the cache as it was.

Other providers have other rules (``rules_of`` a tariff): a prompt is remembered without a marker, up to the end of its
head and to its own, is found however long the next one is, and lives as long as the tariff says; where there is one
slot, a prompt takes the place of whatever does not begin it.

Times are µs on any one clock. Requests are billed in the order in which they start.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from math import inf

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt import Markers, Prompt, Tier, Ttl
from mnemosyne.domain.cost.tariffs import LIFETIME, Caching, Tariff

LOOKBACK = 20
"""Positions, the marked block's own included."""

HOSTED_LEAST, HOSTED_UNIT = 1024, 128
"""Of a hosted cache without markers, in tokens (OpenAI's documentation on prompt caching)."""


@attrs.frozen(kw_only=True)
class CacheRules:
    """How a provider's cache remembers: how many positions a lookup walks back from a marker, for how many µs an entry
    lives by what its marker asks for, whether the prompt is remembered without one, whether there is but one slot, and
    whether what is written is billed as such: else it is plain input. Of what is remembered without a marker, ``least``
    are the tokens of the shortest prompt that is, and what is read counts in whole ``unit``s of tokens.
    """

    lookback: float = LOOKBACK
    life: Mapping[Ttl, int] = attrs.field(factory=lambda: LIFETIME)
    automatic: bool = False
    one_slot: bool = False
    bills_writes: bool = True
    least: int = 0
    unit: int = 1


MARKED = CacheRules()
"""Those of the Messages API."""


def rules_of(tariff: Tariff) -> CacheRules:
    """The rules by which those who pay so are remembered."""
    if tariff.caching is Caching.MARKERS:
        return MARKED
    life, is_local = tariff.life(hour=False), tariff.slots == 1
    return CacheRules(
        lookback=inf,
        life={"5m": life, "1h": life},
        automatic=True,
        one_slot=is_local,
        bills_writes=tariff.write_5m != 1,
        least=0 if is_local else HOSTED_LEAST,
        unit=1 if is_local else HOSTED_UNIT,
    )


@attrs.frozen
class CacheEntry:
    """What the cache holds for one beginning of a prompt. ``readable_at`` is None until its writer's reply begins."""

    ttl: Ttl
    expires: int
    readable_at: int | None

    def hit(self, at: int) -> bool:
        """Whether a request that starts then can read it."""
        return self.readable_at is not None and self.readable_at <= at < self.expires


@attrs.frozen
class Cache:
    """The entries of one workspace, by a step's digest. What has expired leaves with the next request."""

    entries: Mapping[bytes, CacheEntry] = attrs.field(factory=dict)

    def begin_reply(self, written: Iterable[bytes], at: int) -> "Cache":
        """The reply to a request has begun: what it wrote can be read from then on."""
        changed = {}
        for digest in written:
            entry = self.entries.get(digest)
            if entry is not None:
                changed[digest] = attrs.evolve(entry, readable_at=_earlier(entry.readable_at, at))
        return Cache({**self.entries, **changed})


@attrs.frozen
class Bill:
    """The input side of a request: ``tokens`` sum up to the whole prompt. ``written`` goes to ``begin_reply``."""

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
) -> tuple[Cache, Bill]:
    """What a request reads, writes and pays, and the cache after it.

    ``minimum`` is the model's smallest size that a marker caches; ``readable_at`` is when the reply begins, None while
    that is not known. It takes time for the markers, the positions they look back on and the entries alive, not for the
    blocks. With A the tokens up to the hit, B up to the last one-hour marker after it and C up to the last marker: A
    are read, B - A are written for an hour, C - B for five minutes, and the rest is plain input.
    """
    markers, minimum = (_ends(prompt), rules.least) if rules.automatic else (markers, minimum)
    marked = [number for number in sorted(markers) if prompt[number].tokens >= minimum]
    hit = _longest_hit(cache, prompt, marked, started_at, rules.lookback)
    beyond = [number for number in marked if number > hit]
    read = prompt[hit].tokens // rules.unit * rules.unit if hit >= 0 else 0
    last = prompt[beyond[-1]].tokens if beyond else read
    hour = max((prompt[number].tokens for number in beyond if markers[number] == "1h"), default=read)
    tokens = Tokens(read=read, write_1h=hour - read, write_5m=last - hour, input=prompt.tokens - last)
    if not rules.bills_writes:
        tokens = Tokens(read=read, input=prompt.tokens - read)

    alive = {digest: entry for digest, entry in cache.entries.items() if entry.expires > started_at}
    for number in {hit, *marked} - {*beyond, -1}:
        entry = alive.get(prompt[number].digest)
        if entry is not None:
            alive[prompt[number].digest] = attrs.evolve(entry, expires=started_at + rules.life[entry.ttl])
    for number in beyond:
        digest, ttl = prompt[number].digest, markers[number]
        alive[digest] = _write(alive.get(digest), ttl, started_at + rules.life[ttl], readable_at)
    if rules.one_slot:
        held = {step.digest for step in prompt}
        gone = {
            digest: attrs.evolve(entry, expires=started_at) for digest, entry in alive.items() if digest not in held
        }
        alive |= gone
    return Cache(alive), Bill(tokens, tuple(prompt[number].digest for number in beyond))


def _ends(prompt: Prompt) -> dict[int, Ttl]:
    """The last blocks of system prompt and tools, and of the prompt: as if they were marked."""
    head = takewhile(lambda number: prompt[number].block.tier is not Tier.MESSAGES, range(len(prompt)))
    return dict.fromkeys((*list(head)[-1:], *range(len(prompt))[-1:]), "5m")


def _longest_hit(cache: Cache, prompt: Prompt, marked: list[int], at: int, lookback: float) -> int:
    """The number of the block, or -1. Nothing before a marker's hit is longer, so the first one found from the end is
    the longest."""
    for number in reversed(marked):
        for back in range(number, -1, -1):
            step = prompt[back]
            if prompt[number].position - step.position >= lookback:
                break
            entry = cache.entries.get(step.digest)
            if entry is not None and entry.hit(at):
                return back
    return -1


def _write(pending: CacheEntry | None, ttl: Ttl, expires: int, readable_at: int | None) -> CacheEntry:
    """``pending`` is what a parallel request wrote that cannot be read yet: whose reply begins first makes it so."""
    if pending is None:
        return CacheEntry(ttl, expires, readable_at)
    if pending.expires > expires:
        ttl, expires = pending.ttl, pending.expires
    return CacheEntry(ttl, expires, _earlier(pending.readable_at, readable_at))


def _earlier(one: int | None, other: int | None) -> int | None:
    known = [at for at in (one, other) if at is not None]
    return min(known, default=None)
