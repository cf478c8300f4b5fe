"""What tokens cost at a price, and what a reply's own accounting says was used.

Money is counted in nanodollars, whole ones: a price of a dollar for a million tokens is a thousand of them for each.
Sums are then exact, and the same in whatever order they are made.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import attrs

NANODOLLARS = 10**9
"""In a dollar."""

_LARGEST = 2**63 - 1


@attrs.frozen
class Price:
    """Nanodollars for each token. ``read`` is for what comes from the provider's cache.

    A prompt of more than ``long_from`` tokens costs ``long_factor`` times as much, and the reply to it as well, or
    ``long_output`` for each token. In the provider's fast mode both cost ``fast`` times as much; None where it has no
    such price.
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
        """For what is written to the cache for five minutes: 1.25 times the input."""
        return self.input * 5 // 4

    @property
    def write_1h(self) -> int:
        """For what is written to the cache for an hour: twice the input."""
        return self.input * 2

    def nanodollars(self, tokens: "Tokens", *, prompt: int | None = None) -> int:
        """What the tokens cost. They may be of several replies together; then ``prompt`` is the size of one that stands
        for each of theirs."""
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
        """The cost in tokens of plain input: a token written for five minutes is 1.25 of them. Exact, so that sums add
        up."""
        return Fraction(self.nanodollars(tokens, prompt=prompt), self.input)


LONG_PROMPTS = (100_000, 272_000)
"""The sizes of a prompt above which some model's price is another."""


def size_class(prompt: int) -> int:
    """A size that stands for all prompts that cost the same for each token as this one, whatever the model."""
    return max((size + 1 for size in LONG_PROMPTS if prompt > size), default=0)


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
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.read + other.read,
            self.write_5m + other.write_5m,
            self.write_1h + other.write_1h,
        )


def tokens_of(usage: Mapping[str, Any]) -> Tokens | None:
    """What a reply's ``usage`` says; None if it says nothing about tokens.

    Writes that are not split by how long they live, and those that a split leaves out, are of five minutes, as they
    were before there were others.
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


def tells_cache(usage: Mapping[str, Any]) -> bool:
    """Whether a reply's ``usage`` says what came from the provider's cache, or went there: a count of 0 says so."""
    return any(
        _count(usage.get(name)) is not None for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
    )


@attrs.frozen(kw_only=True)
class Terms:
    """What the price of a reply depends on beside its model and its tokens, in its provider's words: the service tier,
    where and how fast the model ran, and how often the provider searched the web.
    """

    tier: str | None = None
    geo: str | None = None
    speed: str | None = None
    searches: int = 0


def terms_of(usage: Mapping[str, Any]) -> Terms:
    """The terms that a reply's ``usage`` names."""
    tier, geo, speed = (usage.get(name) for name in ("service_tier", "inference_geo", "speed"))
    used = usage.get("server_tool_use")
    return Terms(
        tier=tier if isinstance(tier, str) else None,
        geo=geo if isinstance(geo, str) else None,
        speed=speed if isinstance(speed, str) else None,
        searches=(_count(used.get("web_search_requests")) or 0) if isinstance(used, Mapping) else 0,
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


COMPACTION_TOKENS = 155_000
"""Where Claude Code compacts on its own: recorded sessions did so at 155,000 to 176,000 tokens."""
