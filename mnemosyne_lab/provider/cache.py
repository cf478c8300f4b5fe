"""The caches of the stand-in: one for the Messages API, billed by the rules of ``domain/cost/prompt_cache.py``; the
automatic prefix cache of a hosted API; and the slots of a local server.

The latter two see the prompt as one text (see `openai_messages.py`). A request's writes become readable when its reply
begins. Time is an argument, in seconds on any monotonic clock. Token counts are estimates.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

import attrs
import orjson

from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt import Keys, Prompt, PromptBlock, Tier, Ttl, block_of, serialize, with_automatic
from mnemosyne.domain.cost.prompt_cache import Cache, bill
from mnemosyne_lab.provider.reading import TOKENS_PER_CHARACTER, Body, Json, as_dict, blocks, list_placed, tokens, tools
from mnemosyne_lab.provider.rules import BILLING, rewrites_head

_MICROSECONDS = 1_000_000
_FRAME = 5
"""Characters around a block and its role."""


class PromptCache:
    """The entries of one workspace."""

    def __init__(self) -> None:
        self._cache = Cache()

    def request(self, body: Body, now: float) -> tuple[Tokens, Callable[[], None]]:
        """Bill a request that starts now. The function, to call when its reply begins, makes its writes readable."""
        prompt, markers = _read(body)
        at = int(now * _MICROSECONDS)
        minimum = model_of(str(body.get("model", ""))).cache_minimum
        self._cache, billed = bill(self._cache, prompt, markers, started_at=at, minimum=minimum)

        def begin() -> None:
            self._cache = self._cache.begin_reply(billed.written, at)

        return billed.tokens, begin


def steps(body: Body) -> Prompt:
    """The prompt block by block."""
    return _read(body)[0]


def _read(body: Body) -> tuple[Prompt, dict[int, Ttl]]:
    """The prompt and its markers, the automatic one (the top-level `cache_control`) among them."""
    placing = _Placing()
    if rewrites_head(body):
        placing.put(Tier.TOOLS, {"type": "tools_in_messages"})
    for tool in tools(body):
        placing.put(Tier.TOOLS, tool)
    for number, entry in enumerate(blocks(body.get("system"))):
        if number or not str(entry.get("text", "")).startswith(BILLING):
            placing.put(Tier.SYSTEM, entry)
    for item in list_placed(body):
        placing.put(Tier.MESSAGES, item.block, item.role)
    prompt = Prompt(_keys(body), placing.blocks)
    automatic = _ttl(body.get("cache_control"))
    return prompt, with_automatic(prompt, placing.markers, automatic) if automatic else placing.markers


class _Placing:
    """Collects the blocks of one body, with sizes that add up to the estimate for all of its text."""

    def __init__(self) -> None:
        self.blocks: list[PromptBlock] = []
        self.markers: dict[int, Ttl] = {}
        self._characters = 0
        self._tokens = 0

    def put(self, tier: Tier, value: dict[str, Json], role: str = "") -> None:
        """The next block of the prompt."""
        ttl = _ttl(value.get("cache_control"))
        if ttl:
            self.markers[len(self.blocks)] = ttl
        text = serialize(value)
        self._characters += len(text) + len(role) + _FRAME
        size = max(1, tokens(self._characters)) - self._tokens
        self._tokens += size
        self.blocks.append(block_of(tier, value, text, size, role))


def _keys(body: Body) -> Keys:
    effort = as_dict(body.get("output_config")).get("effort")
    image = any(_holds_image([item.block]) for item in list_placed(body))
    return Keys(
        model=str(body.get("model", "")),
        thinking=orjson.dumps([body.get("thinking"), effort]).decode(),
        speed=orjson.dumps(body.get("speed")).decode(),
        messages=orjson.dumps([body.get("tool_choice"), image]).decode(),
    )


def _ttl(control: Json) -> Ttl | None:
    return ("1h" if control.get("ttl") == "1h" else "5m") if isinstance(control, dict) else None


def _holds_image(value: Json) -> bool:
    return any(
        block.get("type") == "image" or (isinstance(block.get("content"), list) and _holds_image(block["content"]))
        for block in blocks(value)
    )


# Prefix caches

UNIT = 128
"""An automatic cache without breakpoints counts in units of this many tokens."""
LEAST = 1024
"""Tokens; a shorter prefix is not cached."""
LIFETIME = 30 * 60
"""Default seconds since the last use."""
_LEAST_SIMILAR = 0.1
"""A slot is taken for a prompt when so great a part of the prompt begins like it."""


@attrs.frozen
class LocalServer:
    """How a local server keeps prompts: `slots` of them, each the exact tokens of its last request and reply."""

    slots: int = 1
    seconds_per_1k: float = 0
    """Seconds to evaluate 1000 tokens of a prompt that are in no slot."""


@attrs.frozen
class PrefixUse:
    """Tokens of a prompt that were in the cache."""

    total: int
    cached: int
    keep: Callable[[str], None]
    """Give it the reply's text when the reply begins."""
    seconds: float | None = None
    """What evaluating the rest takes; nothing for a hosted API, which does not tell."""
    written: int = 0
    """Tokens that are billed as written."""

    @property
    def details(self) -> dict[str, int]:
        """What OpenAI's APIs report of it."""
        return {"cached_tokens": self.cached, **({"cache_write_tokens": self.written} if self.written else {})}

    def report(self, predicted: int) -> dict[str, Any] | None:
        """The `timings` of a local server, whose reply has `predicted` tokens."""
        if self.seconds is None:
            return None
        new = self.total - self.cached
        return {
            "prompt_n": new,
            "cache_n": self.cached,
            "prompt_ms": round(self.seconds * 1000, 3),
            "predicted_n": predicted,
        }


