"""Prefix caches: the automatic one of a hosted API, and the slots of a local server.

Both see the prompt as one text (see `templates.py`) and count in the stand-in's tokens. A request's writes become
readable with `keep`, which its reply calls when it begins. Time is an argument, in seconds.
"""

import hashlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import attrs

from mnemosyne_lab.provider.reading import TOKENS_PER_CHARACTER, tokens

UNIT = 128
"""The automatic cache counts in units of so many tokens."""
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


class PrefixCache(Protocol):
    """Looks up a prompt. `key` separates prompts that never share anything."""

    def look(self, prompt: str, key: str, now: float) -> PrefixUse: ...


class AutomaticCache:
    """Remembers each unit of each prompt by a hash of all text up to its end."""

    def __init__(self, seconds: float = LIFETIME) -> None:
        self._seconds = seconds
        self._used: dict[bytes, float] = {}
        """When each prefix was used last."""

    def look(self, prompt: str, key: str, now: float) -> PrefixUse:
        """The longest prefix that a prompt of the same key had, in whole units."""
        prefixes = _hash_units(prompt, key)
        known = 0
        for prefix in prefixes:
            if now - self._used.get(prefix, -math.inf) > self._seconds:
                break
            known += 1
        cached = known * UNIT
        return PrefixUse(tokens(len(prompt)), cached if cached >= LEAST else 0, partial(self._keep, prefixes, now))

    def _keep(self, prefixes: list[bytes], now: float, reply: str) -> None:
        self._used.update(dict.fromkeys(prefixes, now))


def _hash_units(prompt: str, key: str) -> list[bytes]:
    running = hashlib.sha256(key.encode())
    units: list[bytes] = []
    start = 0
    for number in range(1, tokens(len(prompt)) // UNIT + 1):
        end = math.ceil(number * UNIT / TOKENS_PER_CHARACTER)
        running.update(prompt[start:end].encode("utf-8", "surrogatepass"))
        units.append(running.digest()[:16])
        start = end
    return units


class Slots:
    """The slots of a local server: a prompt takes the slot that begins most like it, else the one least lately used."""

    def __init__(self, local: LocalServer) -> None:
        self._local = local
        self._held: list[str] = [""] * local.slots
        """The text of each slot, used longest ago first."""

    def look(self, prompt: str, key: str, now: float) -> PrefixUse:
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
