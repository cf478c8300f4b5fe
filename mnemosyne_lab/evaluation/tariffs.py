"""The tariffs that a recorded session can be judged by."""

from collections.abc import Sequence
from fractions import Fraction

import attrs

from mnemosyne.domain.cost.catalogue import tariff_of
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.cost.prompt import Prompt, Ttl
from mnemosyne.domain.cost.tariffs import API, Caching, Tariff, Weights
from mnemosyne.errors import BadOption


@attrs.frozen(kw_only=True)
class JudgedTariff:
    """A tariff of a user whose client's markers request cache entries for ``ttl``. Weights and cache follow the tariff
    ``pays`` of the price table.
    """

    name: str
    about: str
    pays: str = API
    ttl: Ttl = "5m"

    @property
    def tariff(self) -> Tariff:
        return tariff_of(self.pays)

    @property
    def has_slot(self) -> bool:
        """Whether the cache holds only the last prompt, as a prefix."""
        return self.tariff.caching is Caching.PREFIX and self.tariff.slots == 1

    def weights_at(self, price: Price) -> Weights:
        return self.tariff.weights(price)

    def write_at(self, price: Price) -> Fraction:
        weights = self.weights_at(price)
        return weights.write_5m if self.ttl == "5m" else weights.write_1h

    def equivalents(self, tokens: Tokens, price: Price) -> Fraction:
        """The weight of a request in tokens of plain input. Long prompts may cost more in dollars."""
        return price.equivalents(tokens) if self.tariff.is_in_dollars else self.weights_at(price).equivalents(tokens)

    @property
    def forgets_after(self) -> int:
        """Lifetime of an entry in µs."""
        return self.tariff.life(hour=self.ttl == "1h")


API_5M = JudgedTariff(name="api-5m", about="dollars with an API key: the list price, cache entries of five minutes")
API_1H = JudgedTariff(
    name="api-1h", about="dollars where every marker asks for an hour: a write is twice the input", ttl="1h"
)
QUOTA = JudgedTariff(
    name="quota",
    about="a subscription's quota: every token of a prompt at its face value, from the cache or not, as users measured;"
    " the provider does not publish it",
    pays="subscription",
    ttl="1h",
)
OPENAI = JudgedTariff(
    name="openai",
    about="dollars with OpenAI, from gpt-5.6 on: the longest prefix of the last half hour is read, the rest is written",
    pays="openai",
)
OPENAI_BEFORE = JudgedTariff(
    name="openai-before-5.6",
    about="dollars with OpenAI, before: the longest prefix of the last five minutes is read, the rest plain input",
    pays="openai-before-5.6",
)
LOCAL = JudgedTariff(
    name="local",
    about="a local server with one slot: the tokens that it has to read, since the prompt before did not begin so;"
    " against uncompacted, they are what it reads over what is new",
    pays="local",
)

TARIFFS: Sequence[JudgedTariff] = (API_5M, API_1H, QUOTA, OPENAI, OPENAI_BEFORE, LOCAL)


def api(ttl: Ttl) -> JudgedTariff:
    """The dollar tariff with cache entries of this lifetime."""
    return API_5M if ttl == "5m" else API_1H


def choose_tariffs(names: Sequence[str]) -> list[JudgedTariff]:
    """The named tariffs in the order of TARIFFS; ``all`` means each. Raises BadOption."""
    known = [tariff.name for tariff in TARIFFS]
    for name in names:
        if name not in known and name != "all":
            raise BadOption(f"There is no tariff {name!r}; there are {', '.join(known)}, and all.")
    return [tariff for tariff in TARIFFS if tariff.name in names or "all" in names]


def as_slot(before: Prompt, prompt: Prompt) -> Tokens:
    """The tokens that one slot, holding the last prompt, must read of the next one."""
    shared = before.count_shared(prompt)
    read = prompt[shared - 1].tokens if shared else 0
    return Tokens(read=read, input=prompt.tokens - read)
