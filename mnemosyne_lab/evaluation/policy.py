"""Policies, which decide without knowing how they are judged, and the tariffs that recorded sessions can be judged
by.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

import attrs

from mnemosyne.domain.cost.catalogue import in_force, price_of, tariff_of
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.cost.prompt import Prompt, Ttl
from mnemosyne.domain.cost.tariffs import API, Caching, Tariff, Weights
from mnemosyne.domain.objects.fidelity import FidelityMode
from mnemosyne.domain.session.ledger import COMPACTED_TOKENS
from mnemosyne.domain.window.assembly import Renderings, assemble
from mnemosyne.domain.window.planning import Planner, Situation
from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.demand import Demand
from mnemosyne_lab.evaluation.trace import Trace


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
        """The weight of a token that is written to the cache, relative to plain input."""
        weights = self.weights_at(price)
        return weights.write_5m if self.ttl == "5m" else weights.write_1h

    def equivalents(self, tokens: Tokens, price: Price) -> Fraction:
        """The weight of a request in tokens of plain input. In dollars, long prompts may weigh more."""
        return price.equivalents(tokens) if self.tariff.is_in_dollars else self.weights_at(price).equivalents(tokens)

    @property
    def forgets_after(self) -> int:
        """Lifetime of an entry in µs."""
        return self.tariff.life(hour=self.ttl == "1h")


API_5M = JudgedTariff(name="api-5m", about="dollars with an API key: the list price, cache entries of five minutes")
API_1H = JudgedTariff(
    name="api-1h", about="dollars if every marker requests an hour: a write costs twice the input", ttl="1h"
)
QUOTA = JudgedTariff(
    name="quota",
    about="a subscription's quota: every prompt token counts in full, from the cache or not, as users measured;"
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
    about="dollars with OpenAI, before gpt-5.6: the longest prefix of the last five minutes is read, the rest is input",
    pays="openai-before-5.6",
)
LOCAL = JudgedTariff(
    name="local",
    about="a local server with one slot: the tokens that it must read because the last prompt did not begin with them;"
    " against uncompacted: all tokens that it reads, relative to the new ones",
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
    """The tokens of ``prompt`` that a slot with the prompt ``before`` reads from its cache and must compute."""
    shared = before.count_shared(prompt)
    read = prompt[shared - 1].tokens if shared else 0
    return Tokens(read=read, input=prompt.tokens - read)


# Policies

Assemble = Callable[[Sequence[dict[str, Any]], Renderings, int, int], list[dict[str, Any]]]
"""Renders a history from its messages, the objects' renderings, the first message that keeps its thinking, and the
number of the first message.
"""


MODEL = "claude-opus-4-5"
"""Whose prices and cache count where a session's own model has no known price."""


FIXED = 41_000
"""Tokens of system prompt and tools where nothing is known of them: the median of recorded sessions."""


@attrs.frozen(kw_only=True)
class Settings:
    """Settings of a run. ``fixed`` is the size of system prompt and tools in tokens: None for the session's own, or
    FIXED if unknown. With ``memory_tools``, a policy with memory sends its tools with every request, as the server
    does. ``window`` limits the prompt's tokens; None for the models' own.
    """

    tariff: JudgedTariff = API_5M
    model: str = MODEL
    fixed: int | None = None
    memory_tools: bool = False
    window: int | None = None

    @property
    def ttl(self) -> Ttl:
        """How long the client's markers ask the provider to remember."""
        return self.tariff.ttl

    @property
    def price(self) -> Price:
        """Raises NotFound for a model without a known price."""
        price = price_of(self.model)
        if price is None:
            raise BadOption(
                f"The price of {self.model!r} is not known; there are those of {', '.join(sorted(in_force().prices))}."
            )
        return price


def render(
    messages: Sequence[dict[str, Any]], renderings: Renderings, thinking_from: int, first: int
) -> list[dict[str, Any]]:
    """As the server renders it."""
    return assemble(messages, renderings, thinking_from=thinking_from, first=first)


def same_ttl(settings: Settings, situation: Situation, freed: int) -> Ttl:
    """System prompt and tools are held as long as everything else."""
    return settings.ttl


@attrs.frozen
class Compaction:
    """A client drops its history and continues with a summary, requested ``at`` (µs), and with files that it reads
    again: ``tokens``.
    """

    at: int
    tokens: int = COMPACTED_TOKENS


Compacts = Callable[[Settings, int, int, int, int | None], Compaction | None]
"""Whether a client compacts by itself before a request. Arguments after the settings: the size of the last prompt and
of the next one, the time of the next one (µs), and of the last one (None for the first).
"""


@attrs.frozen(kw_only=True)
class Policy:
    """A policy. ``planner`` decides when to rewrite and to which fidelities; ``about`` describes it in a sentence.

    ``history`` is the client's own, with its automatic compactions, or the whole one; compactions that the user ordered
    happen in both, and ``compacts`` adds those of another client. ``assemble`` renders a rewritten history. ``head``
    chooses at a rewrite, from the freed tokens, how long system prompt and tools are cached from then on; an hour is
    final. ``mode`` is how far the server's planner takes an object. A policy that ``has_memory`` answers
    questions about evicted objects; a ``free`` one pays for no rewrite. ``for_trace`` makes a policy that knows one
    session's future. ``guess`` names the assumptions of a policy that models an existing product.
    """

    name: str
    about: str
    planner: Planner | None = None
    history: Literal["client", "whole"] = "whole"
    compacts: Compacts | None = None
    assemble: Assemble = render
    head: Callable[[Settings, Situation, int], Ttl] = same_ttl
    has_memory: bool = False
    mode: FidelityMode = FidelityMode.THRIFTY
    free: bool = False
    guess: str = ""
    for_trace: "Callable[[Trace, Sequence[Demand]], Policy] | None" = None
