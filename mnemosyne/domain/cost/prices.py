"""What tokens cost: the provider's list prices and models as data, and what a reply's own accounting says was used.

Money is counted in nanodollars, whole ones: a price of a dollar for a million tokens is a thousand of them for each.
Sums are then exact, and the same in whatever order they are made.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import attrs

NANODOLLARS = 10**9
"""In a dollar."""

_LARGEST = 2**63 - 1


@attrs.frozen
class Price:
    """Nanodollars for each token. ``read`` is for what comes from the provider's cache.

    A prompt of more than ``long_above`` tokens costs ``long_factor`` times as much, the reply to it included.
    """

    input: int
    output: int
    read: int
    long_above: int | None = None
    long_factor: int = 1

    @property
    def write_5m(self) -> int:
        """For what is written to the cache for five minutes: 1.25 times the input."""
        return self.input * 5 // 4

    @property
    def write_1h(self) -> int:
        """For what is written to the cache for an hour: twice the input."""
        return self.input * 2

    def nanodollars(self, tokens: "Tokens", *, prompt: int | None = None) -> int:
        """What the tokens cost. They may be of several replies together; then ``prompt`` is the size of one that stands
        for each of theirs."""
        amount = (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.read * self.read
            + tokens.write_5m * self.write_5m
            + tokens.write_1h * self.write_1h
        )
        size = tokens.prompt if prompt is None else prompt
        return amount * self.long_factor if self.long_above is not None and size > self.long_above else amount

    def equivalents(self, tokens: "Tokens", *, prompt: int | None = None) -> Fraction:
        """The cost in tokens of plain input: a token written for five minutes is 1.25 of them. Exact, so that sums add
        up."""
        return Fraction(self.nanodollars(tokens, prompt=prompt), self.input)


LONG_PROMPT = 100_000
"""The size of a prompt above which some model's price is another."""

PRICES: Mapping[str, Price] = {
    "claude-fable-5-2": Price(8_000, 40_000, read=200),
    "claude-fable-5-1": Price(10_000, 50_000, read=250),
    "claude-opus-5-5": Price(4_000, 20_000, read=200),
    "claude-opus-5": Price(5_000, 25_000, read=500),
    "claude-opus-4-8": Price(5_000, 25_000, read=500),
    "claude-opus-4-7": Price(5_000, 25_000, read=500),
    "claude-opus-4-6": Price(5_000, 25_000, read=500),
    "claude-opus-4-5": Price(5_000, 25_000, read=500),
    "claude-sonnet-5-5": Price(2_000, 10_000, read=100),
    "claude-sonnet-5": Price(2_000, 10_000, read=200),
    "claude-sonnet-4-6": Price(3_000, 15_000, read=300),
    "claude-sonnet-4-5": Price(3_000, 15_000, read=300),
    "claude-haiku-5-5": Price(100, 500, read=10, long_above=LONG_PROMPT, long_factor=5),
    "claude-haiku-4-5": Price(1_000, 5_000, read=100),
}
"""List prices by model, as of November 2026. A model that is not here has no price, rather than a guessed one."""


@attrs.frozen
class Model:
    """What else a driver of the model must know, in tokens."""

    cache_minimum: int
    """A shorter prompt is never cached, silently."""
    window: int = 1_000_000
    """What it takes as input."""
    keeps_thinking: bool = True
    """Whether the thinking of earlier exchanges stays in the prompt; else it is dropped when the user speaks."""
    tool_prompt: int | None = None
    """The system prompt that the provider adds when a request has tools; None where it is not published."""


MODELS: Mapping[str, Model] = {
    "claude-fable-5": Model(512),
    "claude-mythos-5": Model(512),
    "claude-opus-5-5": Model(512),
    "claude-sonnet-5-5": Model(512),
    "claude-haiku-5-5": Model(512),
    "claude-opus-5": Model(512, tool_prompt=286),
    "claude-sonnet-5": Model(1024, tool_prompt=354),
    "claude-opus-4-8": Model(1024, tool_prompt=290),
    "claude-opus-4-7": Model(2048, tool_prompt=675),
    "claude-opus-4-6": Model(4096, tool_prompt=497),
    "claude-opus-4-5": Model(4096, tool_prompt=497),
    "claude-opus-4-1": Model(1024, keeps_thinking=False),
    "claude-sonnet-4-6": Model(1024, tool_prompt=497),
    "claude-sonnet-4-5": Model(1024, keeps_thinking=False, tool_prompt=497),
    "claude-haiku-4-5": Model(4096, window=200_000, keeps_thinking=False, tool_prompt=497),
}
"""By family, as of November 2026 (Messages API documentation: models, prompt caching, extended thinking, tool use).

The tool prompt of the 4.5 and 4.6 families is 496 or 497 tokens; the documentation does not say which is whose.
"""

