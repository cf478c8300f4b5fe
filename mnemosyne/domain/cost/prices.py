"""The cost of tokens at a price, and the token counts in a reply's ``usage``.

Money is counted in whole nanodollars: a dollar per million tokens is a thousand nanodollars per token. Sums are exact
and do not depend on their order.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from operator import sub
from typing import Any

import attrs

NANODOLLARS = 10**9
"""Nanodollars in a dollar."""

_LARGEST = 10**9
"""The largest count of tokens that is believed: the log stores costs in 64 bits."""


@attrs.frozen
class Price:
    """Nanodollars per token. ``read`` is the price of tokens read from the provider's cache.

    A prompt of more than ``long_from`` tokens costs ``long_factor`` times as much, and so does its reply, unless
    ``long_output`` gives its price per token. In the provider's fast mode both cost ``fast`` times as much; None if
    there is no such price.
    """

    input: int
    output: int
    read: int
    long_factor: int = 1
    long_output: int | None = None
    long_from: int = 100_000
    fast: int | None = None

    @property
    def write_5m(self) -> int:
        """The price of a write to the cache for five minutes: 1.25 times the input."""
        return self.input * 5 // 4

    @property
    def write_1h(self) -> int:
        """The price of a write to the cache for an hour: twice the input."""
        return self.input * 2

    def nanodollars(self, tokens: "Tokens", *, prompt: int | None = None) -> int:
        """Return the cost of the tokens. For the sum of several replies, ``prompt`` is a size that represents each of
        their prompts.
        """
        given = (
            tokens.input * self.input
            + tokens.read * self.read
            + tokens.write_5m * self.write_5m
            + tokens.write_1h * self.write_1h
        )
        if (tokens.prompt if prompt is None else prompt) <= self.long_from:
            return given + tokens.output * self.output
        output = self.output * self.long_factor if self.long_output is None else self.long_output
        return given * self.long_factor + tokens.output * output

    def equivalents(self, tokens: "Tokens", *, prompt: int | None = None) -> Fraction:
        """Return the cost in tokens of plain input: a token written for five minutes is 1.25 of them. Exact, so that
        sums add up.
        """
        return Fraction(self.nanodollars(tokens, prompt=prompt), self.input)


LONG_PROMPTS = (100_000, 272_000)
"""The prompt sizes above which some model has another price."""


def size_class(prompt: int) -> int:
    """Return one size for all prompts that have the same price per token as this one, for any model."""
    return max((size + 1 for size in LONG_PROMPTS if prompt > size), default=0)


@attrs.frozen
class Tokens:
    """The tokens that a reply used. ``input`` excludes tokens read from the provider's cache or written to it."""

    input: int = 0
    output: int = 0
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0

    @property
    def prompt(self) -> int:
        """The size of the context: all input of the model."""
        return self.input + self.read + self.write_5m + self.write_1h

    def __add__(self, other: "Tokens") -> "Tokens":
        """Add up two counts."""
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.read + other.read,
            self.write_5m + other.write_5m,
            self.write_1h + other.write_1h,
        )

    def __sub__(self, other: "Tokens") -> "Tokens":
        """Subtract a part."""
        return Tokens(*map(sub, attrs.astuple(self), attrs.astuple(other)))


def tokens_of(usage: Mapping[str, Any]) -> Tokens | None:
    """Read the counts in a reply's ``usage``; None if it has none.

    Cache writes without a lifetime, and those that the split by lifetime omits, count as written for five minutes, as
    before there were other lifetimes.
    """
    counts = [_count(usage.get(name)) for name in ("input_tokens", "output_tokens")]
    if counts == [None, None]:
        return None
    written = _count(usage.get("cache_creation_input_tokens")) or 0
    split = usage.get("cache_creation")
    split = split if isinstance(split, Mapping) else {}
    write_1h = _count(split.get("ephemeral_1h_input_tokens")) or 0
    write_5m = _count(split.get("ephemeral_5m_input_tokens")) or 0
    return Tokens(
        input=counts[0] or 0,
        output=counts[1] or 0,
        read=_count(usage.get("cache_read_input_tokens")) or 0,
        write_5m=max(write_5m, written - write_1h),
        write_1h=write_1h,
    )


def reports_cache(usage: Mapping[str, Any]) -> bool:
    """Return whether a reply's ``usage`` reports reads from the provider's cache or writes to it, even a count of 0."""
    return any(
        _count(usage.get(name)) is not None for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
    )


@attrs.frozen(kw_only=True)
class Terms:
    """The terms on which the price of a reply depends, apart from the requested model and the tokens, in the provider's
    words: the ``model`` that replied, the service tier, the region, the speed, and the number of web searches by the
    provider.
    """

    model: str | None = None
    tier: str | None = None
    geo: str | None = None
    speed: str | None = None
    searches: int = 0

    @property
    def is_fast(self) -> bool:
        return "fast" in (self.tier, self.speed)


def terms_of(usage: Mapping[str, Any], model: str | None = None) -> Terms:
    """Read the terms in the ``usage`` of a reply by a ``model``."""
    tier, geo, speed = (usage.get(name) for name in ("service_tier", "inference_geo", "speed"))
    used = usage.get("server_tool_use")
    return Terms(
        model=model,
        tier=tier if isinstance(tier, str) else None,
        geo=geo if isinstance(geo, str) else None,
        speed=speed if isinstance(speed, str) else None,
        searches=(_count(used.get("web_search_requests")) or 0) if isinstance(used, Mapping) else 0,
    )


def window_of(usage: Mapping[str, Any]) -> Tokens | None:
    """Return the input of the last round of a reply, with the output of all its rounds. None if ``usage`` has no
    counts.

    The counts of a ``usage`` are sums over rounds if it has ``iterations`` (Messages API, usage). Entries for a summary
    of the context, or for an adviser that read it, are not rounds.
    """
    used, entries = tokens_of(usage), usage.get("iterations")
    rounds = [
        tokens_of(entry)
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and entry.get("type") in _ROUNDS
    ]
    last = rounds[-1] if rounds else None
    return used if used is None or last is None else attrs.evolve(last, output=used.output)


_ROUNDS = ("message", "fallback_message")


def find_last_usage(window: Tokens | None, before: Sequence[Tokens | None], *, repeats: bool = False) -> Tokens | None:
    """Return the usage of an interrupted last round, given the ``window`` of its turn and the rounds ``before``. None
    if no count came: the window then repeats that of the round before, which earlier versions billed (``repeats``).
    """
    if window is None:
        return None
    output = window.output - sum(each.output for each in before if each is not None)
    used = attrs.evolve(window, output=max(0, output))
    last = before[-1] if before else None
    return None if not repeats and last is not None and used == attrs.evolve(last, output=0) else used


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _LARGEST else None


COMPACTION_TOKENS = 155_000
"""Where Claude Code compacts on its own: recorded sessions did so at 155,000 to 176,000 tokens."""
