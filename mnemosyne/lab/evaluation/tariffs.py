"""Who pays what for a token: the tariffs that a session can be judged by.

A tariff says what tokens weigh relative to plain input, and what remembers a prompt. Money is what the provider's list
says; what a quota counts is not published, and a machine of one's own is paid in waiting.
"""

from collections.abc import Sequence
from fractions import Fraction

import attrs

from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.cost.prompt import Prompt, Ttl
from mnemosyne.domain.cost.tariffs import LIFETIME
from mnemosyne.errors import BadOption

FOREVER = 10**18
"""µs: what a machine of one's own remembers is not forgotten with time."""


@attrs.frozen(kw_only=True)
class JudgedWeights:
    """What a token weighs that is read from a cache, written to it, and produced; plain input weighs 1."""

    read: Fraction
    write: Fraction
    output: Fraction


@attrs.frozen(kw_only=True)
class JudgedTariff:
    """``ttl`` is how long the client's markers ask the provider to remember. Without ``weights``, tokens weigh what the
    model's list price says. ``has_slot`` says that nothing is remembered but the last prompt, as far as the next one
    begins with it (one slot of a local server).
    """

    name: str
    about: str
    ttl: Ttl = "5m"
    weights: JudgedWeights | None = None
    has_slot: bool = False

    def weights_at(self, price: Price) -> JudgedWeights:
        """What tokens weigh for a model of that price."""
        if self.weights is not None:
            return self.weights
        return JudgedWeights(
            read=Fraction(price.read, price.input),
            write=Fraction(5, 4) if self.ttl == "5m" else Fraction(2),
            output=Fraction(price.output, price.input),
        )

    def equivalents(self, tokens: Tokens, price: Price) -> Fraction:
        """What a request weighs, in tokens of plain input."""
        if self.weights is None:
            return price.equivalents(tokens)
        written = tokens.write_5m + tokens.write_1h
        weights = self.weights
        return tokens.input + weights.read * tokens.read + weights.write * written + weights.output * tokens.output

    @property
    def forgets_after(self) -> int:
        """µs without a request."""
        return FOREVER if self.has_slot else LIFETIME[self.ttl]


API_5M = JudgedTariff(name="api-5m", about="dollars with an API key: the list price, cache entries of five minutes")
API_1H = JudgedTariff(
    name="api-1h", about="dollars where every marker asks for an hour: a write is twice the input", ttl="1h"
)
QUOTA = JudgedTariff(
    name="quota",
    about="a subscription's quota: every token of a prompt at its face value, from the cache or not, as users measured;"
    " the provider does not publish it",
    ttl="1h",
    weights=JudgedWeights(read=Fraction(1), write=Fraction(1), output=Fraction(5)),
)
LOCAL = JudgedTariff(
    name="local",
    about="a local server with one slot: the tokens that it has to read, since the prompt before did not begin so;"
    " against uncompacted, they are what it reads over what is new",
    weights=JudgedWeights(read=Fraction(0), write=Fraction(1), output=Fraction(0)),
    has_slot=True,
)

TARIFFS: Sequence[JudgedTariff] = (API_5M, API_1H, QUOTA, LOCAL)


def api(ttl: Ttl) -> JudgedTariff:
    """An API key with cache entries that live so long."""
    return API_5M if ttl == "5m" else API_1H


def choose_tariffs(names: Sequence[str]) -> list[JudgedTariff]:
    """These, in the order of TARIFFS; ``all`` is each of them. Raises BadOption."""
    known = [tariff.name for tariff in TARIFFS]
    for name in names:
        if name not in known and name != "all":
            raise BadOption(f"There is no tariff {name!r}; there are {', '.join(known)}, and all.")
    return [tariff for tariff in TARIFFS if tariff.name in names or "all" in names]


def as_slot(before: Prompt, prompt: Prompt) -> Tokens:
    """What one slot has still to read of a prompt, when it holds the one before."""
    low, high = 0, min(len(before), len(prompt))
    while low < high:  # each step's digest is of all before it
        middle = (low + high + 1) // 2
        if before[middle - 1].digest == prompt[middle - 1].digest:
            low = middle
        else:
            high = middle - 1
    read = prompt[low - 1].tokens if low else 0
    return Tokens(read=read, input=prompt.tokens - read)
