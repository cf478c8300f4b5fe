"""Tariffs: the weight of a token relative to plain input, the unit of payment, and the kind of cache."""

import re
from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from math import inf

import attrs

from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.wire.identity import Credential
from mnemosyne.domain.wire.model_names import bare_name
from mnemosyne.upstreams import is_at_home

LIFETIME: Mapping[str, int] = {"5m": 300_000_000, "1h": 3_600_000_000}
"""The lifetime of a cache entry in µs, by what its marker asks for."""

FOREVER = 10**18
"""The lifetime in µs of an entry that does not expire."""


class PaidIn(Enum):
    """The unit of payment."""

    DOLLARS = "dollars"
    QUOTA = "quota"
    SECONDS = "seconds"


class Caching(Enum):
    """What determines which prompts are cached."""

    MARKERS = "markers"
    PREFIX = "prefix"


@attrs.frozen(kw_only=True)
class Weights:
    """The weights of tokens read from the cache, written to it, and produced. Plain input weighs 1."""

    read: Fraction
    write_5m: Fraction
    write_1h: Fraction
    output: Fraction

    def equivalents(self, tokens: Tokens) -> Fraction:
        """Return the weight of these tokens, in tokens of plain input."""
        return (
            tokens.input
            + tokens.output * self.output
            + tokens.read * self.read
            + tokens.write_5m * self.write_5m
            + tokens.write_1h * self.write_1h
        )


def weights_at(price: Price) -> Weights:
    """Return the weights of tokens in dollars."""
    return Weights(
        read=Fraction(price.read, price.input),
        write_5m=Fraction(price.write_5m, price.input),
        write_1h=Fraction(price.write_1h, price.input),
        output=Fraction(price.output, price.input),
    )


@attrs.frozen(kw_only=True)
class Tariff:
    """One way of paying. A session must not cost more in any of its ``units``; the planner compares costs in the first.

    The weights are those of the first unit. In dollars they come from the model's price, unless they are given here.
    ``seconds`` is the lifetime of a cache entry; None means as long as its marker asks for.
    """

    name: str
    units: tuple[PaidIn, ...]
    caching: Caching
    slots: int
    seconds: float | None = None
    read: Fraction | None = None
    write_5m: Fraction | None = None
    write_1h: Fraction | None = None
    output: Fraction | None = None

    def weights(self, price: Price) -> Weights:
        """Return the weights in the first unit, for a model of this price."""
        own = {name: getattr(self, name) for name in attrs.fields_dict(Weights)}
        return attrs.evolve(weights_at(price), **{name: value for name, value in own.items() if value is not None})

    def life(self, *, hour: bool) -> int:
        """Return the lifetime in µs of an entry whose marker asks for an ``hour``, or otherwise for five minutes."""
        if self.seconds is None:
            return LIFETIME["1h" if hour else "5m"]
        return FOREVER if self.seconds == inf else round(self.seconds * 1_000_000)

    @property
    def is_in_dollars(self) -> bool:
        """Whether the planner compares costs in dollars."""
        return self.units[0] is PaidIn.DOLLARS

    @property
    def is_billed(self) -> bool:
        """Whether usage is billed or counted. Otherwise rereading a prompt costs as much with the proxy as
        without it.
        """
        return any(unit is not PaidIn.SECONDS for unit in self.units)

    @property
    def obeys_markers(self) -> bool:
        """Whether markers determine the lifetime of their entries."""
        return self.caching is Caching.MARKERS and self.seconds is None


API = "api"
"""The default tariff of a session."""

_OPENAI = re.compile(r"(?:gpt-\d+(?:\.\d+)?o?|o\d)(?:-[a-z]+)?(?:-latest|-preview|-\d{4}-\d\d-\d\d)?")
"""OpenAI's names for its own models. Some open models have the same prefix: ``gpt-oss:20b``, ``gpt-j-6b``."""

_FREE_WRITES = re.compile(r"gpt-(?:[1-4]|5(?!\.\d)|5\.[0-5](?!\d))|o\d")
"""Prefixes of the names of OpenAI models whose cache writes cost no more than plain input."""


def tariff_name(
    *, credential: Credential | None, hour: bool, host: str, model: str | None, is_known_model: bool
) -> str:
    """Return the name of the tariff for a request: by the kind of its credential, whether its markers ask for an
    ``hour``, the upstream's ``host``, its model, and whether the table has that model.
    """
    name = bare_name(model or "")
    if _OPENAI.fullmatch(name) or (is_known_model and name.startswith("gpt-")):
        return "openai-before-5.6" if _FREE_WRITES.match(name) else "openai"
    if credential == "oauth" or (credential == "bearer" and hour):
        return "subscription"
    if is_at_home(host) and not is_known_model and not name.startswith("claude-"):
        return "local"
    return API
