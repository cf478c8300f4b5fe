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

Times are µs on any one clock. Requests are billed in the order in which they start.
"""

from collections.abc import Iterable, Mapping

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt import Markers, Prompt, Ttl
from mnemosyne.domain.cost.tariffs import LIFETIME

LOOKBACK = 20
"""Positions, the marked block's own included."""


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
    cache: Cache, prompt: Prompt, markers: Markers, *, started_at: int, minimum: int, readable_at: int | None = None
) -> tuple[Cache, Bill]:
    """What a request reads, writes and pays, and the cache after it.

    ``minimum`` is the model's smallest cacheable size; ``readable_at`` is when the reply begins, None while that is
    not known. It takes time for the markers, the positions they look back on and the entries alive, not for the blocks.
    With A the tokens up to the hit, B up to the last one-hour marker after it and C up to the last marker: A are read,
    B - A are written for an hour, C - B for five minutes, and the rest is plain input.
    """
    marked = [number for number in sorted(markers) if prompt[number].tokens >= minimum]
    hit = _longest_hit(cache, prompt, marked, started_at)
    beyond = [number for number in marked if number > hit]
    read = prompt[hit].tokens if hit >= 0 else 0
    last = prompt[beyond[-1]].tokens if beyond else read
    hour = max((prompt[number].tokens for number in beyond if markers[number] == "1h"), default=read)
    tokens = Tokens(read=read, write_1h=hour - read, write_5m=last - hour, input=prompt.tokens - last)

    alive = {digest: entry for digest, entry in cache.entries.items() if entry.expires > started_at}
    for number in {hit, *marked} - {*beyond, -1}:
        entry = alive.get(prompt[number].digest)
        if entry is not None:
            alive[prompt[number].digest] = attrs.evolve(entry, expires=started_at + LIFETIME[entry.ttl])
    for number in beyond:
        digest = prompt[number].digest
        alive[digest] = _write(alive.get(digest), markers[number], started_at, readable_at)
    return Cache(alive), Bill(tokens, tuple(prompt[number].digest for number in beyond))


def _longest_hit(cache: Cache, prompt: Prompt, marked: list[int], at: int) -> int:
    """The number of the block, or -1. Nothing before a marker's hit is longer, so the first one found from the end is
    the longest."""
    for number in reversed(marked):
        for back in range(number, -1, -1):
            step = prompt[back]
            if prompt[number].position - step.position >= LOOKBACK:
                break
            entry = cache.entries.get(step.digest)
            if entry is not None and entry.hit(at):
                return back
    return -1


def _write(pending: CacheEntry | None, ttl: Ttl, started_at: int, readable_at: int | None) -> CacheEntry:
    """``pending`` is what a parallel request wrote that cannot be read yet: whose reply begins first makes it so."""
    expires = started_at + LIFETIME[ttl]
    if pending is None:
        return CacheEntry(ttl, expires, readable_at)
    if pending.expires > expires:
        ttl, expires = pending.ttl, pending.expires
    return CacheEntry(ttl, expires, _earlier(pending.readable_at, readable_at))


def _earlier(one: int | None, other: int | None) -> int | None:
    known = [at for at in (one, other) if at is not None]
    return min(known, default=None)