class AutomaticCache:
    """Remembers each unit of each prompt, or each of its breakpoints, by a hash of all text up to its end."""

    def __init__(self, seconds: float = LIFETIME) -> None:
        self._seconds = seconds
        self._used: dict[bytes, float] = {}
        """When each prefix was used last."""
        self._breaks: dict[str, set[int]] = {}
        """The breakpoints of all prompts of a key, where a later one is looked up."""

    def look(self, prompt: str, key: str, now: float, breaks: Sequence[int] = ()) -> PrefixUse:
        """The longest prefix that a prompt of the same ``key`` had, in whole units or up to one of these ``breaks`` (in
        characters), where a model that bills its writes caches.
        """
        total = tokens(len(prompt))
        written: Collection[int] = breaks
        if not breaks:
            written = [math.ceil(number * UNIT / TOKENS_PER_CHARACTER) for number in range(1, total // UNIT + 1)]
        written = [end for end in written if tokens(end) >= LEAST]
        known = self._breaks.setdefault(key, set())
        prefixes = _hash(prompt, key, {*written, *known})
        alive = (end for end, prefix in prefixes.items() if now - self._used.get(prefix, -math.inf) <= self._seconds)
        last = max(alive, default=0)
        known.update(written if breaks else ())
        kept = [prefix for end, prefix in prefixes.items() if end in written or end == last]
        new = max(written, default=0) if breaks else 0
        cached = tokens(last)
        return PrefixUse(total, cached, partial(self._keep, kept, now), written=max(0, tokens(new) - cached))

    def _keep(self, prefixes: Iterable[bytes], now: float, reply: str) -> None:
        self._used.update(dict.fromkeys(prefixes, now))


def _hash(prompt: str, key: str, ends: Collection[int]) -> dict[int, bytes]:
    """The hash of the prompt up to each of these ends."""
    running = hashlib.sha256(key.encode())
    found, start = {}, 0
    for end in sorted(end for end in ends if end <= len(prompt)):
        running.update(prompt[start:end].encode("utf-8", "surrogatepass"))
        found[end] = running.digest()[:16]
        start = end
    return found


class Slots:
    """The slots of a local server: a prompt takes the slot that begins most like it, else the one least lately used."""

    def __init__(self, local: LocalServer) -> None:
        self._local = local
        self._held: list[str] = [""] * local.slots
        """The text of each slot, used longest ago first."""

    def look(self, prompt: str, key: str, now: float, breaks: Sequence[int] = ()) -> PrefixUse:
        """Look the prompt up in the best slot. At least one token is always evaluated, as the model needs one."""
        shared = [_count_shared(prompt, held) for held in self._held]
        best = max(range(len(shared)), key=shared.__getitem__)
        place = best if prompt and shared[best] / len(prompt) > _LEAST_SIMILAR else 0
        total = max(1, tokens(len(prompt)))
        cached = min(tokens(shared[place]), total - 1)
        held = self._held.pop(place)
        self._held.append(held)
        seconds = (total - cached) / 1000 * self._local.seconds_per_1k
        return PrefixUse(total, cached, partial(self._keep, held, prompt), seconds)

    def _keep(self, before: str, prompt: str, reply: str) -> None:
        place = self._held.index(before) if before in self._held else 0
        del self._held[place]
        self._held.append(prompt + reply)


def _count_shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