_CURRENT = Model(512)

# The same model under a date or as an alias; `claude-opus-5-9` is not `claude-opus-5`.
_SUFFIX = re.compile(r"(?:[-@]\d{8}|-latest|-v\d+(?::\d+)?|\[1m\])+")

# (numerator, denominator) by what the reply says about where and how it was made.
_GEO = {"us": (11, 10)}
_TIER = {"batch": (1, 2)}


@attrs.frozen
class Tokens:
    """What a reply used. ``input`` is without what was read from the provider's cache or written to it."""

    input: int = 0
    output: int = 0
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0

    @property
    def prompt(self) -> int:
        """The size of the context: all that the model was given."""
        return self.input + self.read + self.write_5m + self.write_1h

    def __add__(self, other: "Tokens") -> "Tokens":
        """Both together."""
        mine, theirs = attrs.astuple(self), attrs.astuple(other)
        return Tokens(*(a + b for a, b in zip(mine, theirs, strict=True)))


def tokens_of(usage: Mapping[str, Any]) -> Tokens | None:
    """What a reply's ``usage`` says; None if it says nothing about tokens.

    Writes that are not split by how long they live are of five minutes, as they were before there were others.
    """
    counts = [_count(usage.get(name)) for name in ("input_tokens", "output_tokens")]
    if counts == [None, None]:
        return None
    written = _count(usage.get("cache_creation_input_tokens")) or 0
    split = usage.get("cache_creation")
    split = split if isinstance(split, Mapping) else {}
    write_1h = _count(split.get("ephemeral_1h_input_tokens")) or 0
    write_5m = _count(split.get("ephemeral_5m_input_tokens"))
    return Tokens(
        input=counts[0] or 0,
        output=counts[1] or 0,
        read=_count(usage.get("cache_read_input_tokens")) or 0,
        write_5m=max(0, written - write_1h) if write_5m is None else write_5m,
        write_1h=write_1h,
    )


def window_of(usage: Mapping[str, Any]) -> Tokens | None:
    """What the model was given in the last of the rounds that a reply took, and what was produced in all of them. None
    if ``usage`` says nothing about tokens.

    It adds the rounds up where its ``iterations`` tell of each (Messages API, usage); a summary that was made of the
    window and an adviser who looked at it have entries, too, and are not the window.
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


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def price_of(model: str | None) -> Price | None:
    """The price of a model under any of its names; None if it is not known."""
    best = ""
    for name in PRICES:
        if model is not None and model.startswith(name) and len(name) > len(best):
            rest = model[len(name) :]
            if not rest or _SUFFIX.fullmatch(rest):
                best = name
    return PRICES[best] if best else None


@lru_cache(maxsize=256)
def family_of(model: str) -> str:
    """The longest name in MODELS that the model's own begins with, as a word; "" if there is none."""
    fitting = [name for name in MODELS if re.match(re.escape(name) + r"(?![\w.])", model)]
    return max(fitting, key=len, default="")


def model_of(model: str | None) -> Model:
    """The model under any of its names. An unknown one is taken for a current one: a client that names a new model
    expects the newest behaviour."""
    return MODELS.get(family_of(model or ""), _CURRENT)


def cost(
    tokens: Tokens, model: str | None, *, prompt: int | None = None, tier: str | None = None, geo: str | None = None
) -> int | None:
    """Nanodollars; None for a model without a known price. For ``prompt`` see ``Price.nanodollars``."""
    price = price_of(model)
    if price is None:
        return None
    amount = price.nanodollars(tokens, prompt=prompt)
    for numerator, denominator in (_GEO.get(geo or "", (1, 1)), _TIER.get(tier or "", (1, 1))):
        amount = amount * numerator // denominator
    return amount


COMPACTION_TOKENS = 155_000
"""Where Claude Code compacts on its own: recorded sessions did so at 155,000 to 176,000 tokens."""
